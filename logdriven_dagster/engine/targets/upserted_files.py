"""Upserts into a table of Parquet files: files that hold a matching key are rewritten.

A row that a newer window wrote wins over this window's, in whichever order they run. Rows of other
programs have no `_window_start`, so any window is newer. Columns that the result lacks keep their
values.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from uuid import uuid4

from logdriven_dagster.engine.arrow.keys import (
    FEW_ROWS,
    add_window_start,
    build_key_schema,
    find_bad_key,
    find_values,
    match_keys,
)
from logdriven_dagster.engine.arrow.merging import merge_files
from logdriven_dagster.engine.arrow.parquet import rows_of_file
from logdriven_dagster.engine.queries.instants import instant
from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.engine.queries.schemas import WINDOW_START, conform
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.engine.storage.spark_files import FILE, files_named, read_files
from logdriven_dagster.engine.storage.staging import staging_folder
from logdriven_dagster.engine.storage.storage import Storage
from logdriven_dagster.engine.targets.staged_files import write_divided
from logdriven_dagster.engine.targets.store import StagedRows
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import Merged

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_COMPARABLE = ("int", "bigint", "string", "date")
"""Key types whose minimum and maximum narrow down the files to search."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The new keys in one column: integers, texts or dates."""

    low: Any
    high: Any
    values: Sequence[Any] | None = None
    """All of them in ascending order; None if only their ends are known."""

    def may_meet(self, low: Any, high: Any) -> bool:
        """Return True if one of the keys may lie in `[low, high]`; None is an unknown end."""
        if self.values is None:
            return (high is None or high >= self.low) and (low is None or low <= self.high)
        first = 0 if low is None else bisect_left(self.values, low)
        return first < len(self.values) and (high is None or self.values[first] <= high)


KeyRanges: TypeAlias = Mapping[str, KeyRange]
"""Column, as the table spells it → the new keys in it."""


class KeyedFiles(Protocol):
    """The files of a table with keys, for upserts."""

    @property
    def schema(self) -> "StructType":
        """The schema with which Spark reads the files."""
        ...

    def rows(self, spark: "SparkSession", files: Sequence[str]) -> "DataFrame":
        """Return the rows of some of its files, with the file of each row in FILE."""
        ...

    def add_partition_column(self, frame: "DataFrame") -> "DataFrame":
        """Add the column that divides rows among files, if the table needs one."""
        ...

    def with_keys(self, ranges: KeyRanges) -> list[str]:
        """Return the files that may hold keys of all these columns; all without any column.

        The other methods take files that this one returned.
        """
        ...

    def list_past_files(self, columns: Sequence[str], before: datetime) -> Collection[str]:
        """Return the files in which each value of these columns is before a time.

        Excludes files with NULLs and those whose statistics do not prove it.
        """
        ...

    def read_few(
        self, files: Sequence[str], schema: "pa.Schema"
    ) -> "Iterator[tuple[str, pa.RecordBatch]] | None":
        """Return the rows of some of its files in batches, each with its file.

        Names match in any case. Returns None if the files have more than FEW_BYTES, or if only
        Spark reads them exactly.
        """
        ...

    def hold_plain_rows(self, files: Sequence[str]) -> bool:
        """Return True if the table consists of all rows of these files, under their own names.

        It has no partitions, and neither deleted rows nor renamed columns in these files.
        """
        ...


def refuse_duplicate_keys(
    spark: "SparkSession", staged: StagedRows, key: tuple[str, ...], table: str, storage: Storage
) -> None:
    """Raise TerminalStepError if two staged rows have the same key, or a key is null."""
    missing = {name.lower() for name in key} - {name.lower() for name in staged.schema.names}
    if missing:
        raise TerminalStepError(
            f"{table}: the result has no key column {', '.join(sorted(missing))}"
        )
    few = _read_few(staged, key, storage)
    found = _find_bad_key(spark, staged, key, table) if few is None else find_bad_key(few)
    if found is not None:
        values, count = found
        shown = ", ".join(f"{name}={values[name.lower()]!r}" for name in key)
        is_null = any(value is None for value in values.values())
        problem = "a key must not be null" if is_null else f"{count} rows have one key"
        raise TerminalStepError(f"{table}: {problem}: {shown}")


def _find_bad_key(
    spark: "SparkSession", staged: StagedRows, key: tuple[str, ...], table: str
) -> tuple[Mapping[str, Any], int] | None:
    """Return a key that is NULL or occurs several times, with its number of rows; None if none."""
    rows = read_files(spark, "parquet", staged.files, staged.schema)
    keys = [quote_name(name) for name in key]
    empty = " OR ".join(f"{name} IS NULL" for name in keys)
    bad = rows.groupBy(*keys).count().where(f"count > 1 OR {empty}").limit(1)
    for row in run_action(spark, f"{table}: keys", bad.collect):
        return {name.lower(): row[name] for name in key}, row["count"]
    return None


def _read_few(staged: StagedRows, key: tuple[str, ...], storage: Storage) -> "pa.Table | None":
    """Return the new keys, with names in lower case; None if they are for Spark to read."""
    import pyarrow as pa

    schema = build_key_schema(staged.schema, key)
    if schema is None or staged.rows is None or staged.rows > FEW_ROWS:
        return None
    files = (storage.open(path) for path in staged.files)
    batches = (batch for file in files for batch in rows_of_file(file, schema))
    return pa.Table.from_batches(batches, schema)


@dataclass(frozen=True, slots=True)
class Hit:
    """The files and keys of a table that match keys of the new rows."""

    files: list[str]
    older: int = 0
    """The number of keys whose rows the new ones replace."""
    newer: int = 0
    """The number of keys whose rows stay, since a newer window wrote them."""


def merge(
    spark: "SparkSession",
    table: KeyedFiles,
    key: tuple[str, ...],
    staged: StagedRows,
    data: Folder,
) -> tuple[list[str], tuple[str, ...], Merged]:
    """Return the files to remove, the files to add with all remaining rows, and the counts.

    Args:
        table: The existing files.
        key: The names of the key columns.
        staged: The new rows.
        data: The folder for the new files.
    """
    few = _read_few(staged, key, data.storage)
    hit = Hit([])
    # The keys of many rows are read by a query, which an empty table does not need.
    if staged.files and (few is not None or table.with_keys({})):
        hit = _hit(spark, table, key, staged, few)
    done = Merged((staged.rows or 0) - hit.older - hit.newer, hit.older)
    if not hit.files:
        return [], staged.files, done
    added = None
    if few is not None and table.hold_plain_rows(hit.files):
        added = _merge_by_arrow(hit, key, staged, data)
    if added is None:
        merged = table.add_partition_column(_merge_by_spark(spark, table, hit, key, staged))
        run = staged.run
        folder = staging_folder(data, run.job_id, run.step_id)
        added = tuple(write_divided(merged, folder, f"{run.label}: merge"))
    return hit.files, added, done


def _merge_by_arrow(
    hit: Hit, key: tuple[str, ...], staged: StagedRows, data: Folder
) -> tuple[str, ...] | None:
    """Return the files to add with all remaining rows; None if Spark must merge them."""
    run, storage = staged.run, data.storage
    merged = merge_files(hit.files, staged.files, key, run.window.end, storage)
    if merged is None:
        return None
    folder, added = staging_folder(data, run.job_id, run.step_id), []
    try:
        for number, file in enumerate(merged):
            name = f"part-{number:05}-{uuid4()}-c000.{file.codec}.parquet"
            storage.put(f"{folder.location}/{name}", file.content)
            added.append(f"{folder.location}/{name}")
    except BaseException:
        folder.remove()
        raise
    return tuple(added)


def _merge_by_spark(
    spark: "SparkSession",
    table: KeyedFiles,
    hit: Hit,
    key: tuple[str, ...],
    staged: StagedRows,
) -> "DataFrame":
    """Return all remaining rows of the files with matching keys, and the new ones."""
    new = read_files(spark, "parquet", staged.files, staged.schema)
    old = conform(table.rows(spark, hit.files).drop(FILE), staged.schema, staged.run.table)
    newer = _is_newer(f"old.{WINDOW_START}", staged)
    survivors = old.alias("old").join(new.alias("new"), _same_key(key) & ~newer, "left_anti")
    winners = new
    if hit.newer:
        winners = new.alias("new").join(old.alias("old"), _same_key(key) & newer, "left_anti")
    if kept := [name for name in old.columns if name not in new.columns]:
        columns = old.dropDuplicates(list(key)).select(*map(quote_name, [*key, *kept]))
        winners = winners.join(columns, list(key), "left")
    return survivors.unionByName(winners)


def _hit(
    spark: "SparkSession",
    table: KeyedFiles,
    key: tuple[str, ...],
    staged: StagedRows,
    few: "pa.Table | None",
) -> Hit:
    """Return the files that hold a row with one of the new keys, and the number of those keys.

    `few` are the new keys if Arrow can compare them.
    """
    candidates = table.with_keys(_key_ranges(spark, table.schema, key, staged, few))
    if not candidates:
        return Hit([])
    if few is not None and build_key_schema(table.schema, key) == few.schema:
        old = table.read_few(candidates, add_window_start(few.schema))
        if old is not None:
            found = match_keys(few, old, staged.run.window.end)
            files = [file for file in candidates if file in found.files]
            return Hit(files, found.older, found.newer)
    return _match_by_spark(spark, table, key, staged, candidates)


def _match_by_spark(
    spark: "SparkSession",
    table: KeyedFiles,
    key: tuple[str, ...],
    staged: StagedRows,
    candidates: list[str],
) -> Hit:
    new = read_files(spark, "parquet", staged.files, staged.schema)
    old = table.rows(spark, candidates)
    if WINDOW_START not in old.columns:
        old = old.withColumn(WINDOW_START, sf.lit(None).cast("timestamp"))
    matching = old.alias("old").join(new.alias("new"), _same_key(key), "left_semi")
    # A table that other programs filled may hold a key in several rows and files.
    keys = matching.groupBy(*map(quote_name, key)).agg(
        sf.collect_set(FILE).alias("files"),
        sf.bool_or(_is_newer(WINDOW_START, staged)).alias("newer"),
    )
    counts = keys.groupBy("files", "newer").count()
    rows = run_action(spark, f"{staged.run.label}: match", counts.collect)
    return Hit(
        files_named(candidates, {path for row in rows for path in row.files}),
        sum(row["count"] for row in rows if not row.newer),
        sum(row["count"] for row in rows if row.newer),
    )


def _key_ranges(
    spark: "SparkSession",
    known: "StructType",
    key: tuple[str, ...],
    staged: StagedRows,
    few: "pa.Table | None",
) -> KeyRanges:
    """Return the new keys, column by column, for types whose statistics can be compared."""
    types = {field.name.lower(): field.dataType.simpleString() for field in staged.schema.fields}
    spelled = {field.name.lower(): field for field in known.fields}
    names = [
        name
        for name in map(str.lower, key)
        if name in spelled
        and types[name] in _COMPARABLE
        and spelled[name].dataType.simpleString() == types[name]
    ]
    if few is None:
        ranges = _find_ranges_by_spark(spark, names, staged)
    else:
        values = {name: find_values(few, name) for name in names}
        ranges = {name: KeyRange(each[0], each[-1], each) for name, each in values.items()}
    return {spelled[name].name: found for name, found in ranges.items()}


def _find_ranges_by_spark(
    spark: "SparkSession", names: Sequence[str], staged: StagedRows
) -> KeyRanges:
    new = read_files(spark, "parquet", staged.files, staged.schema)
    wanted = [limit(quote_name(name)) for name in names for limit in (sf.min, sf.max)]
    query = new.agg(sf.count("*"), *wanted)
    row = run_action(spark, f"{staged.run.label}: match", query.first)
    assert row is not None
    return {name: KeyRange(row[1 + 2 * n], row[2 + 2 * n]) for n, name in enumerate(names)}


def _same_key(key: tuple[str, ...]) -> "Column":
    columns = map(quote_name, key)
    return reduce(and_, (sf.col(f"old.{each}") == sf.col(f"new.{each}") for each in columns))


def _is_newer(window_start: str, staged: StagedRows) -> "Column":
    """Return a condition: a later window wrote the row; false for a row without a window."""
    newer = sf.col(window_start) >= instant(staged.run.window.end)
    return sf.coalesce(newer, sf.lit(False))  # noqa: FBT003 - a literal
