"""Recent results of attempts for metrics: rows, seconds, retries and takeovers of each table.

Queries use the index of end times, so their cost depends on the attempts that ended recently.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock
from typing import Any

from sqlalchemy import ColumnElement, Select, case, func, select
from sqlalchemy.engine import Connection

from logdriven_dagster.model.attempts import Status
from logdriven_dagster.runlog.observed.mirror import present
from logdriven_dagster.runlog.schema.attempts import job_log, step_log
from logdriven_dagster.runlog.sql.chunks import LOOKED_UP, split_into_chunks
from logdriven_dagster.runlog.sql.clock import (
    elapsed_seconds,
    match_past,
    measure_since,
    utc_now,
)
from logdriven_dagster.runlog.sql.projects import match_project
from logdriven_dagster.runlog.sql.unindexed import unindexed

_SETTLED = timedelta(minutes=10)
"""Transactions that end attempts are shorter: rows that ended before that are complete."""
_DONE, _FAILED = Status.SUCCESS.value, Status.FAILURE.value


@dataclass(frozen=True, slots=True)
class Ended:
    """Attempts of a table that ended with one status, added up."""

    table: str
    status: str
    attempts: int
    seconds: float
    retries: int
    """The number of retries within attempts, and of attempts that followed a failure."""
    takeovers: int
    """The number of attempts whose leases expired, or whose processes had died."""
    rows_read: int = 0
    rows_written: int = 0

    def __add__(self, other: "Ended") -> "Ended":
        return Ended(
            self.table,
            self.status,
            self.attempts + other.attempts,
            self.seconds + other.seconds,
            self.retries + other.retries,
            self.takeovers + other.takeovers,
            self.rows_read + other.rows_read,
            self.rows_written + other.rows_written,
        )


class Today:
    """Attempts that ended since midnight, UTC, by the log's clock; past hours are read once."""

    def __init__(self) -> None:
        self._settled: dict[tuple[str, str], Ended] = {}
        self._midnight = self._until = datetime(1970, 1, 1)
        self._lock = Lock()

    def count_ended(self, conn: Connection) -> Collection[Ended]:
        """Return the sums for each table and status."""
        with self._lock:  # several scrapers may ask at once
            return self._count_ended(conn, present(conn))

    def _count_ended(self, conn: Connection, now: datetime) -> Collection[Ended]:
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        hour = (now - _SETTLED).replace(minute=0, second=0, microsecond=0)
        if midnight != self._midnight:
            self._settled, self._midnight, self._until = {}, midnight, midnight
        if hour > self._until:
            self._settled = _merge_sums(self._settled, _read_between(conn, self._until, hour))
            self._until = hour
        return _merge_sums(self._settled, _read_between(conn, self._until, None)).values()


def _merge_sums(
    found: Mapping[tuple[str, str], Ended], more: Iterable[Ended]
) -> dict[tuple[str, str], Ended]:
    together = dict(found)
    for each in more:
        key = (each.table, each.status)
        together[key] = together[key] + each if key in together else each
    return together


def _read_between(conn: Connection, start: datetime, end: datetime | None) -> Iterator[Ended]:
    for row in conn.execute(_select_attempts(start, end)):
        yield Ended(
            row.job_name,
            row.status,
            row.attempts,
            float(row.seconds or 0),
            int(row.retries),
            int(row.takeovers),
            int(row.rows_read or 0),
            int(row.rows_written or 0),
        )


def _select_attempts(start: datetime, end: datetime | None) -> Select[Any]:
    ended = job_log.c.job_end_time
    before = match_past(ended) if end is None else ended < end
    failed = job_log.c.status == _FAILED
    # The last try of a failed attempt was not repeated within it.
    within = job_log.c.error_count - case((failed & (job_log.c.error_count > 0), 1), else_=0)
    behind = case((job_log.c.failures > 0, 1), else_=0)
    lost = case((failed & job_log.c.lease_expires_at.is_not(None), 1), else_=0)
    return (
        select(
            job_log.c.job_name,
            job_log.c.status,
            func.count().label("attempts"),
            func.sum(elapsed_seconds(job_log.c.job_start_time, ended)).label("seconds"),
            func.sum(within + behind).label("retries"),
            func.sum(lost).label("takeovers"),
            func.sum(_sum_over_steps(step_log.c.source_count)).label("rows_read"),
            func.sum(_sum_over_steps(step_log.c.success_count)).label("rows_written"),
        )
        .where(match_project(job_log), ended >= start, before)
        # SQLite would otherwise read the whole log, in the order of the groups.
        .group_by(unindexed(job_log.c.job_name), unindexed(job_log.c.status))
    )


def _sum_over_steps(count: ColumnElement[int]) -> ColumnElement[int]:
    """Return the sum of a count over the steps of a published attempt.

    It avoids a join, for which databases would read all steps of the attempts of a busy day.
    """
    total = select(func.sum(count)).where(step_log.c.job_id == job_log.c.job_id)
    return case((job_log.c.status == _DONE, total.correlate(job_log).scalar_subquery()), else_=0)


def measure_failing_time(conn: Connection, job_ids: Sequence[int]) -> dict[int, float]:
    """Return the seconds for which each window has been failing, by attempt and the log's clock.

    `job_ids` are latest attempts that failed. Failures before the window's last success do not
    count.
    """
    latest, earlier, success = (job_log.alias(name) for name in ("latest", "earlier", "success"))
    over = (
        select(success.c.job_id)
        .where(
            match_project(success),
            success.c.job_schedule_id == earlier.c.job_schedule_id,
            success.c.job_id > earlier.c.job_id,
            unindexed(success.c.status).in_((_DONE, Status.SKIPPED.value)),
        )
        .exists()
    )
    query = (
        select(
            latest.c.job_id,
            func.min(earlier.c.job_end_time).label("first"),
            utc_now().label("read_at"),
        )
        .join_from(latest, earlier, latest.c.job_schedule_id == earlier.c.job_schedule_id)
        .where(
            match_project(earlier),
            unindexed(earlier.c.status) == _FAILED,
            earlier.c.job_end_time.is_not(None),
            ~over,
        )
        .group_by(latest.c.job_id)
    )
    found = {}
    for part in split_into_chunks(job_ids, LOOKED_UP):
        for row in conn.execute(query.where(latest.c.job_id.in_(part))):
            found[row.job_id] = (
                measure_since(row.first, row.read_at) or timedelta(0)
            ).total_seconds()
    return found
