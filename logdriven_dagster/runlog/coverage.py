"""What the finished windows add up to, kept as ranges, so that planning never reads the history.

A row of `job_log` with `covered = 1` is part of a range of `log_range`; rows that people insert or
change by hand are not, and are read one by one. Ranges only grow: a covered window that is running
again, or that somebody has set to FAILURE, is taken out by its own latest row when they are read.
"""

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, insert, select, union_all, update
from sqlalchemy.engine import Connection, Result, Row

from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.schema import job_log, log_range

DONE = (Status.SUCCESS.value, Status.SKIPPED.value)


def cover(conn: Connection, table: str, status: Status, window: TimeWindow) -> None:
    """Add a window to the ranges of a table.

    The usual one adjoins the range before it, which costs one update. Two runners that add at the
    same moment may leave ranges that touch or overlap, which means the same.
    """
    start, end = int(window.start.timestamp()), int(window.end.timestamp())
    mine = (log_range.c.job_name == table) & (log_range.c.status == status.value)
    adjoining = update(log_range).where(mine, log_range.c.window_end == start)
    if conn.execute(adjoining.values(window_end=end)).rowcount:
        return
    within = select(log_range.c.range_id).where(
        mine, log_range.c.window_start <= start, log_range.c.window_end >= end
    )
    if conn.execute(within.limit(1)).first() is None:
        values = {"window_start": start, "window_end": end}
        conn.execute(insert(log_range).values(job_name=table, status=status.value, **values))


def ranges(conn: Connection, names: Collection[str]) -> list[Row[Any]]:
    """Rows (job_name, status, window_start, window_end) by ascending start; they may overlap.

    What is running or failed again is still in them.
    """
    kept = select(
        log_range.c.job_name, log_range.c.status, log_range.c.window_start, log_range.c.window_end
    ).where(log_range.c.job_name.in_(names))
    by_hand = _uncovered(job_log.c.job_name.in_(names))
    return list(conn.execute(union_all(kept, by_hand).order_by("window_start")))


def absorb(conn: Connection) -> None:
    """Make ranges of the finished rows that people wrote, and one of ranges that touch."""
    everything: Result[Any] = conn.execute(
        union_all(
            select(
                log_range.c.job_name,
                log_range.c.status,
                log_range.c.window_start,
                log_range.c.window_end,
            ),
            _uncovered(),
        ).order_by("job_name", "status", "window_start")
    )
    merged: list[dict[str, Any]] = []
    for row in everything:
        last = merged[-1] if merged else None
        same = last and (last["job_name"], last["status"]) == (row.job_name, row.status)
        if last and same and row.window_start <= last["window_end"]:
            last["window_end"] = max(last["window_end"], row.window_end)
        else:
            merged.append(dict(row._mapping))
    conn.execute(delete(log_range))
    if merged:
        conn.execute(insert(log_range), merged)
    finished = (job_log.c.latest == 1, job_log.c.covered.is_(None), job_log.c.status.in_(DONE))
    conn.execute(update(job_log).where(*finished).values(covered=1))


def _uncovered(*conditions: ColumnElement[bool]) -> Select[Any]:
    """Finished windows that no range holds yet."""
    return select(
        job_log.c.job_name, job_log.c.status, job_log.c.window_start, job_log.c.window_end
    ).where(
        job_log.c.latest == 1,
        job_log.c.covered.is_(None),
        job_log.c.status.in_(DONE),
        job_log.c.window_start.is_not(None),
        *conditions,
    )
