"""Source files that changed after windows had read them, and the windows that they concern.

The least and greatest times of the earlier and the new version of a file decide which windows these
are. Changes are recorded with the last attempt that may have read the earlier files, so a window is
out of date until a later attempt succeeds.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Row, Table, and_, func, insert, select, update
from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.time_columns import find_second
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.logs import ChangedFiles, ChangedWindow
from logdriven_dagster.model.source_rows import ChangedFile, FileChange, FileRows
from logdriven_dagster.runlog.history.windows import build_window, list_latest_attempts
from logdriven_dagster.runlog.observed.source_files import read_versions
from logdriven_dagster.runlog.schema.observations import source_change
from logdriven_dagster.runlog.sql.among import among
from logdriven_dagster.runlog.sql.clock import utc_now
from logdriven_dagster.runlog.sql.projects import match_project

_DONE, _RUNNING = Status.SUCCESS.value, Status.RUNNING.value
_OPEN = select(source_change).where(
    match_project(source_change), among(source_change.c.job_name), source_change.c.done.is_(None)
)


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of files that concerns the windows of a range."""

    files: ChangedFiles
    start: int
    end: int
    """The range `[start, end)` of window bounds, in epoch seconds."""
    job_id: int
    """The last attempt that may have read the earlier files."""


class ChangedWindows(NamedTuple):
    """The windows of a table that recorded changes of source files concern."""

    windows: tuple[ChangedWindow, ...]
    """By ascending start."""
    settled: tuple[int, ...]
    """The changes that concern no window any more."""


def find_changed_windows(
    conn: Connection, table: TableConfig, step_id: str, files: Iterable[ChangedFile]
) -> tuple[ChangedWindow, ...]:
    """Return the finished windows that changes of files concern, which are not recorded yet."""
    changes = _find_changes(conn, table, step_id, files, ())
    found: dict[int, tuple[Row[Any], list[ChangedFiles]]] = {}
    for each in changes:
        for row in _list_windows(conn, table, each.start, each.end, (_DONE,)):
            found.setdefault(row.window_start, (row, []))[1].append(each.files)
    return _build_windows(table, found)


def record_changes(
    conn: Connection,
    table: TableConfig,
    step_id: str,
    files: Iterable[ChangedFile],
    readers: Collection[int] = (),
) -> None:
    """Record the changes of files that concern finished or running windows.

    `readers` are attempts that have read the new files.
    """
    for each in _find_changes(conn, table, step_id, files, readers):
        values = {
            "job_name": table.table,
            "step_id": step_id,
            "file_change": each.files.change.value,
            "path": each.files.path,
            "file_count": each.files.files,
            "window_start": each.start,
            "window_end": each.end,
            "job_id": each.job_id,
        }
        conn.execute(insert(source_change).values(create_time=utc_now(), **values))


def read_changed_windows(
    conn: Connection, tables: Collection[TableConfig]
) -> Mapping[str, ChangedWindows]:
    """Return the windows of tables that recorded changes concern."""
    by_name = {table.table: table for table in tables if table.on_source_change != "ignore"}
    rows = conn.execute(_OPEN, {"names": by_name.keys()}).all()
    changes: dict[str, list[Row[Any]]] = {}
    for row in sorted(rows, key=lambda row: row.change_id):
        changes.setdefault(row.job_name, []).append(row)
    return {name: _evaluate(conn, by_name[name], of) for name, of in changes.items()}


def read_newest_changes(conn: Connection, names: Collection[str]) -> dict[str, int]:
    """Return table → the number of its newest change that may concern windows."""
    c = source_change.c
    open_ones = _OPEN.with_only_columns(c.job_name, func.max(c.change_id)).group_by(c.job_name)
    return dict(conn.execute(open_ones, {"names": names}).tuples().all())


def close_read(
    conn: Connection,
    table: TableConfig,
    step_id: str,
    files: Iterable[FileRows],
    readers: Collection[int],
) -> None:
    """Close the changes that other attempts recorded for `readers` while these ran.

    Nothing is closed unless `files`, which the readers had listed before they read, are the
    recorded ones: otherwise the readers may have read earlier files.
    """
    c = source_change.c
    mine = (c.step_id == step_id) & c.job_id.in_(readers)
    changes = conn.execute(_OPEN.where(mine), {"names": [table.table]}).all()
    if changes:
        recorded = read_versions(conn, [table.table]).get((table.table, step_id), ())
        if set(recorded) == {file.version for file in files}:
            close_changes(conn, [each.change_id for each in changes])


def close_changes(conn: Connection, change_ids: Collection[int]) -> None:
    """Record that some changes concern no window any more."""
    mine = match_project(source_change) & source_change.c.change_id.in_(change_ids)
    conn.execute(update(source_change).where(mine).values(done=1))


def _evaluate(conn: Connection, table: TableConfig, changes: Sequence[Row[Any]]) -> ChangedWindows:
    found: dict[int, tuple[Row[Any], list[ChangedFiles]]] = {}
    settled = []
    for each in changes:
        is_open = False
        files = ChangedFiles(each.step_id, FileChange(each.file_change), each.path, each.file_count)
        span = (each.window_start, each.window_end)
        for row in _list_windows(conn, table, *span, (_DONE, _RUNNING)):
            # A running rerun may fail, which puts the earlier result in force again.
            is_open |= row.status == _RUNNING or row.job_id <= each.job_id
            if row.status == _DONE and row.job_id <= each.job_id:
                found.setdefault(row.window_start, (row, []))[1].append(files)
        if not is_open:
            settled.append(each.change_id)
    return ChangedWindows(_build_windows(table, found), tuple(settled))


def _find_changes(
    conn: Connection,
    table: TableConfig,
    step_id: str,
    files: Iterable[ChangedFile],
    readers: Collection[int],
) -> Iterator[_Change]:
    """Yield the changes that concern windows, one for adjoining windows of the same changes."""
    spans = list(_find_spans(table, step_id, files))
    if not spans:
        return
    start, end = min(first for _, first, _ in spans), max(last for _, _, last in spans)
    windows = [
        row
        for row in _list_windows(conn, table, start, end, (_DONE, _RUNNING))
        if row.job_id not in readers
    ]
    recorded = _read_recorded(conn, table, step_id, spans)
    for change in FileChange:
        of_kind = [span for span in spans if span[0].change is change]
        yield from _unite((step_id, change, recorded), of_kind, windows)


def _read_recorded(
    conn: Connection,
    table: TableConfig,
    step_id: str,
    spans: Sequence[tuple[ChangedFile, int, int]],
) -> Sequence[Row[Any]]:
    """Return the open changes of a step if some of the files have an earlier version in them."""
    if all(file.job_id is None for file, _, _ in spans):
        return ()
    mine = source_change.c.step_id == step_id
    return conn.execute(_OPEN.where(mine), {"names": [table.table]}).all()


def _find_spans(
    table: TableConfig, step_id: str, files: Iterable[ChangedFile]
) -> Iterator[tuple[ChangedFile, int, int]]:
    """Yield the files that hold times, each with the range `[first, end)` of them in seconds."""
    step = next((each for each in table.steps if each.step == step_id), None)
    if step is None or step.source is None or table.is_sliced or table.incremental.is_snapshot:
        return
    column = step.source.window_column
    for file in files:
        first, last = file.rows.first, file.rows.last
        if first is not None and last is not None:
            zone = table.grid.zone
            start, end = (find_second(column, each, zone) for each in (first, last))
            yield file, start, end + 1


def _unite(
    of: tuple[str, FileChange, Sequence[Row[Any]]],
    spans: Sequence[tuple[ChangedFile, int, int]],
    windows: Sequence[Row[Any]],
) -> Iterator[_Change]:
    """Yield one change for each run of neighbouring windows that the spans overlap.

    A running window has a change of its own, which its attempt may close. `of` are the step, the
    kind of change, and recorded changes, whose windows do not have the same change again.
    """
    step_id, change, recorded = of
    ordered = sorted(spans, key=lambda span: span[1])
    number, run, active = 0, list[Row[Any]](), list[tuple[ChangedFile, int, int]]()
    of_run: dict[str, None] = {}
    for window in [*windows, None]:
        if window is not None:
            while number < len(ordered) and ordered[number][1] < window.window_end:
                active.append(ordered[number])
                number += 1
            active = [span for span in active if span[2] > window.window_start]
        files = [
            file
            for file, _, _ in active
            if window is not None
            and _concerns(file, window)
            and not _is_recorded(file, window, recorded)
        ]
        is_alone = window is None or _RUNNING in (window.status, *(row.status for row in run[-1:]))
        if run and (is_alone or not files):
            changed = ChangedFiles(step_id, change, next(iter(of_run)), len(of_run))
            job_id = max(row.job_id for row in run)
            yield _Change(changed, run[0].window_start, run[-1].window_end, job_id)
            run, of_run = [], {}
        if window is not None and files:
            run.append(window)
            of_run |= dict.fromkeys(file.rows.version.path for file in files)


def _concerns(file: ChangedFile, window: Row[Any]) -> bool:
    return file.job_id is None or window.job_id <= file.job_id


def _is_recorded(file: ChangedFile, window: Row[Any], recorded: Sequence[Row[Any]]) -> bool:
    """Return True if the change from the earlier version of the file concerns the window, too."""
    return file.job_id is not None and any(
        each.file_change == file.change.value
        and (each.path == file.rows.version.path or each.file_count > 1)
        and each.window_start < window.window_end
        and each.window_end > window.window_start
        and each.job_id >= window.job_id
        for each in recorded
    )


def _list_windows(
    conn: Connection, table: TableConfig, start: int, end: int, statuses: Collection[str]
) -> list[Row[Any]]:
    """Return the rows of a table's windows in a range of epoch seconds, by ascending start."""

    def overlaps(log: Table) -> ColumnElement[bool]:
        return and_(log.c.status.in_(statuses), log.c.window_start < end, log.c.window_end > start)

    return list_latest_attempts(conn, table, overlaps)


def _build_windows(
    table: TableConfig, found: Mapping[int, tuple[Row[Any], Sequence[ChangedFiles]]]
) -> tuple[ChangedWindow, ...]:
    return tuple(
        ChangedWindow(build_window(table, row._mapping), tuple(dict.fromkeys(files)))
        for row, files in (found[start] for start in sorted(found))
    )
