"""Plain PySpark and PyIceberg, as a careful user puts them together: no log, no order."""

import json
from functools import partial
from pathlib import Path

from benchmarks.contestants.plain import CONDITION, bounds
from benchmarks.iceberg_files import files_of
from benchmarks.settings import environment, own_python, write_defaults
from benchmarks.tasks import Command, Contestant, Task, Written

_PROGRAM = Path(__file__).resolve().parents[1] / "programs" / "plain_iceberg.py"


def _prepare(task: Task) -> None:
    write_defaults(task.state / "conf", {})


def _catalog(task: Task) -> dict[str, str]:
    database = f"sqlite:///{task.state / 'catalog.db'}"
    return {"type": "sql", "uri": database, "warehouse": f"file://{task.state / 'warehouse'}"}


def _command(task: Task, way: str) -> Command:
    told = {
        "source": str(task.source),
        "query": task.query("orders", CONDITION),
        "bounds": bounds(task, way),
        "catalog": _catalog(task),
        "way": way,
        "out": str(task.state / "out"),
    }
    variables = environment() | {"SPARK_CONF_DIR": str(task.state / "conf")}
    return Command((own_python(), str(_PROGRAM), json.dumps(told)), variables, task.state)


def _written(task: Task) -> Written:
    from pyiceberg.catalog import load_catalog

    return Written(files_of(load_catalog("plain", **_catalog(task)).load_table("bench.orders")))


def _contestant(label: str, way: str) -> Contestant:
    command = partial(_command, way=way)
    return Contestant(label, _prepare, command, _written, knows_when_done=False)


CONTESTANTS = {
    "plain-iceberg-loop": _contestant(
        "plain PySpark, PyIceberg overwrites each window's days with its rows as Arrow", "loop"
    ),
    "plain-iceberg-pass": _contestant(
        "plain PySpark, a single pass whose files PyIceberg adds", "pass"
    ),
}
