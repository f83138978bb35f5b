"""dlt: incremental loads into an Iceberg table in a folder. Its rows are moved without Spark."""

import json
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from benchmarks.data import midnight
from benchmarks.environments import python_of
from benchmarks.iceberg_files import files_of
from benchmarks.settings import environment
from benchmarks.tasks import Command, Contestant, Task, Written

_PROGRAM = Path(__file__).resolve().parents[1] / "programs" / "dlt_loads.py"
_NOTE = "dlt moves no row by Spark: DuckDB reads and transforms them, PyIceberg writes them"
_QUIET = {"RUNTIME__DLTHUB_TELEMETRY": "false", "RUNTIME__LOG_LEVEL": "ERROR"}


def _prepare(_task: Task) -> None:
    python_of("dlt")


def _command(task: Task, way: str) -> Command:
    new = "ordered_at > TIMESTAMPTZ '{start}' AND ordered_at < TIMESTAMPTZ '{end}'"
    ends = range(task.begin + 1, task.end + 1) if way == "loop" else [task.end]
    files = "*/*.parquet" if task.by_day else "*.parquet"
    told = {
        "query": task.query(f"read_parquet('{task.source}/{files}')", new),
        "first": _text(midnight(0) - timedelta(microseconds=1)),
        "ends": [_text(midnight(day)) for day in (list(ends) or [task.end])],
        "out": str(task.state / "out"),
        "state": str(task.state / "dlt"),
    }
    words = (str(python_of("dlt")), str(_PROGRAM), json.dumps(told))
    return Command(words, environment() | _QUIET, task.state)


def _text(instant: datetime) -> str:
    return instant.isoformat(" ")


def _written(task: Task) -> Written:
    from pyiceberg.table import StaticTable

    kept = (task.state / "out" / "bench" / "orders" / "metadata").glob("*.metadata.json")
    return Written(files_of(StaticTable.from_metadata(str(max(kept)))))


CONTESTANTS = {
    "dlt-loop": Contestant(
        "dlt, Iceberg, a load for each day",
        _prepare,
        partial(_command, way="loop"),
        _written,
        note=_NOTE,
    ),
    "dlt": Contestant(
        "dlt, Iceberg, a single load", _prepare, partial(_command, way="pass"), _written, note=_NOTE
    ),
}
