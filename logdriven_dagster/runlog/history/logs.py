"""Reading the run log: compressed for planning, complete for display."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import bindparam, func, select, union_all
from sqlalchemy.engine import Connection, Row

from logdriven_dagster.config.derived.processes import build_process
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.attempts import Owner, Status, Trigger
from logdriven_dagster.model.logs import LeftOut, LookbackWindow, OpenWindow, TableLog
from logdriven_dagster.model.ranges import subtract, unite
from logdriven_dagster.model.windows import TimeWindow, convert_to_instant
from logdriven_dagster.runlog.attempts import coverage, failed_refreshes
from logdriven_dagster.runlog.attempts.names import find_names_of
from logdriven_dagster.runlog.attempts.steps import read_outputs
from logdriven_dagster.runlog.history import recent, refreshes, slices, waiting
from logdriven_dagster.runlog.history.windows import build_window, is_of
from logdriven_dagster.runlog.leases import is_expired
from logdriven_dagster.runlog.schema.attempts import job_log, step_log
from logdriven_dagster.runlog.sql.among import among
from logdriven_dagster.runlog.sql.chunks import LOOKED_UP, split_into_chunks
from logdriven_dagster.runlog.sql.clock import measure_since, utc_now
from logdriven_dagster.runlog.sql.projects import match_project
from logdriven_dagster.runlog.sql.rows import convert_row
from logdriven_dagster.runlog.sql.unions import execute_each

_DONE, _SKIPPED = Status.SUCCESS.value, Status.SKIPPED.value
_LONGEST_LINE = 300
_NEWEST = (
    select(job_log.c.job_id)
    .where(match_project(job_log), job_log.c.job_name == bindparam("name"))
    .order_by(job_log.c.job_id.desc())
    .limit(1)
)
"""The newest attempt of a table."""
_PUBLISHED = (
    select(job_log.c.job_name)
    .where(
        match_project(job_log),
        job_log.c.job_name == bindparam("name"),
        job_log.c.latest == 1,
        job_log.c.status == _DONE,
        func.coalesce(job_log.c.run_trigger, "") != Trigger.TAKEOVER.value,
    )
    .limit(1)
)
"""A window of the table that succeeded here, and not in a system before."""
_DONE_OF_TABLE = select(
    job_log.c.job_name,
    job_log.c.window_start,
    job_log.c.window_end,
    job_log.c.data_now,
    job_log.c.seen_until,
).where(
    match_project(job_log),
    job_log.c.job_name == bindparam("name"),
    job_log.c.latest == 1,
    job_log.c.status == _DONE,
    job_log.c.data_now.is_not(None),
)
_NEWEST_DONE = _DONE_OF_TABLE.order_by(job_log.c.window_start.desc()).limit(bindparam("most"))
"""The newest finished windows of a table, at most `most` of them."""
_STILL_LATE = _DONE_OF_TABLE.where(job_log.c.seen_until > 0)
"""The finished windows of a table whose upstreams were incomplete when they ran."""

_ATTEMPTS = select(
    job_log.c.job_id,
    job_log.c.job_name,
    job_log.c.job_schedule_id,
    job_log.c.incremental_type,
    job_log.c.window_start,
    job_log.c.window_end,
    job_log.c.data_range_start,
    job_log.c.data_range_end,
    job_log.c.status,
    job_log.c.latest,
    job_log.c.failures,
    job_log.c.standing,
    job_log.c.owner,
    job_log.c.dagster_run_id,
    job_log.c.heartbeat_at,
    job_log.c.job_end_time,
    job_log.c.last_update_time,
    is_expired(job_log),
    utc_now().label("read_at"),
).where(match_project(job_log), among(job_log.c.job_name))
"""The columns that a plan reads: half of them, since the long ones are only for display."""
_OPEN_OR_REFRESHED = union_all(
    _ATTEMPTS.where(job_log.c.status.in_(coverage.OPEN), job_log.c.latest == 1),
    _ATTEMPTS.where(job_log.c.failed_refresh == failed_refreshes.MARKED),
)
"""The latest attempts that run or did not succeed, and failed refreshes of finished windows."""


def read_table_logs(conn: Connection, tables: Collection[TableConfig]) -> dict[str, TableLog]:
    """Read the log of each table, and of the assets that it waits for, for planning.

    An unknown table has an empty log. The cost depends on the open windows, not on the length of
    the history.
    """
    found = read_window_states(conn, tables)
    consumers = [build_process(table) for table in tables if table.incremental.consumes_batches]
    queues = waiting.read_waiting(conn, consumers) if consumers else {}
    restated = [job_id for queue in queues.values() for job_id in queue.restated]
    again = refreshes.find_reruns(conn, tables)
    restarted = slices.find_finished_slices(conn, tables, restated)
    stale: dict[str, Sequence[TimeWindow]] = {**again.stale, **restarted}
    lately = recent.find_ended_windows(conn, tables)
    lookback_windows = _find_lookback_windows(conn, tables)
    for table in tables:
        name = table.table
        queue = queues.get(name, waiting.Waiting())
        found[name] = replace(
            found[name],
            within_lookback=lookback_windows.get(name, ()),
            stale=tuple(stale.get(name, ())),
            upstreams_ran_again=name in again.tables,
            queued=queue.queued,
            unmarked=queue.unmarked,
            recent=tuple(lately.get(name, ())),
        )
    return found | _read_asset_logs(conn, tables)


def _read_asset_logs(conn: Connection, tables: Collection[TableConfig]) -> dict[str, TableLog]:
    """Return the materializations of the assets that the tables wait for."""
    zones = {d.upstream: table.grid.zone for table in tables for d in table.asset_dependencies}
    if not zones:
        return {}
    found: dict[str, list[TimeWindow]] = {name: [] for name in zones}
    for row in coverage.list_ranges(conn, list(zones)):
        found[row.job_name].append(_build_window(row, zones[row.job_name]))
    return {name: TableLog(finished=tuple(unite(ranges))) for name, ranges in found.items()}


def read_window_states(conn: Connection, tables: Collection[TableConfig]) -> dict[str, TableLog]:
    """Read the state of each table's windows: finished, skipped, open, and the last range.

    Windows that could run again and queued batches are not read.
    """
    zones = {table.table: table.grid.zone for table in tables}
    last = slices.read_last_slices(conn, [table for table in tables if table.is_sliced])
    covered: dict[tuple[str, str], list[TimeWindow]] = {}
    by_operators: dict[str, list[tuple[int, TimeWindow]]] = {}
    for row in coverage.list_ranges(conn, list(zones)):
        window = _build_window(row, zones[row.job_name])
        covered.setdefault((row.job_name, row.status), []).append(window)
        if row.status == _SKIPPED and row.run_trigger == Trigger.SKIP.value:
            by_operators.setdefault(row.job_name, []).append((row.job_id, window))
    why = read_outputs(conn, [job_id for items in by_operators.values() for job_id, _ in items])
    rows = _open_rows(conn, list(zones))
    reopened: dict[str, list[TimeWindow]] = {}
    for row in coverage.list_reopened(conn, [row.job_schedule_id for row in rows if row.latest]):
        reopened.setdefault(row.job_name, []).append(_build_window(row, zones[row.job_name]))
    opened, hidden = _open_windows(conn, tables, rows, reopened)
    found = {}
    for name in zones:
        holes = reopened.get(name, [])
        finished = subtract(unite(covered.get((name, _DONE), [])), holes)
        skipped = subtract(unite(covered.get((name, _SKIPPED), [])), unite(holes, finished))
        found[name] = TableLog(
            finished=tuple(finished),
            skipped=tuple(skipped),
            left_out=tuple(
                LeftOut(window, why.get(job_id, "skipped"))
                for job_id, window in by_operators.get(name, ())
            ),
            open=tuple(opened.get(name, ())),
            failed_refreshes=tuple(hidden.get(name, ())),
            last=last.get(name),
        )
    return found


def open_windows(conn: Connection, tables: Collection[TableConfig]) -> dict[str, list[OpenWindow]]:
    """Return the unfinished windows of the tables that have been tried, oldest first."""
    return _open_windows(conn, tables, _open_rows(conn, [table.table for table in tables]), {})[0]


def _open_rows(conn: Connection, names: Sequence[str]) -> Sequence[Row[Any]]:
    """Return unfinished windows and failed refreshes of finished windows, by ascending start."""
    rows = conn.execute(_OPEN_OR_REFRESHED, {"names": names}).all()
    return sorted(rows, key=lambda row: row.window_start or 0)


def _open_windows(
    conn: Connection,
    tables: Collection[TableConfig],
    rows: Sequence[Row[Any]],
    reopened: Mapping[str, Sequence[TimeWindow]],
) -> tuple[dict[str, list[OpenWindow]], dict[str, list[OpenWindow]]]:
    by_name = {table.table: table for table in tables}
    errors = _read_errors(conn, [row.job_id for row in rows])
    opened: dict[str, list[OpenWindow]] = {}
    hidden: dict[str, list[OpenWindow]] = {}
    known = {name: {window.span for window in windows} for name, windows in reopened.items()}
    for row in rows:
        table = by_name[row.job_name]
        if row.window_start is not None and is_of(table, row.incremental_type):
            item = _open_window(row, table, errors.get(row.job_id))
            if item.window.span in known.get(row.job_name, ()):
                item = replace(item, was_finished=True)
            (opened if row.latest else hidden).setdefault(row.job_name, []).append(item)
    return opened, hidden


def _open_window(row: Any, table: TableConfig, error: str | None) -> OpenWindow:
    status, window = Status(row.status), build_window(table, row._mapping)
    is_running = status is Status.RUNNING
    seen = row.heartbeat_at if is_running else row.job_end_time
    return OpenWindow(
        window=window,
        job_id=row.job_id,
        status=status,
        owner=Owner.parse(row.owner, row.dagster_run_id) if is_running else None,
        error=error,
        expired=bool(row.expired),
        failures=row.failures + (1 if status is Status.FAILURE else 0),
        quiet_for=measure_since(seen or row.last_update_time, row.read_at),
        stands=row.standing is not None,
    )


def _read_errors(conn: Connection, job_ids: list[int]) -> dict[int, str]:
    """Return the first line of each attempt's first error; `logdriven log --full` shows all."""
    found = {}
    for part in split_into_chunks(job_ids):
        query = (
            select(step_log.c.job_id, step_log.c.error)
            .where(step_log.c.job_id.in_(part), step_log.c.error.is_not(None))
            .order_by(step_log.c.start_time.desc())
        )
        for row in conn.execute(query):
            found[row.job_id] = (row.error.splitlines() or [""])[0][:_LONGEST_LINE]
    return found


def _find_lookback_windows(
    conn: Connection, tables: Collection[TableConfig]
) -> dict[str, tuple[LookbackWindow, ...]]:
    """Return the finished windows of tables with `lookback` that may run again, by start.

    The newest windows are always included, since `lookback` may be new or longer now.
    """
    late = {table.table: table for table in tables if table.lookback}
    found: dict[str, dict[int, LookbackWindow]] = {name: {} for name in late}
    newest = [{"name": name, "most": table.lookback + 1} for name, table in late.items()]
    for row in execute_each(conn, _NEWEST_DONE, newest):
        found[row.job_name][row.window_start] = _build_lookback_window(row, late[row.job_name])
    for row in execute_each(conn, _STILL_LATE, [{"name": name} for name in late]):
        found[row.job_name][row.window_start] = _build_lookback_window(row, late[row.job_name])
    return {name: tuple(of[start] for start in sorted(of)) for name, of in found.items()}


def _build_lookback_window(row: Any, table: TableConfig) -> LookbackWindow:
    zone, seen = table.grid.zone, row.seen_until
    if seen is None:  # its upstreams were complete
        seen = row.data_now - int(table.delay.total_seconds())
    return LookbackWindow(_build_window(row, zone), convert_to_instant(seen))


def list_attempts(
    conn: Connection, table: str | None = None, limit: int = 100
) -> list[dict[str, Any]]:
    """Return `job_log` rows by column name, newest first, each with its `steps`.

    Timestamps are ISO 8601 in UTC, `runtime_args` is an object.
    """
    query = select(job_log.c.job_id).where(match_project(job_log))
    query = query.order_by(job_log.c.job_id.desc()).limit(limit)
    if table is not None:
        query = query.where(job_log.c.job_name == table)
    return list_attempts_by_id(conn, conn.execute(query).scalars().all())


def list_attempts_at(
    conn: Connection, windows: Sequence[tuple[str, TimeWindow]], limit: int = 100
) -> list[list[dict[str, Any]]]:
    """Return for each window of a table the rows of its attempts, newest first.

    The rows have the form of `attempts`; `limit` applies to each window.
    """
    called = find_names_of(conn, windows)
    ids: dict[str, list[int]] = {name: [] for name in called}
    for part in split_into_chunks(list(ids), LOOKED_UP):
        query = select(job_log.c.job_schedule_id, job_log.c.job_id)
        query = query.where(match_project(job_log), job_log.c.job_schedule_id.in_(part))
        for name, job_id in conn.execute(query.order_by(job_log.c.job_id.desc())):
            ids[name].append(job_id)
    ids = {name: newest[:limit] for name, newest in ids.items()}
    rows = list_attempts_by_id(conn, [job_id for newest in ids.values() for job_id in newest])
    known = {row["job_id"]: row for row in rows}
    return [[known[job_id] for job_id in ids[name] if job_id in known] for name in called]


def list_newest_windows(conn: Connection, table: str, limit: int) -> list[dict[str, Any]]:
    """Return the latest attempts at the newest windows of a table, by ascending start.

    Rows have the form of `list_attempts`.
    """
    query = (
        select(job_log.c.job_id)
        .where(match_project(job_log), job_log.c.job_name == table, job_log.c.latest == 1)
        .where(job_log.c.window_start.is_not(None))
        .order_by(job_log.c.window_start.desc())
        .limit(limit)
    )
    newest = conn.execute(query).scalars().all()
    return list_attempts_by_id(conn, newest[::-1])


def list_attempts_by_id(conn: Connection, job_ids: Sequence[int]) -> list[dict[str, Any]]:
    """Return the rows of attempts with their `steps`, in the order of the ids."""
    rows: dict[int, dict[str, Any]] = {}
    steps: dict[int, list[dict[str, Any]]] = {}
    for part in split_into_chunks(job_ids, LOOKED_UP):
        for row in conn.execute(select(job_log).where(job_log.c.job_id.in_(part))):
            rows[row.job_id], steps[row.job_id] = convert_row(row), []
        wanted = select(step_log).where(step_log.c.job_id.in_(part))
        for step in conn.execute(wanted.order_by(step_log.c.start_time, step_log.c.step_id)):
            steps[step.job_id].append(convert_row(step))
    return [rows[job_id] | {"steps": steps[job_id]} for job_id in job_ids if job_id in rows]


def read_latest_statuses(conn: Connection, names: Collection[str]) -> dict[str, str]:
    """Return the status of each table's newest attempt. Source: Kettle, latest-status views."""
    ids = [row.job_id for row in execute_each(conn, _NEWEST, [{"name": name} for name in names])]
    found: dict[str, str] = {}
    for part in split_into_chunks(ids):
        query = select(job_log.c.job_name, job_log.c.status).where(job_log.c.job_id.in_(part))
        found |= {row.job_name: row.status for row in conn.execute(query)}
    return found


def find_published_tables(conn: Connection, names: Collection[str]) -> set[str]:
    """Return the tables of which a window has been published here, according to the log."""
    return {
        row.job_name for row in execute_each(conn, _PUBLISHED, [{"name": name} for name in names])
    }


def count_finished(conn: Connection) -> dict[str, tuple[int, int, int]]:
    """Return by table: finished windows, rows read and rows written by their latest attempts."""
    query = (
        select(
            job_log.c.job_name,
            func.count(job_log.c.job_id.distinct()),
            func.coalesce(func.sum(step_log.c.source_count), 0),
            func.coalesce(func.sum(step_log.c.success_count), 0),
        )
        .join_from(job_log, step_log, job_log.c.job_id == step_log.c.job_id)
        .where(match_project(job_log), job_log.c.latest == 1, job_log.c.status == _DONE)
        .group_by(job_log.c.job_name)
        .order_by(job_log.c.job_name)
    )
    return {
        name: (windows, int(read), int(done)) for name, windows, read, done in conn.execute(query)
    }


def _build_window(row: Any, zone: ZoneInfo) -> TimeWindow:
    return TimeWindow.from_seconds(row.window_start, row.window_end, zone)
