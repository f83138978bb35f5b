"""Ranges that finished windows cover, so that planning does not read the whole history.

A row of `job_log` with `covered = 1` is part of a range of `log_range`. Rows inserted or changed by
hand are not, and are read one by one. Ranges only grow: a window that was finished and is running
again, or was set to FAILURE by hand, is subtracted when the ranges are read.
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import and_, bindparam, delete, insert, null, select, union_all, update
from sqlalchemy.engine import Connection, Row

from logdriven_dagster.model.attempts import Status, Trigger
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive, log_range
from logdriven_dagster.runlog.sql.among import among
from logdriven_dagster.runlog.sql.chunks import split_into_chunks
from logdriven_dagster.runlog.sql.projects import match_project
from logdriven_dagster.runlog.sql.unindexed import unindexed

DONE = (Status.SUCCESS.value, Status.SKIPPED.value)
OPEN = (Status.RUNNING.value, Status.FAILURE.value, Status.DISCARDED.value)
_RANGES = select(
    log_range.c.job_name,
    log_range.c.status,
    log_range.c.window_start,
    log_range.c.window_end,
    null().label("run_trigger"),
    null().label("job_id"),
).where(match_project(log_range))

_UNCOVERED = select(
    job_log.c.job_name,
    job_log.c.status,
    job_log.c.window_start,
    job_log.c.window_end,
    job_log.c.run_trigger,
    job_log.c.job_id,
).where(
    match_project(job_log),
    job_log.c.latest == 1,
    job_log.c.covered.is_(None),  # 0: an empty key or offset range, at which the next one begins
    job_log.c.status.in_(DONE),
    job_log.c.window_start.is_not(None),
)
"""Finished windows that are in no range yet, or never will be: those skipped by operators."""
_FINISHED = union_all(
    _RANGES.where(among(log_range.c.job_name)),
    # SQLite would scan all windows of a table for the few that are in no range.
    _UNCOVERED.where(among(unindexed(job_log.c.job_name))),
)

_OF_STATUS = and_(
    match_project(log_range),
    log_range.c.job_name == bindparam("name"),
    log_range.c.status == bindparam("was"),
)
_LENGTHENED = (
    update(log_range)
    .where(_OF_STATUS, log_range.c.window_end == bindparam("start"))
    .values(window_end=bindparam("end"))
)
"""The range that a window adjoins, extended by that window."""
_CONTAINING = (
    select(log_range.c.range_id)
    .where(
        _OF_STATUS,
        log_range.c.window_start <= bindparam("start"),
        log_range.c.window_end >= bindparam("end"),
    )
    .limit(1)
)


def cover(conn: Connection, table: str, status: Status, window: TimeWindow) -> None:
    """Add a window to the ranges of a table.

    A window usually adjoins the range before it, which costs one update. Two runners that add
    windows at the same time may leave ranges that touch or overlap, which are equivalent.
    """
    start, end = int(window.start.timestamp()), int(window.end.timestamp())
    added = {"name": table, "was": status.value, "start": start, "end": end}
    if conn.execute(_LENGTHENED, added).rowcount:
        return
    if conn.execute(_CONTAINING, added).first() is None:
        values = {"window_start": start, "window_end": end}
        conn.execute(insert(log_range).values(job_name=table, status=status.value, **values))


def carve(conn: Connection, table: str, status: Status, window: TimeWindow) -> None:
    """Remove a window from the ranges of a status."""
    start, end = int(window.start.timestamp()), int(window.end.timestamp())
    overlapping = select(log_range).where(
        match_project(log_range),
        log_range.c.job_name == table,
        log_range.c.status == status.value,
        log_range.c.window_start < end,
        log_range.c.window_end > start,
    )
    for row in conn.execute(overlapping.with_for_update()).all():
        conn.execute(delete(log_range).where(log_range.c.range_id == row.range_id))
        for first, last in ((row.window_start, start), (end, row.window_end)):
            if first < last:
                left = {"window_start": first, "window_end": last}
                conn.execute(insert(log_range).values(job_name=table, status=status.value, **left))


def list_ranges(conn: Connection, names: Collection[str]) -> list[Row[Any]]:
    """Return rows (job_name, status, window_start, window_end) by ascending start.

    Ranges may overlap and still contain reopened windows. `run_trigger` and `job_id` are those of
    single windows.
    """
    rows = conn.execute(_FINISHED, {"names": names}).all()
    return sorted(rows, key=lambda row: row.window_start)


def list_reopened(conn: Connection, open_ones: Sequence[str]) -> list[Row[Any]]:
    """Return rows (job_name, window_start, window_end) of reopened windows, by ascending start.

    Reopened windows are in the ranges, but their latest attempts, whose `job_schedule_id` is in
    `open_ones`, are running or did not succeed.
    """
    found: list[Row[Any]] = []
    # No join: PostgreSQL overestimates the number of open windows and would join whole logs.
    for part in split_into_chunks(open_ones):
        for log in (job_log, job_log_archive):
            query = select(log.c.job_name, log.c.window_start, log.c.window_end)
            names = log.c.job_schedule_id.in_(part)
            found += conn.execute(query.where(match_project(log), names, log.c.covered == 1))
    return sorted(found, key=lambda row: row.window_start)


def absorb(conn: Connection) -> None:
    """Make ranges of finished rows that were written by hand, and merge ranges that touch.

    Windows skipped by operators stay rows, since their author and reason are needed. Ranges that
    other transactions add or extend at the same time stay unchanged.
    """
    ranges = conn.execute(select(log_range).where(match_project(log_range)).with_for_update()).all()
    by_operators = job_log.c.run_trigger.is_not_distinct_from(Trigger.SKIP.value)
    rows = conn.execute(_UNCOVERED.where(~by_operators)).all()
    merged: list[dict[str, Any]] = []
    last: dict[tuple[str, str], dict[str, Any]] = {}
    for row in sorted([*ranges, *rows], key=lambda row: row.window_start):
        before = last.get((row.job_name, row.status))
        if before and row.window_start <= before["window_end"]:
            before["window_end"] = max(before["window_end"], row.window_end)
            continue
        names = ("job_name", "status", "window_start", "window_end")
        last[row.job_name, row.status] = {name: row._mapping[name] for name in names}
        merged.append(last[row.job_name, row.status])
    if len(merged) == len(ranges) and not rows:
        return
    for ids in split_into_chunks([row.range_id for row in ranges]):
        conn.execute(delete(log_range).where(log_range.c.range_id.in_(ids)))
    conn.execute(insert(log_range), merged)
    for ids in split_into_chunks([row.job_id for row in rows]):
        conn.execute(update(job_log).where(job_log.c.job_id.in_(ids)).values(covered=1))
