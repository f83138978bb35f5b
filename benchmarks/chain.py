"""Chains of three tables, and each table alone in a project over the same rows as Parquet.

`python -m benchmarks.chain run NOW PROJECT…` catches up projects, one after the other in one
session; `python -m benchmarks.chain rows SOURCE FOLDER DAYS` writes what they read, by plain Spark.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from benchmarks.data import FIRST_DAY, midnight
from benchmarks.queries import MAP
from benchmarks.settings import SPARK

PRODUCTS = 400
_LINES = """
SELECT order_id, ordered_at, day, customer_id, product, country, {group} AS kind, revenue
FROM {orders} {more}
"""
_TOTALS = """
SELECT day, country, kind, count(*) AS orders, sum(revenue) AS revenue, max(ordered_at) AS last_at
FROM {lines} GROUP BY day, country, kind
"""


@dataclass(frozen=True, slots=True)
class Chain:
    """ods.orders → dwd.lines → dws.totals, maybe with a small table that dwd.lines reads whole."""

    with_products: bool

    @property
    def tables(self) -> list[str]:
        """Upstreams first."""
        products = ["dim.products"] if self.with_products else []
        return [*products, "ods.orders", "dwd.lines", "dws.totals"]

    def query(self, table: str, **names: str) -> str:
        """Return the query of a table over what its inputs are called."""
        if table == "dim.products":
            return f"SELECT * FROM {names['source']}"
        if table == "ods.orders":
            return MAP.format(source=names["source"], filter="true")
        if table == "dws.totals":
            return _TOTALS.format(lines=names["source"])
        if not self.with_products:
            return _LINES.format(orders=names["source"], group="size", more="")
        join = f"LEFT JOIN {names['products']} USING (product)"
        return _LINES.format(orders=names["source"], group="category", more=join)


CHAINS = {"windows": Chain(with_products=False), "whole": Chain(with_products=True)}


def write_chain(chain: Chain, folder: Path, rows: Path) -> None:
    """Write one project of all tables, which read each other."""
    upstream = {"dwd.lines": "ods.orders", "dws.totals": "dwd.lines"}
    configured = []
    for table in chain.tables:
        if (read := upstream.get(table)) is None:
            configured.append(_table(chain, table, _source(table, rows), []))
            continue
        whole = [{"table": "dim.products", "read": "all"}] if chain.with_products else []
        depends_on = [read, *(whole if table == "dwd.lines" else [])]
        sql = chain.query(table, source=read, products="dim.products")
        step = {"step": "load", "sql": sql, "target": {"type": "iceberg"}}
        configured.append(_fields(table, [step]) | {"depends_on": depends_on})
    _write(folder, configured)


def write_pieces(chain: Chain, folder: Path, rows: Path) -> list[Path]:
    """Write a project for each table, which reads Parquet files; the projects."""
    projects = []
    for table in chain.tables:
        joined = chain.with_products and table == "dwd.lines"
        before = [{"step": "products", "source": _source("dim.products", rows)}] if joined else []
        _write(folder / table, [_table(chain, table, _source(table, rows), before)])
        projects.append(folder / table)
    return projects


def _table(chain: Chain, table: str, source: dict[str, str], before: list[Any]) -> dict[str, Any]:
    sql = chain.query(table, source="source", products="products")
    step = {"step": "load", "source": source, "sql": sql, "target": {"type": "iceberg"}}
    return _fields(table, [*before, step])


def _fields(table: str, steps: list[Any]) -> dict[str, Any]:
    kind = {"incremental_type": "full"} if table == "dim.products" else {}
    start = {"period": "1 day", "default_start": FIRST_DAY.isoformat()}
    return {"table": table, **start, **kind, "steps": steps}


def _source(table: str, rows: Path) -> dict[str, str]:
    source = {"type": "parquet", "path": str(rows / table)}
    return source if table == "dim.products" else source | {"window_column": "ordered_at"}


def _write(folder: Path, tables: list[dict[str, Any]]) -> None:
    config = {name: text for name, text in SPARK.items() if name != "spark.master"}
    spark = {"master": SPARK["spark.master"], "config": config}
    settings = {"project": "bench", "timezone": "UTC", "spark": spark}
    (folder / "tables").mkdir(parents=True)
    (folder / "logdriven.yaml").write_text(yaml.safe_dump(settings))
    for table in tables:
        (folder / "tables" / f"{table['table']}.yaml").write_text(yaml.safe_dump(table))


def run(now: datetime, folders: list[Path]) -> None:
    """Catch up one project after the other in one session of Spark."""
    from logdriven_dagster.config import load_project
    from logdriven_dagster.engine import spark_session
    from logdriven_dagster.execution.events import WindowSkipped, WindowStarted, WindowSucceeded
    from logdriven_dagster.execution.opening import open_runner

    projects = [load_project(folder) for folder in folders]
    spark = spark_session(projects[0])
    for project in projects:
        for event in open_runner(project, spark=lambda: spark).catch_up(now):
            assert isinstance(event, WindowStarted | WindowSucceeded | WindowSkipped), event
    spark.stop()


def make_rows(source: Path, folder: Path, days: int) -> None:
    """Write what each table of both chains reads, and what must come of them in the end."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as sf

    spark = SparkSession.builder.config(map=SPARK).getOrCreate()
    orders = spark.read.parquet(str(source)).where(sf.col("ordered_at") < sf.lit(midnight(days)))
    number = sf.col("id").cast("string")
    products = spark.range(PRODUCTS).select(
        sf.concat(sf.lit("PRODUCT "), number).alias("product"),
        sf.concat(sf.lit("category "), (sf.col("id") % 7).cast("string")).alias("category"),
    )
    for name, chain in CHAINS.items():
        frames = {"dim.products": products, "ods.orders": orders}
        for table, frame in _made(chain, spark, frames):
            frame.coalesce(1).write.parquet(str(folder / name / table))
    spark.stop()


def _made(chain: Chain, spark: Any, frames: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What each table reads, by its name, and the last table's rows as `right`."""
    yield "dim.products", frames["dim.products"]
    frames["dim.products"].createOrReplaceTempView("products")
    found = frames["ods.orders"]
    for table in ("ods.orders", "dwd.lines", "dws.totals"):
        yield table, found
        found.createOrReplaceTempView("read")
        found = spark.sql(chain.query(table, source="read", products="products"))
    yield "right", found


if __name__ == "__main__":
    word, first, *others = sys.argv[1:]
    if word == "rows":
        make_rows(Path(first), Path(others[0]), int(others[1]))
    else:
        run(datetime.fromisoformat(first), list(map(Path, others)))
