"""SQLMesh: INCREMENTAL_BY_TIME_RANGE on Spark, its state in DuckDB as in its own quick start."""

import json
from datetime import timedelta
from functools import partial

from benchmarks import metastore
from benchmarks.data import FIRST_DAY
from benchmarks.environments import python_of
from benchmarks.settings import environment
from benchmarks.tasks import Command, Contestant, Task, Written

_MODEL = """
MODEL (
  name bench.orders,
  kind INCREMENTAL_BY_TIME_RANGE (time_column day{batch}),
  start '{start}',
  cron '@daily',
  partitioned_by (day),
  storage_format parquet
);
{query}
"""


def _prepare(task: Task, batch_size: int | None) -> None:
    python_of("sqlmesh")
    metastore.prepare(task)
    project = task.state / "project"
    (project / "models").mkdir(parents=True)
    batch = f", batch_size {batch_size}" if batch_size else ""
    condition = "ordered_at BETWEEN @start_ts AND @end_ts"
    condition += " AND ds BETWEEN @start_ds AND @end_ds" if task.by_day else ""
    query = task.query(metastore.SOURCE_TABLE, condition)
    text = _MODEL.format(batch=batch, start=FIRST_DAY.isoformat(), query=query)
    (project / "models" / "orders.sql").write_text(text)
    state = {"type": "duckdb", "database": str(task.state / "state.db")}
    config = {
        "gateways": {"spark": {"connection": {"type": "spark"}, "state_connection": state}},
        "default_gateway": "spark",
        "model_defaults": {"dialect": "spark"},
        "disable_anonymized_analytics": True,
    }
    (project / "config.yaml").write_text(json.dumps(config))  # JSON is YAML, too


def _command(task: Task) -> Command:
    project = task.state / "project"
    sqlmesh = str(python_of("sqlmesh").with_name("sqlmesh"))
    if task.begin == 0:
        now = (FIRST_DAY + timedelta(days=task.end)).isoformat()
        words = ["plan", "--auto-apply", "--no-prompts", "--execution-time", now]
    else:
        last = (FIRST_DAY + timedelta(days=task.end - 1)).isoformat()
        words = ["run", "--ignore-cron", "--end", last]
    return Command((sqlmesh, *words), environment() | metastore.variables(task), project)


def _written(task: Task) -> Written:
    files = (task.state / "warehouse").glob("sqlmesh__bench.db/*/day=*/*.parquet")
    return Written(tuple(sorted(files)), hive=True)


def _contestant(label: str, batch_size: int | None) -> Contestant:
    return Contestant(label, partial(_prepare, batch_size=batch_size), _command, _written)


CONTESTANTS = {
    "sqlmesh-batch-1": _contestant("SQLMesh, batch_size 1", 1),
    "sqlmesh": _contestant("SQLMesh, unlimited batch", None),
}
