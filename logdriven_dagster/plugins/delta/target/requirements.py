"""Requirements of Delta tables that others made, which each commit must meet.

CHECK constraints, invariants, NOT NULL and generated columns are conditions on rows: Spark counts
the new rows that break one. Append-only tables, change data feeds and deletion vectors restrict the
files that a commit may remove.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.engine.storage.spark_files import read_files
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.plugins.delta.format.tables import DataFile, Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CALLS_JAVA = re.compile(r"\b(reflect|try_reflect|java_method)\s*\(", re.IGNORECASE)


def refuse_forbidden_removal(
    snapshot: Snapshot, removed: Sequence[DataFile], *, rewrites: bool
) -> None:
    """Raise TerminalStepError if a commit must not remove these files.

    `rewrites` is True if the commit adds rows of these files again.
    """
    settings = snapshot.table.metadata().configuration
    if removed and settings.get("delta.appendOnly", "").lower() == "true":
        raise TerminalStepError(
            f"the Delta table {snapshot.name} is append-only (delta.appendOnly), but the window "
            "replaces rows of the table; use mode: append, and load each window once"
        )
    if rewrites and settings.get("delta.enableChangeDataFeed", "").lower() == "true":
        raise TerminalStepError(
            f"the Delta table {snapshot.name} has a change data feed, in which rows that the "
            "window does not change would be deleted and inserted, because they share files with "
            "replaced rows; use mode: append, overwrite or overwrite_window with a file per "
            "window, or turn the feed off (delta.enableChangeDataFeed)"
        )
    refuse_deletion_vectors(snapshot, removed)


def refuse_deletion_vectors(snapshot: Snapshot, files: Sequence[DataFile]) -> None:
    """Raise TerminalStepError if a deletion vector deletes rows of one of these files.

    A commit of delta-rs cannot remove such a file.
    """
    reduced = {file.number for file in snapshot.reduced_files}
    for file in files:
        if file.number in reduced:
            raise TerminalStepError(
                f"the Delta table {snapshot.name}: the window replaces rows in {file.location}, of "
                "which a deletion vector deletes rows, and such a file cannot be replaced here; "
                "run REORG TABLE ... APPLY (PURGE) in the engine that wrote it"
            )


def refuse_invalid_rows(spark: "SparkSession", snapshot: Snapshot, files: Sequence[str]) -> None:
    """Raise TerminalStepError if a row in new files breaks a condition of the table."""
    conditions = dict(_conditions(snapshot))
    if not conditions or not files:
        return
    for name, condition in conditions.items():
        if _CALLS_JAVA.search(condition):
            raise TerminalStepError(
                f"the Delta table {snapshot.name}: {name} calls Java code, which is not run here: "
                f"{condition}; replace it in the table"
            )
    frame = read_files(spark, "parquet", files, snapshot.schema)
    broken = frame.agg(
        *(sf.expr(f"count_if(NOT coalesce({each}, false))") for each in conditions.values())
    )
    (row,) = run_action(spark, f"{snapshot.name}: conditions", broken.collect)
    for (name, condition), count in zip(conditions.items(), row, strict=True):
        if count:
            raise TerminalStepError(
                f"the Delta table {snapshot.name}: {count} rows break {name}: {condition}; "
                "change or filter them in the step's SQL"
            )


def _conditions(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield name and SQL of each condition that must be true for every row, and not NULL."""
    for key, expression in snapshot.table.metadata().configuration.items():
        if key.startswith("delta.constraints."):
            name = key.removeprefix("delta.constraints.")
            yield f"the CHECK constraint {name}", f"({expression})"
    for field in snapshot.fields:
        name, quoted = field["name"], quote_name(field["name"])
        if not field["nullable"]:
            yield f"NOT NULL of column {name}", f"({quoted} IS NOT NULL)"
        if text := field["metadata"].get("delta.invariants"):
            yield f"the invariant of column {name}", f"({_get_expression(text)})"
        if expression := field["metadata"].get("delta.generationExpression"):
            kind = snapshot.schema[name].dataType.simpleString()
            condition = f"({quoted} <=> CAST(({expression}) AS {kind}))"
            yield f"the generated column {name}", condition


def _get_expression(invariant: str) -> str:
    return str(json.loads(invariant)["expression"]["expression"])
