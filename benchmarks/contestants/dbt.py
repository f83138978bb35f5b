"""dbt-core with dbt-spark: method session, incremental strategy microbatch by the day."""

import json
from datetime import timedelta

from benchmarks import metastore
from benchmarks.data import FIRST_DAY
from benchmarks.environments import python_of
from benchmarks.settings import environment
from benchmarks.tasks import Command, Contestant, Task, Written

_MODEL = """
{{{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='day',
  begin='{begin}', batch_size='day', lookback=0, partition_by=['day'], file_format='parquet') }}}}
{query}
"""
_PROJECT = {
    "name": "bench",
    "version": "1.0",
    "config-version": 2,
    "profile": "bench",
    "flags": {"send_anonymous_usage_stats": False, "use_colors": False},
}
_PROFILE = {
    "bench": {
        "target": "dev",
        "outputs": {
            "dev": {
                "type": "spark",
                "method": "session",
                "schema": "bench",
                "host": "NA",
                "threads": 1,
            }
        },
    }
}
_SOURCES = {
    "version": 2,
    "sources": [
        {"name": "raw", "tables": [{"name": "orders", "config": {"event_time": "ordered_at"}}]}
    ],
}


def _prepare(task: Task) -> None:
    python_of("dbt")
    metastore.prepare(task)
    project = task.state / "project"
    (project / "models").mkdir(parents=True)
    query = task.query("{{ source('raw', 'orders') }}", "true")
    model = _MODEL.format(begin=FIRST_DAY.isoformat(), query=query)
    (project / "models" / "orders.sql").write_text(model)
    for name, content in (
        ("dbt_project.yml", _PROJECT),
        ("profiles.yml", _PROFILE),
        ("models/sources.yml", _SOURCES),
    ):
        (project / name).write_text(json.dumps(content))


def _command(task: Task) -> Command:
    # dbt keeps no record of what is done: what a scheduler starts again does the last day again.
    begin = min(task.begin, task.end - 1)
    first, last = (FIRST_DAY + timedelta(days=n) for n in (begin, task.end))
    words = ["run", "--event-time-start", first.isoformat(), "--event-time-end", last.isoformat()]
    dbt = str(python_of("dbt").with_name("dbt"))
    project = task.state / "project"
    return Command((dbt, *words), environment() | metastore.variables(task), project)


def _written(task: Task) -> Written:
    files = (task.state / "warehouse").glob("bench.db/orders/day=*/*.parquet")
    return Written(tuple(sorted(files)), hive=True)


CONTESTANTS = {
    "dbt": Contestant(
        "dbt microbatch, a day each",
        _prepare,
        _command,
        _written,
        note="dbt keeps no record of finished batches: with nothing new it runs the last day again",
    )
}
