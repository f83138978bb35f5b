"""Plain PySpark, as a careful user writes it: no log, no order, nothing atomic."""

import json
from functools import partial
from pathlib import Path

from sqlalchemy.engine import make_url

from benchmarks.data import midnight
from benchmarks.settings import environment, own_python, write_defaults
from benchmarks.tasks import Command, Contestant, Task, Written

_PROGRAM = Path(__file__).resolve().parents[1] / "programs" / "plain.py"
_TABLE = "plain_orders"
CONDITION = "ordered_at >= TIMESTAMP '{start}' AND ordered_at < TIMESTAMP '{end}'"
_OF_FOLDERS = " AND ds >= to_date('{start}') AND ds < to_date('{end}')"


def _prepare(task: Task) -> None:
    write_defaults(task.state / "conf", _defaults(task))


def _defaults(task: Task) -> dict[str, str]:
    warehouse = {"spark.sql.warehouse.dir": str(task.state / "warehouse")}
    if task.database is None:
        return warehouse
    return warehouse | {"spark.driver.extraClassPath": "/usr/share/java/postgresql.jar"}


def bounds(task: Task, way: str) -> list[list[str]]:
    """Pairs of times between which rows are read: those of each day in a `loop`, or of all days."""
    days = range(task.begin, task.end)
    pairs = [(n, n + 1) for n in days] if way == "loop" else [(task.begin, task.end)]
    return [[f"{midnight(n):%Y-%m-%d %H:%M:%S}" for n in pair] for pair in pairs]


def _command(task: Task, way: str) -> Command:
    told = {
        "source": str(task.source),
        "query": task.query("orders", CONDITION + (_OF_FOLDERS if task.by_day else "")),
        "bounds": bounds(task, way),
        "out": str(task.state / "out"),
        "url": _jdbc_url(task.database),
        "table": _TABLE,
    }
    variables = environment() | {"SPARK_CONF_DIR": str(task.state / "conf")}
    return Command((own_python(), str(_PROGRAM), json.dumps(told)), variables, task.state)


def _jdbc_url(database: str | None) -> str | None:
    """As ours has it, with the driver's batches on."""
    if database is None:
        return None
    url = make_url(database)
    where = f"{url.host}:{url.port}/{url.database}"
    return f"jdbc:postgresql://{where}?user={url.username}&reWriteBatchedInserts=true"


def _written(task: Task) -> Written:
    if task.target == "jdbc":
        return Written(table=_TABLE)
    return Written(tuple(sorted((task.state / "out").glob("day=*/*.parquet"))), hive=True)


def _contestant(label: str, way: str) -> Contestant:
    command = partial(_command, way=way)
    return Contestant(label, _prepare, command, _written, knows_when_done=False)


CONTESTANTS = {
    "plain-loop": _contestant("plain PySpark, a write for each window", "loop"),
    "plain-pass": _contestant("plain PySpark, a single pass", "pass"),
}
