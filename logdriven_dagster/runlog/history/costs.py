"""The cost of a window: medians of the newest successes of a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from sqlalchemy import bindparam, func, select
from sqlalchemy.engine import Connection

from logdriven_dagster.model.attempts import Status
from logdriven_dagster.runlog.schema.attempts import job_log, step_log
from logdriven_dagster.runlog.sql.chunks import LOOKED_UP, split_into_chunks
from logdriven_dagster.runlog.sql.projects import match_project
from logdriven_dagster.runlog.sql.unions import execute_each

_MOST = 30
_NEWEST = (
    select(job_log.c.job_name, job_log.c.job_id)
    .where(
        match_project(job_log),
        job_log.c.job_name == bindparam("name"),
        job_log.c.latest == 1,
        job_log.c.status == Status.SUCCESS.value,
    )
    .order_by(job_log.c.window_start.desc())
    .limit(bindparam("most"))
)


@dataclass(frozen=True, slots=True)
class WindowCost:
    """The cost of a typical window of a table."""

    read: int
    """The median of the rows that its windows read from their sources."""
    written: int
    """The median of the rows that its windows wrote."""
    seconds: float
    """The time for one window; windows of one pass share its time."""


def read_window_costs(conn: Connection, names: Sequence[str]) -> dict[str, WindowCost]:
    """Return the cost of a window by table, of the thirty newest successes of each."""
    asked = [{"name": name, "most": _MOST} for name in names]
    jobs = {row.job_id: row.job_name for row in execute_each(conn, _NEWEST, asked)}
    times: dict[str, list[tuple[datetime, datetime]]] = {}
    read: dict[str, list[int]] = {}
    written: dict[str, list[int]] = {}
    for part in split_into_chunks(list(jobs), LOOKED_UP):
        query = (
            select(
                job_log.c.job_id,
                job_log.c.job_start_time,
                job_log.c.job_end_time,
                func.sum(step_log.c.source_count).label("read"),
                func.sum(step_log.c.success_count).label("written"),
            )
            .join_from(job_log, step_log, step_log.c.job_id == job_log.c.job_id, isouter=True)
            .where(job_log.c.job_id.in_(part))
            .group_by(job_log.c.job_id, job_log.c.job_start_time, job_log.c.job_end_time)
        )
        for row in conn.execute(query):
            name = jobs[row.job_id]
            times.setdefault(name, []).append((row.job_start_time, row.job_end_time))
            read.setdefault(name, []).append(int(row.read or 0))
            written.setdefault(name, []).append(int(row.written or 0))
    return {
        name: WindowCost(
            round(median(read[name])), round(median(written[name])), _measure(spans) / len(spans)
        )
        for name, spans in times.items()
    }


def _measure(spans: Sequence[tuple[datetime, datetime]]) -> float:
    """Return the seconds that the spans cover together."""
    covered, until = 0.0, None
    for start, end in sorted(spans):
        begin = start if until is None else max(start, until)
        covered += max((end - begin).total_seconds(), 0.0)
        until = end if until is None else max(end, until)
    return covered
