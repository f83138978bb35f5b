"""Rows of sources outside any window: counted once for each state of the files.

A window's own pass cannot count them: its filter lets Spark skip the conversion of all other rows.
So one query reads the window column of each new version of a file.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.sql.window_keys import OF_A_WINDOW
from logdriven_dagster.engine.queries.quoting import reference
from logdriven_dagster.engine.queries.window_values import WindowValues
from logdriven_dagster.engine.sources.file_rows import (
    FileSelection,
    group_by_file,
    read_groups,
)
from logdriven_dagster.engine.sources.known_sources import FileVersions, Looks
from logdriven_dagster.engine.sources.readers import (
    Reading,
    columns_named_by,
    read_source,
    reader_of,
    values_of,
)
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.errors import AttemptLostError, TerminalStepError
from logdriven_dagster.model.source_rows import FileRows, FileVersion, SourceRows, sum_files
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_DIGITS = 38
_NEVER = datetime(9999, 12, 31, tzinfo=timezone.utc)
"""The end of the windows of a table without an end."""


class Look(NamedTuple):
    """The rows of a step's source by window."""

    rows: SourceRows
    is_new: bool
    """True if some of them were counted just now."""


def look(reading: Reading, step: StepConfig, looks: Looks) -> Look | None:
    """Count the rows of a step's source inside and outside windows; None if that is not cheap.

    Raises TerminalStepError for rows outside any window if the table does not allow them.
    """
    table, source = reading.table, step.source
    if source is None or table.rows_outside == "ignore" or not can_assign_windows(table, source):
        return None
    files = reader_of(source).fingerprint(reading, source)
    strict = table.rows_outside == "fail"
    if files is None and not strict:
        return None
    known = looks.find(table.table, step.step)
    if known is not None and looks.is_current(known, files):
        found: SourceRows | None = known
    else:
        found = _count_rows(lambda: _count_changed(reading, step, files, known), strict=strict)
    if found is None:
        return None
    if files is not None:
        looks.keep(found, files)
    if strict and found.outside:
        refuse_rows_outside(found)
    return Look(found, is_new=found is not known)


def _count_changed(
    reading: Reading, step: StepConfig, files: FileVersions | None, known: SourceRows | None
) -> SourceRows:
    """Count the rows of files that were not counted before; return `known` if there are none."""
    table, source = reading.table, step.source
    assert source is not None
    if files is None:
        return count_rows(reading, step, None)
    reader = reader_of(source)
    if known is not None:
        reader.learn_files(source, (rows for rows in known.files if rows.version in files))
    read = reader.list_files(reading, source, files)
    digest = _digest(reading, source, () if read is not None else files)
    if known is not None and known.digest != digest:
        known = None
    if read is None:
        return known or replace(count_rows(reading, step, None), digest=digest)
    earlier = known.files if known is not None else ()
    counted = [rows for rows in earlier if rows.version in read]
    if new := read - {rows.version for rows in counted}:
        found = _count_files(reading, step, new, counted)
        if found is None:
            return count_rows(reading, step, None)  # files come and go
        counted += (
            replace(rows, footer=reader.describe_file(source, rows.version)) for rows in found
        )
    elif known is not None and len(counted) == len(earlier):
        return known
    varies = OF_A_WINDOW.search(str(source)) is not None
    return sum_files(table.table, step.step, digest, counted, is_partial=varies)


def _count_files(
    reading: Reading, step: StepConfig, files: FileVersions, counted: Iterable[FileRows]
) -> list[FileRows] | None:
    """Count the rows of files by file, without those `counted`; None if Spark reads others, too."""
    table, source = reading.table, step.source
    assert source is not None
    names = frozenset(rows.location for rows in counted if rows.location)
    others = FileSelection(names, is_inverted=True, with_names=True)
    frame = reader_of(source).all_rows(replace(reading, files=others), source)
    with columns_named_by(source):
        conditions = _conditions(reading, source, frame, None, None)
        conditions = {name: conditions[name] for name in ("unplaced", "before", "after")}
        is_timed = source.window_column is not None
        position = values_of(reading, source, frame).position if is_timed else None
        asked = group_by_file(frame, conditions, position)
    label = f"{table.table} {step.step}: rows of {len(files)} files by window"
    return read_groups(run_action(reading.spark, label, asked.collect), files)


def refuse_rows_outside(rows: SourceRows) -> NoReturn:
    """Raise TerminalStepError for the rows outside any window of a table that allows none."""
    raise TerminalStepError(f"{rows.message}; the table has rows_outside: fail")


def look_for_any(reading: Reading, step: StepConfig, looks: Looks) -> SourceRows | None:
    """Count the rows of a source if none belongs to any window; None if one does.

    A source without a cheap state is searched once by each process, after a window has read no rows
    from it: a database finds one row by the column's index.
    """
    table, source = reading.table, step.source
    if source is None or table.rows_outside == "ignore" or table.is_sliced:
        return None
    if OF_A_WINDOW.search(str(source)):
        return None  # it is another source for every window
    if not can_assign_windows(table, source) or not looks.is_first(table.table, step.step):
        return None
    if reader_of(source).fingerprint(reading, source) is not None:
        return None  # `look` counts its rows
    found = _count_rows(lambda: _rows_of_no_window(reading, step), strict=False)
    return found if found is not None and found.total else None


def _rows_of_no_window(reading: Reading, step: StepConfig) -> SourceRows | None:
    table, source = reading.table, step.source
    assert source is not None
    assert isinstance(table.default_start, datetime)
    horizon = TimeWindow(table.default_start, table.end or _NEVER, zone=table.grid.zone)
    run = replace(reading.run, window=horizon)
    frame = read_source(replace(reading, run=run, windows=(), malformed=[]), source)
    label = f"{table.table} {step.step}: a row that belongs to a window"
    if run_action(reading.spark, label, frame.selectExpr("1").limit(1).collect):
        return None
    return count_rows(reading, step, None)


def can_assign_windows(table: TableConfig, source: Source) -> bool:
    """Return True if a column of the source assigns its rows to windows."""
    field = table.incremental.assigns_windows_by
    return field is not None and getattr(source, field) is not None


def _count_rows(count: Callable[[], SourceRows | None], *, strict: bool) -> SourceRows | None:
    """Count the rows; on other errors return None, since reading the window reports them."""
    try:
        return count()
    except AttemptLostError:
        raise
    except Exception:
        if strict:
            raise
        return None


def count_rows(
    reading: Reading,
    step: StepConfig,
    now: datetime | None,
    done: Iterable[TimeWindow] | range | None = None,
) -> SourceRows:
    """Count all rows of a step's source.

    Args:
        now: The data clock, after which rows are in the future; None to ignore it.
        done: The time ranges or keys that were read. Their rows count as read
            only, even if the table now begins later or ends earlier.
    """
    table, source = reading.table, step.source
    assert source is not None
    frame = reader_of(source).all_rows(reading, source)
    with columns_named_by(source):
        conditions = _conditions(reading, source, frame, now, done)
    counts = [
        sf.expr(f"count_if({condition})").alias(name) for name, condition in conditions.items()
    ]
    with columns_named_by(source):
        asked = frame.agg(sf.count(sf.lit(1)).alias("total"), *counts)
    label = f"{table.table} {step.step}: rows outside any window"
    row = run_action(reading.spark, label, asked.collect)[0].asDict()
    if done is None:
        row["done"] = None
    return SourceRows(table.table, step.step, **row)


def _conditions(
    reading: Reading,
    source: Source,
    frame: "DataFrame",
    now: datetime | None,
    done: Iterable[TimeWindow] | range | None,
) -> dict[str, str]:
    """Return the counted categories, each with its condition."""
    table = reading.table
    if table.is_sliced:
        key = _key(source)
        assert done is None or isinstance(done, range)
        within = f"{key} >= {done.start}BD AND {key} < {done.stop}BD" if done else "false"
        return _apart_from(_of_keys(key, table), within)
    values = values_of(reading, source, frame)
    assert not isinstance(done, range)
    within = " OR ".join(f"({values.lies_within(each)})" for each in done or ()) or "false"
    return _apart_from(_of_times(values, table, now), within)


def count_rows_of_files(reading: Reading, step: StepConfig) -> int:
    """Count the rows of a step's source in the files of the run."""
    assert step.source is not None
    frame = reader_of(step.source).all_rows(reading, step.source)
    return run_action(reading.spark, f"{reading.run.table} {step.step}: rows", frame.count)


def _key(source: Source) -> str:
    return f"try_cast({reference(str(source.key_column))} AS DECIMAL({_DIGITS}, 0))"


def _of_times(values: WindowValues, table: TableConfig, now: datetime | None) -> dict[str, str]:
    assert isinstance(table.default_start, datetime)
    value = values.placed
    ended = f"{value} >= {values.format_bound(table.end)}" if table.end else "false"
    due = f"{value} >= {values.format_bound(now)} AND NOT ({ended})" if now else "false"
    return {
        "unplaced": f"{value} IS NULL",
        "before": f"{value} < {values.format_bound(table.default_start)}",
        "after": ended,
        "future": due,
    }


def _of_keys(value: str, table: TableConfig) -> dict[str, str]:
    first = table.default_start
    before = f"{value} <= {first}BD" if first is not None else "false"
    return {"unplaced": f"{value} IS NULL", "before": before, "after": "false", "future": "false"}


def _apart_from(conditions: Mapping[str, str], done: str) -> dict[str, str]:
    """Return the conditions restricted to rows that were not read, and that of read rows."""
    left = {
        name: f"({condition}) AND NOT coalesce({done}, false)"
        for name, condition in conditions.items()
    }
    return {**left, "done": done}


def _digest(reading: Reading, source: Source, files: Iterable[FileVersion]) -> str:
    """Return a hash of the files and of all settings that affect the counts.

    The project folder and the variables decide where a path leads.
    """
    table, path = reading.table, getattr(source, "path", None)
    asked = (
        source.model_dump_json(),
        path and reading.project.find_source_folder(table, path),
        str(table.default_start),
        str(table.end),
        str(table.grid.zone),
        table.incremental_type,
    )
    return sha256(repr((asked, sorted(files))).encode()).hexdigest()
