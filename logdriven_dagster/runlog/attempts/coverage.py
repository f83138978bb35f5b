"""What the finished windows add up to, kept as ranges, so that planning never reads the history.

A row of `job_log` with `covered = 1` is part of a range of `log_range`; rows that people insert or
change by hand are not, and are read one by one. Ranges only grow: a window that was finished and is
running again, or that somebody has set to FAILURE, is taken out when they are read.
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import and_, bindparam, delete, insert, null, select, union_all, update
from sqlalchemy.engine import Connection, Row

from logdriven_dagster.model.attempts import Status, Trigger
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive, log_range
from logdriven_dagster.runlog.sql.among import among
from logdriven_dagster.runlog.sql.chunks import chunks
from logdriven_dagster.runlog.sql.projects import of_project
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
).where(of_project(log_range))

_UNCOVERED = select(
    job_log.c.job_name,
    job_log.c.status,
    job_log.c.window_start,
    job_log.c.window_end,
    job_log.c.run_trigger,
    job_log.c.job_id,
).where(
    of_project(job_log),
    job_log.c.latest == 1,
    job_log.c.covered.is_(None),  # 0: an empty slice, at whose place the next one begins
    job_log.c.status.in_(DONE),
    job_log.c.window_start.is_not(None),
)
"""Finished windows that no range holds yet, or never: those that operators have skipped."""
_FINISHED = union_all(
    _RANGES.where(among(log_range.c.job_name)),
    # SQLite would look through all windows of a table for those few that no range holds.
    _UNCOVERED.where(among(unindexed(job_log.c.job_name))),
)

_OF_STATUS = and_(
    of_project(log_range),
    log_range.c.job_name == bindparam("name"),
    log_range.c.status == bindparam("was"),
)
_LENGTHENED = (
    update(log_range)
    .where(_OF_STATUS, log_range.c.window_end == bindparam("start"))
    .values(window_end=bindparam("end"))
)
"""The range that a window adjoins, with that window."""
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

    The usual one adjoins the range before it, which costs one update. Two runners that add at the
    same moment may leave ranges that touch or overlap, which means the same.
    """
    start, end = int(window.start.timestamp()), int(window.end.timestamp())
    added = {"name": table, "was": status.value, "start": start, "end": end}
    if conn.execute(_LENGTHENED, added).rowcount:
        return
    if conn.execute(_CONTAINING, added).first() is None:
        values = {"window_start": start, "window_end": end}
        conn.execute(insert(log_range).values(job_name=table, status=status.value, **values))


def carve(conn: Connection, table: str, status: Status, window: TimeWindow) -> None:
    """Take a window out of the ranges of a status."""
    start, end = int(window.start.timestamp()), int(window.end.timestamp())
    overlapping = select(log_range).where(
        of_project(log_range),
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


def ranges(conn: Connection, names: Collection[str]) -> list[Row[Any]]:
    """Rows (job_name, status, window_start, window_end) by ascending start; they may overlap.

    What was reopened is still in them. `run_trigger` and `job_id` are those of single windows.
    """
    rows = conn.execute(_FINISHED, {"names": names}).all()
    return sorted(rows, key=lambda row: row.window_start)


def reopened(conn: Connection, open_ones: Sequence[str]) -> list[Row[Any]]:
    """Rows (job_name, window_start, window_end) by ascending start: no longer finished windows.

    They are in the ranges, but the latest attempts at them, whose `job_schedule_id` is given, are
    running or did not succeed.
    """
    found: list[Row[Any]] = []
    # No join: PostgreSQL expects more open windows than there are, and would join whole logs.
    for part in chunks(open_ones):
        for log in (job_log, job_log_archive):
            query = select(log.c.job_name, log.c.window_start, log.c.window_end)
            names = log.c.job_schedule_id.in_(part)
            found += conn.execute(query.where(of_project(log), names, log.c.covered == 1))
    return sorted(found, key=lambda row: row.window_start)


def absorb(conn: Connection) -> None:
    """Make ranges of the finished rows that people wrote, and one of ranges that touch.

    Windows that operators have skipped stay rows, since who did it and why counts. What others add
    or extend meanwhile stays as it is.
    """
    ranges = conn.execute(select(log_range).where(of_project(log_range)).with_for_update()).all()
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
    for ids in chunks([row.range_id for row in ranges]):
        conn.execute(delete(log_range).where(log_range.c.range_id.in_(ids)))
    conn.execute(insert(log_range), merged)
    for ids in chunks([row.job_id for row in rows]):
        conn.execute(update(job_log).where(job_log.c.job_id.in_(ids)).values(covered=1))
