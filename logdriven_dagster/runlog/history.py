"""Reading the run log: compressed for planning, whole for people."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Subquery, and_, func, select, union_all
from sqlalchemy.engine import Connection

from logdriven_dagster.config.models import TableConfig
from logdriven_dagster.config.processes import process_of
from logdriven_dagster.model.attempts import Owner, Status
from logdriven_dagster.model.logs import OpenWindow, Settled, TableLog
from logdriven_dagster.model.ranges import union, without
from logdriven_dagster.model.windows import TimeWindow, in_zone
from logdriven_dagster.runlog import coverage, leases, recent, slices, waiting
from logdriven_dagster.runlog.clock import utc_now
from logdriven_dagster.runlog.schema import job_log, job_log_archive, step_log

_DONE, _SKIPPED = Status.SUCCESS.value, Status.SKIPPED.value


def table_logs(conn: Connection, tables: Collection[TableConfig]) -> dict[str, TableLog]:
    """What planning needs to know about each of the tables; an unknown one has an empty log.

    The cost follows what is open, not the length of the history.
    """
    zones = {table.table: table.grid.zone for table in tables}
    last = slices.last(conn, [table for table in tables if table.is_sliced])
    consumers = [process_of(table) for table in tables if table.consumes_batches]
    queued = waiting.queued(conn, consumers) if consumers else {}
    covered: dict[tuple[str, str], list[TimeWindow]] = {}
    for row in coverage.ranges(conn, list(zones)):
        covered.setdefault((row.job_name, row.status), []).append(_window(row, zones[row.job_name]))
    reopened: dict[str, list[TimeWindow]] = {}
    for row in coverage.reopened(conn, list(zones)):
        reopened.setdefault(row.job_name, []).append(_window(row, zones[row.job_name]))
    opened = open_windows(conn, tables)
    stale = _stale_windows(conn, tables)
    lately = recent.ended(conn, tables)
    found = {}
    for table in tables:
        name = table.table
        holes = reopened.get(name, [])
        finished = without(union(covered.get((name, _DONE), [])), holes)
        skipped = without(union(covered.get((name, _SKIPPED), [])), union(holes, finished))
        found[name] = TableLog(
            tuple(finished),
            tuple(skipped),
            tuple(opened.get(name, ())),
            tuple(_settled(conn, table)),
            tuple(stale.get(name, ())),
            last.get(name),
            queued.get(name, {}),
            tuple(lately.get(name, ())),
        )
    return found


def open_windows(conn: Connection, tables: Collection[TableConfig]) -> dict[str, list[OpenWindow]]:
    """The unfinished windows of the tables that have been tried, oldest first."""
    by_name = {table.table: table for table in tables}
    rows = conn.execute(
        select(job_log, leases.is_expired(), utc_now().label("read_at"))
        .where(
            job_log.c.status.in_(coverage.OPEN),
            job_log.c.latest == 1,
            job_log.c.window_start.is_not(None),
            job_log.c.job_name.in_(list(by_name)),
        )
        .order_by(job_log.c.window_start)
    ).all()
    errors = _errors(conn, [row.job_id for row in rows])
    found: dict[str, list[OpenWindow]] = {}
    for row in rows:
        table = by_name[row.job_name]
        if slices.is_of(table, row.incremental_type):
            item = _open_window(row, table, errors.get(row.job_id))
            found.setdefault(row.job_name, []).append(item)
    return found


def _open_window(row: Any, table: TableConfig, error: str | None) -> OpenWindow:
    status, window = Status(row.status), slices.window_of(table, row._mapping)
    if status is Status.RUNNING:
        seen = row.heartbeat_at or row.last_update_time
        return OpenWindow(
            window,
            row.job_id,
            status,
            Owner.parse(row.owner, row.dagster_run_id),
            error,
            bool(row.expired),
            row.failures,
            row.read_at - seen,
        )
    return OpenWindow(
        window,
        row.job_id,
        status,
        error=error,
        failures=row.failures + (1 if status is Status.FAILURE else 0),
        quiet_for=row.read_at - (row.job_end_time or row.last_update_time),
    )


def _errors(conn: Connection, job_ids: list[int]) -> dict[int, str]:
    """The first line of each attempt's first error."""
    if not job_ids:
        return {}
    query = (
        select(step_log.c.job_id, step_log.c.error)
        .where(step_log.c.job_id.in_(job_ids), step_log.c.error.is_not(None))
        .order_by(step_log.c.start_time.desc())
    )
    return {row.job_id: (row.error.splitlines() or [""])[0] for row in conn.execute(query)}


def _settled(conn: Connection, table: TableConfig) -> Iterator[Settled]:
    if not table.lookback:
        return
    query = (
        select(job_log.c.window_start, job_log.c.window_end, job_log.c.data_now)
        .where(
            job_log.c.job_name == table.table,
            job_log.c.latest == 1,
            job_log.c.status == _DONE,
            job_log.c.data_now.is_not(None),
        )
        .order_by(job_log.c.window_start.desc())
        .limit(table.lookback + 1)
    )
    for row in reversed(conn.execute(query).all()):
        zone = table.grid.zone
        yield Settled(_window(row, zone), in_zone(row.data_now, zone))


def _stale_windows(
    conn: Connection, tables: Collection[TableConfig]
) -> dict[str, list[TimeWindow]]:
    """Finished windows older than the latest success of an upstream window over them.

    Only windows that ran more than once can be younger than what was made from them.
    """
    again = set(
        conn.execute(
            select(job_log.c.job_name)
            .where(job_log.c.latest == 1, job_log.c.attempt_number > 1, job_log.c.status == _DONE)
            .distinct()
        ).scalars()
    )
    by_name = {table.table: table for table in tables}
    return {
        table.table: _outdated(conn, table, upstreams)
        for table in tables
        if table.on_upstream_refresh == "rerun"
        and not table.is_sliced
        and (
            upstreams := [
                d.table
                for d in table.managed_dependencies
                if d.table in again and d.is_input and _has_windows(by_name, d.table)
            ]
        )
    }


def _has_windows(tables: Mapping[str, TableConfig], name: str) -> bool:
    """Whether a window of the table is about the same time as one of another table."""
    table = tables.get(name)
    return table is None or not (table.incremental_type == "full" or table.is_sliced)


def _outdated(conn: Connection, table: TableConfig, upstreams: list[str]) -> list[TimeWindow]:
    up, down = job_log.alias("up"), _live_and_archived(table.table)
    query = (
        select(down.c.window_start, down.c.window_end)
        .join_from(
            up,
            down,
            and_(
                down.c.window_start < up.c.window_end,
                down.c.window_end > up.c.window_start,
                down.c.job_id < up.c.job_id,
            ),
        )
        .where(
            up.c.job_name.in_(upstreams),
            up.c.latest == 1,
            up.c.status == _DONE,
            up.c.attempt_number > 1,
        )
        .distinct()
        .order_by(down.c.window_start)
    )
    return [_window(row, table.grid.zone) for row in conn.execute(query)]


def _live_and_archived(name: str) -> Subquery:
    """The latest successes of a table, old ones included."""
    parts = [
        select(log.c.job_id, log.c.window_start, log.c.window_end).where(
            log.c.job_name == name, log.c.latest == 1, log.c.status == _DONE
        )
        for log in (job_log, job_log_archive)
    ]
    return union_all(*parts).subquery("down")


def attempts(conn: Connection, table: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
    """`job_log` rows under their column names, newest first, each with its `steps`.

    Moments are ISO 8601 in UTC, `runtime_args` is an object.
    """
    query = select(job_log.c.job_id).order_by(job_log.c.job_id.desc()).limit(limit)
    if table is not None:
        query = query.where(job_log.c.job_name == table)
    return attempts_by_id(conn, conn.execute(query).scalars().all())


def attempts_by_id(conn: Connection, job_ids: Sequence[int]) -> list[dict[str, Any]]:
    """The same of certain attempts, in the order of the ids."""
    found = conn.execute(select(job_log).where(job_log.c.job_id.in_(job_ids)))
    rows = {row.job_id: plain(row) for row in found}
    steps: dict[int, list[dict[str, Any]]] = {job_id: [] for job_id in rows}
    wanted = select(step_log).where(step_log.c.job_id.in_(job_ids))
    for step in conn.execute(wanted.order_by(step_log.c.start_time, step_log.c.step_id)):
        steps[step.job_id].append(plain(step))
    return [rows[job_id] | {"steps": steps[job_id]} for job_id in job_ids if job_id in rows]


def latest_statuses(conn: Connection) -> dict[str, str]:
    """The status of the newest attempt of each table. Source: Kettle, latest-status views."""
    newest = select(func.max(job_log.c.job_id)).group_by(job_log.c.job_name)
    query = select(job_log.c.job_name, job_log.c.status).where(job_log.c.job_id.in_(newest))
    return {row.job_name: row.status for row in conn.execute(query)}


def finished_counts(conn: Connection) -> dict[str, tuple[int, int, int]]:
    """Table → finished windows, rows read and rows written by their latest attempts."""
    query = (
        select(
            job_log.c.job_name,
            func.count(job_log.c.job_id.distinct()),
            func.coalesce(func.sum(step_log.c.source_count), 0),
            func.coalesce(func.sum(step_log.c.success_count), 0),
        )
        .join_from(job_log, step_log, job_log.c.job_id == step_log.c.job_id)
        .where(job_log.c.latest == 1, job_log.c.status == _DONE)
        .group_by(job_log.c.job_name)
        .order_by(job_log.c.job_name)
    )
    return {
        name: (windows, int(read), int(done)) for name, windows, read, done in conn.execute(query)
    }


def plain(row: Any) -> dict[str, Any]:
    """A row under its column names; moments as ISO 8601 in UTC, `runtime_args` as an object."""
    values = dict(row._mapping)
    for name, value in values.items():
        if isinstance(value, datetime):
            values[name] = f"{value.isoformat()}+00:00"
    if values.get("runtime_args"):
        values["runtime_args"] = json.loads(values["runtime_args"])
    return values


def _window(row: Any, zone: ZoneInfo) -> TimeWindow:
    return TimeWindow(in_zone(row.window_start, zone), in_zone(row.window_end, zone))
