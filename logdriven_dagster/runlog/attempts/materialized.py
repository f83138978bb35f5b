"""Materializations of external assets, recorded as successful attempts.

Each partition of such an asset is a row of `job_log` under the name `asset KEY`, with the trigger
`observed`. Its windows are therefore covered, and windows made from them become stale once it is
materialized again, as if the asset were a table of the project. Nothing ran here, so there are no
steps and no lease; the fencing token is the number of the materialization in Dagster's event log.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Row, func, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from logdriven_dagster.model.attempts import Claim, Owner, Status, Trigger
from logdriven_dagster.model.ranges import unite
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.attempts import coverage
from logdriven_dagster.runlog.attempts.names import apply_logged_name, find_names
from logdriven_dagster.runlog.attempts.rows import build_number_columns, insert_rows, schedule_id
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive
from logdriven_dagster.runlog.sql.chunks import split_into_chunks
from logdriven_dagster.runlog.sql.projects import match_project
from logdriven_dagster.runlog.store import OvertakenError

_DONE = Status.SUCCESS
_NOT_SHOWN = ZoneInfo("UTC")
"""The zone of ranges that are only subtracted from others."""


@dataclass(frozen=True, slots=True)
class Materialized:
    """A materialized partition of an external asset."""

    window: TimeWindow
    """The range it covers; for an asset without partitions, everything up to the materialization.
    """
    number: int
    """The number of the newest materialization, which is unique."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An observation of an external asset: the asset, the observer and the time."""

    asset: str
    """The asset's name in the run log, `asset KEY`."""
    project: str
    owner: Owner
    now: datetime
    """The time of this machine."""

    def claim(self, window: TimeWindow) -> Claim:
        """Return the content of a partition's row."""
        return Claim(
            table=self.asset,
            window=window,
            period_minutes=int(window.span[1] - window.span[0]) // 60,
            incremental_type="time_window",
            project=self.project,
            trigger=Trigger.OBSERVED,
            owner=self.owner,
            now=self.now,
            steps=(),
        )


def note(
    conn: Connection, seen: Seen, found: Collection[Materialized], *, is_all: bool
) -> tuple[int, int]:
    """Record the partitions found of an asset, and return the numbers added and removed.

    With `is_all`, partitions that were recorded before and are not in `found` are removed. Raises
    OvertakenError if another process records the same at the same time.
    """
    known = {row.window_start: row for row in _read_records(conn, seen.asset)}
    by_start = {int(item.window.start.timestamp()): item for item in found}
    new = [(item, known.get(start)) for start, item in sorted(by_start.items())]
    new = [(item, row) for item, row in new if row is None or row.fencing_token != item.number]
    gone = [row for start, row in known.items() if is_all and start not in by_start]
    _supersede(conn, [*gone, *(row for _, row in new if row is not None)])
    moved = [row for item, row in new if row is not None and not _is_at(row, item.window)]
    for window in _merge_ranges([_build_window(row) for row in (*gone, *moved)]):
        coverage.carve(conn, seen.asset, _DONE, window)
    if new:
        _insert(conn, seen, [item for item, _ in new])
    for window in _merge_ranges([item.window for item, _ in new]):
        coverage.cover(conn, seen.asset, _DONE, window)
    return len(new), len(gone)


def _read_records(conn: Connection, asset: str) -> Sequence[Row[Any]]:
    return conn.execute(
        select(
            job_log.c.job_id,
            job_log.c.window_start,
            job_log.c.window_end,
            job_log.c.fencing_token,
        )
        .where(
            match_project(job_log),
            job_log.c.job_name == asset,
            job_log.c.latest == 1,
            job_log.c.status == _DONE.value,
        )
        .order_by(job_log.c.window_start)
    ).all()


def _supersede(conn: Connection, rows: Sequence[Row[Any]]) -> None:
    for part in split_into_chunks([row.job_id for row in rows]):
        conn.execute(update(job_log).where(job_log.c.job_id.in_(part)).values(latest=None))


def _is_at(row: Row[Any], window: TimeWindow) -> bool:
    return bool(row.window_end == int(window.end.timestamp()))


def _build_window(row: Row[Any]) -> TimeWindow:
    return TimeWindow.from_seconds(row.window_start, row.window_end, _NOT_SHOWN)


def _merge_ranges(windows: Iterable[TimeWindow]) -> list[TimeWindow]:
    return unite(sorted(windows, key=lambda window: window.start))


def _insert(conn: Connection, seen: Seen, new: Sequence[Materialized]) -> None:
    windows = [item.window for item in new]
    known = find_names(conn, seen.asset, windows)
    claims = [
        apply_logged_name(seen.claim(w), name) for w, name in zip(windows, known, strict=True)
    ]
    times = _count_records(conn, claims)
    fields = [
        {
            "covered": 1,
            "fencing_token": item.number,
            **build_number_columns(times.get(item.window.span, 0) + 1),
        }
        for item in new
    ]
    try:
        with conn.begin_nested():
            insert_rows(conn, claims, _DONE, fields)
    except IntegrityError:
        raise OvertakenError(f"another process has just recorded {seen.asset}") from None


def _count_records(conn: Connection, claims: Sequence[Claim]) -> dict[tuple[float, float], int]:
    """Return the number of earlier records by the bounds of a window in seconds."""
    found: dict[tuple[float, float], int] = {}
    for part in split_into_chunks(list(map(schedule_id, claims))):
        for log in (job_log, job_log_archive):
            columns = (log.c.window_start, log.c.window_end)
            newest = select(*columns, func.max(log.c.attempt_number).label("times"))
            query = newest.where(match_project(log), log.c.job_schedule_id.in_(part)).group_by(
                *columns
            )
            for row in conn.execute(query.group_by(*columns)):
                window = (row.window_start, row.window_end)
                found[window] = max(row.times, found.get(window, 0))
    return found
