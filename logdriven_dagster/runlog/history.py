"""Reading the run log: compressed for planning, whole for people."""

import json
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Select, and_, case, func, select
from sqlalchemy.engine import Connection

from logdriven_dagster.config.models import TableConfig
from logdriven_dagster.model.attempts import Owner, Status
from logdriven_dagster.model.logs import OpenWindow, Settled, TableLog
from logdriven_dagster.model.windows import TimeWindow, in_zone
from logdriven_dagster.runlog.schema import job_log, step_log

_DONE, _SKIPPED = Status.SUCCESS.value, Status.SKIPPED.value


def table_logs(conn: Connection, tables: Collection[TableConfig]) -> dict[str, TableLog]:
    """What planning needs to know about each of the tables; an unknown one has an empty log."""
    zones = {table.table: table.grid.zone for table in tables}
    finished: dict[str, list[TimeWindow]] = {name: [] for name in zones}
    skipped: dict[str, list[TimeWindow]] = {name: [] for name in zones}
    for row in conn.execute(_islands(list(zones))):
        kind = finished if row.status == _DONE else skipped
        kind[row.job_name].append(_window(row, zones[row.job_name]))
    opened = open_windows(conn, tables)
    stale = _stale_windows(conn, tables)
    return {
        table.table: TableLog(
            tuple(finished[table.table]),
            tuple(skipped[table.table]),
            tuple(opened.get(table.table, ())),
            tuple(_settled(conn, table)),
            tuple(stale.get(table.table, ())),
        )
        for table in tables
    }


def _islands(names: list[str]) -> Select[Any]:
    """Adjoining windows as one range, found by the database: gaps and islands."""
    group = (job_log.c.job_name, job_log.c.status)
    windows = (
        select(
            *group,
            job_log.c.window_start,
            job_log.c.window_end,
            func.lag(job_log.c.window_end)
            .over(partition_by=group, order_by=job_log.c.window_start)
            .label("reached"),
        )
        .where(
            job_log.c.latest == 1,
            job_log.c.status.in_([_DONE, _SKIPPED]),
            job_log.c.job_name.in_(names),
            job_log.c.window_start.is_not(None),
        )
        .subquery()
    )
    begins = case((windows.c.reached >= windows.c.window_start, 0), else_=1)
    numbered = select(
        windows,
        func.sum(begins)
        .over(
            partition_by=(windows.c.job_name, windows.c.status),
            order_by=windows.c.window_start,
            rows=(None, 0),
        )
        .label("island"),
    ).subquery()
    return (
        select(
            numbered.c.job_name,
            numbered.c.status,
            func.min(numbered.c.window_start).label("window_start"),
            func.max(numbered.c.window_end).label("window_end"),
        )
        .group_by(numbered.c.job_name, numbered.c.status, numbered.c.island)
        .order_by("job_name", "window_start")
    )


def open_windows(conn: Connection, tables: Collection[TableConfig]) -> dict[str, list[OpenWindow]]:
    """The running and failed windows of the tables that have any, oldest first."""
    zones = {table.table: table.grid.zone for table in tables}
    # These two words, which an index serves: a window with any other one is pending all the same.
    rows = conn.execute(
        select(job_log)
        .where(
            job_log.c.status.in_([Status.RUNNING.value, Status.FAILURE.value]),
            job_log.c.latest == 1,
            job_log.c.window_start.is_not(None),
        )
        .order_by(job_log.c.window_start)
    ).all()
    rows = [row for row in rows if row.job_name in zones]
    errors = _errors(conn, [row.job_id for row in rows])
    found: dict[str, list[OpenWindow]] = {}
    for row in rows:
        running = row.status == Status.RUNNING.value
        item = OpenWindow(
            _window(row, zones[row.job_name]),
            row.job_id,
            Status(row.status),
            _owner(row) if running else None,
            errors.get(row.job_id),
        )
        found.setdefault(row.job_name, []).append(item)
    return found


def _errors(conn: Connection, job_ids: list[int]) -> dict[int, str]:
    """The first line of each attempt's first error."""
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
        and (
            upstreams := [
                d.table
                for d in table.managed_dependencies
                if d.table in again and d.window != "none" and not _is_full(by_name, d.table)
            ]
        )
    }


def _is_full(tables: Mapping[str, TableConfig], name: str) -> bool:
    return name in tables and tables[name].incremental_type == "full"


def _outdated(conn: Connection, table: TableConfig, upstreams: list[str]) -> list[TimeWindow]:
    up, down = job_log.alias("up"), job_log.alias("down")
    query = (
        select(down.c.window_start, down.c.window_end)
        .join_from(
            up,
            down,
            and_(
                down.c.job_name == table.table,
                down.c.latest == 1,
                down.c.status == _DONE,
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


def attempts(conn: Connection, table: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
    """`job_log` rows under their column names, newest first, each with its `steps`.

    Moments are ISO 8601 in UTC, `runtime_args` is an object.
    """
    query = select(job_log).order_by(job_log.c.job_id.desc()).limit(limit)
    if table is not None:
        query = query.where(job_log.c.job_name == table)
    rows = [_plain(row) for row in conn.execute(query)]
    steps: dict[int, list[dict[str, Any]]] = {row["job_id"]: [] for row in rows}
    wanted = select(step_log).where(step_log.c.job_id.in_(list(steps)))
    for step in conn.execute(wanted.order_by(step_log.c.start_time, step_log.c.step_id)):
        steps[step.job_id].append(_plain(step))
    return [row | {"steps": steps[row["job_id"]]} for row in rows]


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


def _plain(row: Any) -> dict[str, Any]:
    values = dict(row._mapping)
    for name, value in values.items():
        if isinstance(value, datetime):
            values[name] = f"{value.isoformat()}+00:00"
    if values.get("runtime_args"):
        values["runtime_args"] = json.loads(values["runtime_args"])
    return values


def _window(row: Any, zone: ZoneInfo) -> TimeWindow:
    return TimeWindow(in_zone(row.window_start, zone), in_zone(row.window_end, zone))


def _owner(row: Any) -> Owner | None:
    host, _, numbers = (row.owner or "").partition(":")
    pid, _, started = numbers.partition(":")
    if not (pid.isdigit() and started.isdigit()):
        return None
    return Owner(host, int(pid), int(started), row.dagster_run_id)
