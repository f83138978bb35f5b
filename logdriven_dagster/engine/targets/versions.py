"""Versions of rows: merge a window into a table that keeps the history of each key (SCD type 2).

A row of the result is a change of its key, at `valid_from`. A window builds on the versions that
began before it: later versions are removed, and those that ended later are open again. So the table
is a function of the changes of its windows, if the later windows run again after it; see
`planning.staleness`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.targets import HistoryTarget
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.queries.instants import instant, instant_text
from logdriven_dagster.engine.queries.quoting import quote_name, text_literal
from logdriven_dagster.engine.queries.schemas import WINDOW_START, conform
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.engine.storage.spark_files import FILE, files_named, read_files
from logdriven_dagster.engine.storage.staging import staging_folder
from logdriven_dagster.engine.targets.staged_files import in_few_files, write_divided
from logdriven_dagster.engine.targets.store import StagedRows, StoreContext
from logdriven_dagster.engine.targets.upserted_files import (
    KeyedFiles,
    merge,
    refuse_duplicate_keys,
)
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import Merged, WindowRun

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession
    from pyspark.sql.types import DataType

_NEW, _DELETED = "_logdriven_new", "_logdriven_deleted"
_SAME, _SEEN = "_logdriven_same", "_logdriven_seen"
_TIMES = ("timestamp", "timestamp_ntz", "date")


def add_version_columns(
    frame: "DataFrame", target: HistoryTarget, run: WindowRun, name: str
) -> "DataFrame":
    """Add `valid_from` and `valid_to` to a result; other modes return it unchanged.

    Raises TerminalStepError if the result cannot be kept as versions.
    """
    if not target.write_mode.keeps_history:
        return frame
    kinds = {field.name.lower(): field.dataType for field in frame.schema.fields}
    for added in target.added_columns:
        if added.lower() in kinds:
            raise TerminalStepError(
                f"{name}: the result has a column {added}, which mode {target.mode} adds; choose "
                f"another name for one of them, such as valid_from: since in the target"
            )
    if used := sorted({_NEW, _DELETED, _SAME, _SEEN} & kinds.keys()):
        raise TerminalStepError(
            f"{name}: the result has a column {used[0]}, a name that mode {target.mode} uses "
            "itself; rename the column in the step's SQL"
        )
    named = [*target.key, *target.track, *filter(None, [target.sequence_by])]
    if missing := [column for column in named if column.lower() not in kinds]:
        raise TerminalStepError(
            f"{name}: the result has no column {', '.join(missing)}, which the target names"
        )
    for column in _list_tracked(target, frame.columns):
        if _holds_map(kinds[column.lower()]):
            raise TerminalStepError(
                f"{name}: column {column} is a map, and maps cannot be compared; convert it in the "
                f"step's SQL, as in map_entries({column}), or list the columns to compare in track"
            )
    since = instant(run.window.start)
    if target.sequence_by is not None:
        kind = kinds[target.sequence_by.lower()].simpleString()
        if kind not in _TIMES:
            raise TerminalStepError(
                f"{name}: sequence_by {target.sequence_by} is {kind}; it must be TIMESTAMP or DATE"
            )
        since = sf.col(quote_name(target.sequence_by)).cast("timestamp")
    until = sf.lit(None).cast("timestamp")
    versions = frame.withColumn(target.valid_from, since).withColumn(target.valid_to, until)
    _refuse_bad_condition(versions, target, name)
    return versions


def _refuse_bad_condition(versions: "DataFrame", target: HistoryTarget, name: str) -> None:
    """Raise TerminalStepError if `deleted_when` is not a condition on columns of the result."""
    if target.deleted_when is None:
        return
    try:
        with step_errors():
            (field,) = versions.select(sf.expr(target.deleted_when)).schema.fields
    except TerminalStepError as error:
        raise TerminalStepError(f"{name}: deleted_when: {error}") from error
    if field.dataType.typeName() not in ("boolean", "void"):
        raise TerminalStepError(
            f"{name}: deleted_when is {field.dataType.simpleString()}; it must be a condition, "
            "such as op = 'D'"
        )


def refuse_bad_keys(
    context: StoreContext, target: HistoryTarget, staged: StagedRows, name: str, folder: Folder
) -> None:
    """Raise TerminalStepError if the keys of staged rows do not identify rows or changes."""
    if target.sequence_by is not None:
        _refuse_bad_changes(context.spark, target, staged, name)
    else:
        refuse_duplicate_keys(context.spark, staged, target.key, name, folder.storage)


def _refuse_bad_changes(
    spark: "SparkSession", target: HistoryTarget, staged: StagedRows, name: str
) -> None:
    """Refuse NULL keys, changes outside the window, and different changes at the same time."""
    assert target.sequence_by is not None
    rows, window = read_files(spark, "parquet", staged.files, staged.schema), staged.run.window
    plain = [f.name for f in staged.schema.fields if not _holds_map(f.dataType)]
    has_maps = len(plain) < len(staged.schema.fields)
    since = quote_name(target.valid_from)
    keys = [quote_name(column) for column in target.key]
    kinds = "count(1)" if has_maps else f"count(DISTINCT {_struct(plain)})"
    found = rows.groupBy(*keys, sf.col(since)).agg(sf.expr(kinds).alias("changes"))
    empty = " OR ".join(f"{key} IS NULL" for key in keys)
    inside = f"{since} >= {instant_text(window.start)} AND {since} < {instant_text(window.end)}"
    bad = found.where(f"{empty} OR {since} IS NULL OR NOT ({inside}) OR changes > 1")
    shown = [f"CAST({key} AS STRING)" for key in [*keys, since]]
    query = bad.selectExpr(
        *(f"{text} AS v{n}" for n, text in enumerate(shown)), f"coalesce({inside}, false) AS inside"
    ).limit(1)
    for row in run_action(spark, f"{name}: keys", query.collect):
        *values, at, is_inside = row
        key = ", ".join(f"{c}={v or 'NULL'}" for c, v in zip(target.key, values, strict=True))
        column = target.sequence_by
        if None in values:
            raise TerminalStepError(f"{name}: a key must not be null: {key}")
        if not is_inside:
            raise TerminalStepError(
                f"{name}: {key} has a change at {column} = {at or 'NULL'}, outside the window "
                f"{window}; sequence_by must be the column that assigns rows to windows"
            )
        raise TerminalStepError(
            f"{name}: two different rows have one key and one {column}: {key}, {column} = {at}"
        )


def merge_rows(
    context: StoreContext,
    table: KeyedFiles,
    target: HistoryTarget,
    staged: StagedRows,
    data: Folder,
) -> tuple[list[str], tuple[str, ...], Merged]:
    """Merge staged rows into a table by key, as its mode says.

    Returns the files to remove, the files to add with all remaining rows, and the counts.
    """
    if not target.write_mode.keeps_history:
        return merge(context.spark, table, target.key, staged, data)
    of_snapshots = context.project.table(staged.run.table).incremental.is_snapshot
    is_snapshot = target.has_all_rows(of_snapshots=of_snapshots)
    return _Fold(context.spark, table, target, staged, is_snapshot=is_snapshot).merge(data)


class _Fold:
    """The merge of one window into the versions of its table."""

    def __init__(
        self,
        spark: "SparkSession",
        table: KeyedFiles,
        target: HistoryTarget,
        staged: StagedRows,
        *,
        is_snapshot: bool,
    ) -> None:
        self._spark, self._table, self._target, self._staged = spark, table, target, staged
        self._is_snapshot = is_snapshot
        self._start = instant_text(staged.run.window.start)
        self._from, self._to = quote_name(target.valid_from), quote_name(target.valid_to)
        self._key = [quote_name(name) for name in target.key]
        self._new = read_files(spark, "parquet", staged.files, staged.schema)

    def merge(self, data: Folder) -> tuple[list[str], tuple[str, ...], Merged]:
        run = self._staged.run
        hit = self._find_hit_files()
        if not hit and not self._staged.files:
            return [], (), Merged(0, 0)
        frame = self._table.add_partition_column(in_few_files(self._fold(hit)))
        folder = staging_folder(data, run.job_id, run.step_id)
        added = tuple(write_divided(frame, folder, f"{run.label}: merge"))
        return hit, added, self._count(added)

    def _find_hit_files(self) -> list[str]:
        """Return the files with versions that the window removes, opens or may close.

        Raises TerminalStepError for rows that no window of a history wrote and that would be lost.
        """
        files = self._table.with_keys({})
        if not files:
            return []
        names = {name.lower() for name in self._table.schema.names}
        if missing := [n for n in self._target.added_columns if n.lower() not in names]:
            raise TerminalStepError(
                f"{self._staged.run.table}: the existing table has rows but no column "
                f"{', '.join(missing)}, so it is not a history; write to a new table"
            )
        past = self._table.list_past_files(
            (*self._target.added_columns,), self._staged.run.window.start
        )
        rows = self._match([file for file in files if file not in past])
        if past and any(row["ended"] for row in rows) and not any(row["own"] for row in rows):
            rows = self._match(files)
        foreign = sum(row["lost"] for row in rows)
        if not any(row["own"] for row in rows):
            foreign += sum(row["ended"] for row in rows)
        if foreign:
            raise TerminalStepError(
                f"{self._staged.run.table}: {foreign} rows that no window wrote have no "
                f"{self._target.valid_from}, or one of {self._target.valid_from} and "
                f"{self._target.valid_to} lies after the start of the window "
                f"{self._staged.run.window}, which would remove it; set {self._target.valid_to} of "
                "current versions to NULL, start the table after the others (default_start), or "
                "write to a new table"
            )
        return files_named(files, {row[FILE] for row in rows if row["hit"]})

    def _match(self, files: Sequence[str]) -> "list[Row]":
        """Count the versions of each file that the window changes, and those it must not lose.

        `own` counts the rows of windows, `lost` and `ended` those of another system.
        """
        if not files:
            return []
        old = self._table.rows(self._spark, files)
        if WINDOW_START not in old.columns:
            old = old.withColumn(WINDOW_START, sf.lit(None).cast("timestamp"))
        keys = self._new.select(*self._key).distinct().withColumn(_NEW, sf.lit(1))
        same = " AND ".join(f"old.{key} = new.{key}" for key in self._key)
        joined = old.alias("old").join(keys.alias("new"), sf.expr(same), "left")
        start, since, until = self._start, f"old.{self._from}", f"old.{self._to}"
        is_met = "true" if self._is_snapshot else f"{_NEW} IS NOT NULL"
        later = f"({since} >= {start} OR {until} >= {start})"
        is_hit = f"{later} OR {since} IS NULL OR ({until} IS NULL AND {is_met})"
        unowned = f"old.{WINDOW_START} IS NULL"
        lost = f"{since} IS NULL OR ({since} >= {start} AND {unowned})"
        counts = {"hit": is_hit, "own": f"NOT {unowned}", "lost": lost}
        # Once a window has run, it may be the one that closed the row of another system.
        counts["ended"] = f"{unowned} AND {since} < {start} AND {until} >= {start}"
        counted = [sf.expr(f"count_if({each})").alias(name) for name, each in counts.items()]
        query = joined.groupBy(FILE).agg(*counted)
        return run_action(self._spark, f"{self._staged.run.label}: match", query.collect)

    def _fold(self, hit: Sequence[str]) -> "DataFrame":
        """Return all remaining rows of the files, and the new versions."""
        changes = self._new.withColumn(_NEW, sf.lit(1)).withColumn(_DELETED, self._is_deleted())
        if not hit:
            return self._build_versions(changes)
        staged = self._staged
        old = conform(
            self._table.rows(self._spark, hit).drop(FILE), staged.schema, staged.run.table
        )
        reopened = f"CASE WHEN {self._to} < {self._start} THEN {self._to} END"
        before = old.where(f"{self._from} < {self._start}").withColumn(
            self._target.valid_to, sf.expr(reopened)
        )
        current = self._refuse_ambiguous(before.where(f"{self._to} IS NULL"))
        current = current.withColumn(_NEW, sf.lit(0)).withColumn(_DELETED, sf.expr("false"))
        events = current.unionByName(changes, allowMissingColumns=True)
        closed = before.where(f"{self._to} IS NOT NULL")
        return closed.unionByName(self._build_versions(events))

    def _refuse_ambiguous(self, current: "DataFrame") -> "DataFrame":
        """Fail the query at a key with several current versions, which would close each other."""
        key = ", ".join(self._target.key)
        problem = (
            f"{self._staged.run.table}: two current versions have one key ({key}); the key of the "
            "target has changed, or another writer added them; load a new table"
        )
        is_only = f"count(1) OVER (PARTITION BY {', '.join(self._key)}) = 1"
        failed = f"CAST(raise_error({text_literal(problem)}) AS BOOLEAN)"
        checked = current.withColumn(_SAME, sf.expr(is_only))
        return checked.where(f"{_SAME} OR {failed}").drop(_SAME)

    def _is_deleted(self) -> "Column":
        return sf.expr(f"coalesce({self._target.deleted_when or 'false'}, false)")

    def _build_versions(self, events: "DataFrame") -> "DataFrame":
        """Return the versions of changes: of each key in order, without those that change nothing.

        `events` are the current versions and the changes of the window, which are marked by _NEW.
        """
        by_key = f"PARTITION BY {', '.join(self._key)}"
        in_order = f"OVER ({by_key} ORDER BY {self._from})"
        names = [name for name in events.columns if name not in (_NEW, _DELETED)]
        tracked = _list_tracked(self._target, names)
        values = _struct(tracked)
        was_deleted, was = f"lag({_DELETED}) {in_order}", f"lag({values}) {in_order}"
        both = f"({_DELETED} OR {was} <=> {values})"
        same = f"coalesce({was_deleted} = {_DELETED} AND {both}, false)"
        marked = events.withColumn(_SAME, sf.expr(same))
        marked = marked.withColumn(_SEEN, sf.expr(f"max({_NEW}) OVER ({by_key})"))
        kept = marked.where(f"NOT {_SAME}")
        end = f"lead({self._from}) {in_order}"
        if self._is_snapshot:
            end = f"coalesce({end}, CASE WHEN {_SEEN} = 0 THEN {self._start} END)"
        ended = kept.withColumn(self._target.valid_to, sf.expr(end))
        return ended.where(f"NOT {_DELETED}").drop(_NEW, _DELETED, _SAME, _SEEN)

    def _count(self, added: Sequence[str]) -> Merged:
        """Count the versions that the window started, and earlier ones that it closed."""
        from pyspark.sql.types import StructField, StructType, TimestampType

        fields = [StructField(name, TimestampType()) for name in self._target.added_columns]
        rows = read_files(self._spark, "parquet", added, StructType(fields))
        started = f"count_if({self._from} >= {self._start})"
        closed = f"count_if({self._from} < {self._start} AND {self._to} >= {self._start})"
        query = rows.selectExpr(f"{started} AS started", f"{closed} AS closed")
        (row,) = run_action(self._spark, f"{self._staged.run.label}: count", query.collect)
        return Merged(inserted=row["started"], updated=row["closed"])


def _list_tracked(target: HistoryTarget, columns: Sequence[str]) -> list[str]:
    """Return the columns whose changes start a new version."""
    if target.track:
        wanted = {name.lower() for name in target.track}
        return [name for name in columns if name.lower() in wanted]
    given = (*target.key, *target.added_columns, target.sequence_by or "", WINDOW_START)
    untracked = {name.lower() for name in given}
    return [name for name in columns if name.lower() not in untracked]


def _struct(columns: Sequence[str]) -> str:
    """Return SQL of the values of some columns, to be compared at once."""
    return f"struct({', '.join(map(quote_name, columns)) or 1})"


def _holds_map(kind: "DataType") -> bool:
    return "map<" in kind.simpleString() or kind.typeName() == "variant"
