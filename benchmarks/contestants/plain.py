"""Plain PySpark, as a careful user writes it: no log, no order, nothing atomic."""

import json
import sys
from functools import partial
from pathlib import Path

from sqlalchemy.engine import make_url

from benchmarks.data import midnight
from benchmarks.settings import own_environment, own_python, write_defaults
from benchmarks.tasks import Command, Contestant, Task, Written


def _prepare(task: Task) -> None:
    write_defaults(task.state / "conf", _defaults(task))


def _defaults(task: Task) -> dict[str, str]:
    warehouse = {"spark.sql.warehouse.dir": str(task.state / "warehouse")}
    if task.database is None:
        return warehouse
    return warehouse | {"spark.driver.extraClassPath": "/usr/share/java/postgresql.jar"}


def _command(task: Task, way: str) -> Command:
    described = json.dumps([task.transform, str(task.source), task.begin, task.end])
    arguments = [way, described, str(task.state / "out"), _jdbc_url(task.database)]
    variables = {"SPARK_CONF_DIR": str(task.state / "conf")}
    return Command(
        (own_python(), "-m", "benchmarks.contestants.plain", *arguments),
        own_environment() | variables,
        task.state,
    )


def _jdbc_url(database: str | None) -> str:
    """As ours has it, with the driver's batches on."""
    if database is None:
        return ""
    url = make_url(database)
    where = f"{url.host}:{url.port}/{url.database}"
    return f"jdbc:postgresql://{where}?user={url.username}&reWriteBatchedInserts=true"


def _written(task: Task) -> Written:
    if task.target == "jdbc":
        return Written(table="plain_orders")
    return Written(tuple(sorted((task.state / "out").glob("day=*/*.parquet"))), hive=True)


def _contestant(label: str, way: str) -> Contestant:
    command = partial(_command, way=way)
    return Contestant(label, _prepare, command, _written, knows_when_done=False)


CONTESTANTS = {
    "plain-loop": _contestant("plain PySpark, a write for each window", "loop"),
    "plain-pass": _contestant("plain PySpark, a single pass", "pass"),
}


def _main(way: str, described: str, out: str, url: str) -> None:
    from pyspark.sql import SparkSession

    transform, source, begin, end = json.loads(described)
    task = Task(transform, Path(source), Path(out), begin, end)
    spark = SparkSession.builder.getOrCreate()
    spark.read.parquet(source).createOrReplaceTempView("orders")
    bounds = [(n, n + 1) for n in range(begin, end)] if way == "loop" else [(begin, end)]
    for first, last in bounds:
        start, stop = (f"TIMESTAMP '{midnight(n):%Y-%m-%d %H:%M:%S}'" for n in (first, last))
        condition = f"ordered_at >= {start} AND ordered_at < {stop}"
        frame = spark.sql(task.query("orders", condition))
        if url:
            frame.write.jdbc(url, "plain_orders", "append", _JDBC)
            continue
        writer = frame.write.partitionBy("day").mode("overwrite")
        writer.option("partitionOverwriteMode", "dynamic").parquet(out)
    spark.stop()


_JDBC = {"driver": "org.postgresql.Driver", "batchsize": "10000"}

if __name__ == "__main__":
    _main(*sys.argv[1:])
