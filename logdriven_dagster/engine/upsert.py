"""Upsert into an Iceberg table: files that hold a matching key are written anew, the rest stay.

A row that a newer window wrote wins over this window's, in whatever order they run (DESIGN §7).
"""

from functools import reduce
from operator import and_
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from logdriven_dagster.engine.actions import run_action
from logdriven_dagster.engine.iceberg_files import between, location, matching_files, parquet_rows
from logdriven_dagster.engine.iceberg_schema import spark_schema
from logdriven_dagster.engine.schemas import WINDOW_START, conform
from logdriven_dagster.engine.staging import (
    StagedRows,
    data_files,
    read_files,
    remove_folder,
    staging_folder,
)
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyspark.sql import Column, DataFrame, SparkSession

_COMPARABLE = ("int", "bigint", "string", "date")
"""Key types whose smallest and largest values narrow down the files to look into."""


def refuse_duplicate_keys(rows: "DataFrame", key: tuple[str, ...], table: str) -> None:
    """TerminalStepError if two rows have one key, since neither should win, or a key is null."""
    missing = {name.lower() for name in key} - {name.lower() for name in rows.columns}
    if missing:
        raise TerminalStepError(
            f"{table}: the result has no key column {', '.join(sorted(missing))}"
        )
    empty = " OR ".join(f"`{name}` IS NULL" for name in key)
    bad = rows.groupBy(*key).count().where(f"count > 1 OR {empty}").limit(1)
    for row in run_action(rows.sparkSession, f"{table}: keys", bad.collect):
        shown = ", ".join(f"{name}={row[name]!r}" for name in key)
        null = any(row[name] is None for name in key)
        problem = "a key must not be null" if null else f"{row['count']} rows have one key"
        raise TerminalStepError(f"{table}: {problem}: {shown}")


def merge(
    spark: "SparkSession", table: "Table", key: tuple[str, ...], staged: StagedRows
) -> "tuple[list[DataFile], tuple[str, ...]]":
    """The files to remove, and those to add, which hold the surviving and the new rows."""
    new = read_files(spark, "parquet", staged.files, staged.schema)
    if not staged.files or not matching_files(table):
        return [], staged.files
    hit = _hit_files(new, table, key, staged)
    if not hit:
        return [], staged.files
    schema = spark_schema(table.schema())
    old = read_files(spark, "parquet", [file.file_path for file in hit], schema)
    old = conform(old, staged.schema, staged.stamp.table)
    survivors = old.alias("old").join(new.alias("new"), _same_key(key, "<="), "left_anti")
    winners = new.alias("new").join(old.alias("old"), _same_key(key, ">"), "left_anti")
    merged = survivors.unionByName(winners)
    folder = staging_folder(Path(staged.location).parent, staged.stamp)
    try:
        run_action(
            spark,
            f"{staged.stamp.label}: merge",
            lambda: merged.write.mode("append").parquet(str(folder)),
        )
    except BaseException:
        remove_folder(folder)
        raise
    return hit, tuple(location(path) for path in data_files(folder) if parquet_rows(path))


def _hit_files(
    new: "DataFrame", table: "Table", key: tuple[str, ...], staged: StagedRows
) -> "list[DataFile]":
    """The files that hold a row whose key is among the new ones."""
    spark, label = new.sparkSession, f"{staged.stamp.label}: match"
    candidates = matching_files(table, _key_range(new, table, key, label))
    if not candidates:
        return []
    schema = spark_schema(table.schema())
    old = read_files(spark, "parquet", [file.file_path for file in candidates], schema)
    named = old.select("*", "_metadata.file_path").alias("old")
    matching = named.join(new.alias("new"), _same_key(key), "left_semi")
    rows = run_action(spark, label, lambda: matching.select("file_path").distinct().collect())
    hit = {_plain(unquote(row.file_path)) for row in rows}
    return [file for file in candidates if _plain(file.file_path) in hit]


def _plain(path: str) -> str:
    return path.removeprefix("file:").lstrip("/")


def _key_range(
    new: "DataFrame", table: "Table", key: tuple[str, ...], label: str
) -> "BooleanExpression":
    """Between the smallest and the largest new key, column by column."""
    from pyiceberg.expressions import AlwaysTrue, And
    from pyspark.sql import functions as sf

    types = {field.name.lower(): field.dataType.simpleString() for field in new.schema.fields}
    names = [name for name in key if types[name.lower()] in _COMPARABLE]
    wanted = [limit(name) for name in names for limit in (sf.min, sf.max)]
    row = run_action(new.sparkSession, label, lambda: new.agg(sf.count("*"), *wanted).first())
    assert row is not None
    condition: BooleanExpression = AlwaysTrue()
    for number, name in enumerate(names):
        low, high = row[1 + 2 * number], row[2 + 2 * number]
        if _field_type(table, name) != types[name.lower()]:
            continue
        low, high = (value if isinstance(value, int) else str(value) for value in (low, high))
        condition = And(condition, between(name, low, high))
    return condition


def _field_type(table: "Table", name: str) -> str | None:
    schema = spark_schema(table.schema())
    types = {field.name.lower(): field.dataType.simpleString() for field in schema.fields}
    return types.get(name.lower())


def _same_key(key: tuple[str, ...], order: str | None = None) -> "Column":
    """Equal keys; with `order` of the windows: `old.window <order> new.window`."""
    from pyspark.sql import functions as sf

    same = [sf.col(f"old.`{name}`") == sf.col(f"new.`{name}`") for name in key]
    old, new = sf.col(f"old.{WINDOW_START}"), sf.col(f"new.{WINDOW_START}")
    orders = {"<=": [old <= new], ">": [old > new]}
    return reduce(and_, same + orders.get(order or "", []))
