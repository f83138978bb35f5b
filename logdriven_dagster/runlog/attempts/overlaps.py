"""Finished windows that another window of their table overlaps after a change of its grid.

Finished windows in force never overlap each other. A window is refused if it would replace a part
of a finished one. It replaces the finished windows that it contains when it begins to publish.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from zoneinfo import ZoneInfo

from sqlalchemy import bindparam, func, select, union_all, update
from sqlalchemy.engine import Connection

from logdriven_dagster.errors import PartOfWindowError
from logdriven_dagster.model.attempts import Attempt, Claim, Status
from logdriven_dagster.model.windows import TimeWindow, refresh_command
from logdriven_dagster.runlog.attempts import coverage
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive
from logdriven_dagster.runlog.sql.chunks import split_into_chunks
from logdriven_dagster.runlog.sql.projects import match_project

_SHOWN = 3
_LOGS = (job_log, job_log_archive)
_LATEST = {
    log: match_project(log) & (log.c.job_name == bindparam("table")) & (log.c.latest == 1)
    for log in _LOGS
}
_FINISHED = {
    log: latest & (log.c.status == Status.SUCCESS.value) for log, latest in _LATEST.items()
}
_SKIPPED = union_all(
    *(
        select(log.c.window_start, log.c.window_end).where(
            latest,
            log.c.status == Status.SKIPPED.value,
            log.c.window_start < bindparam("end"),
            log.c.window_end > bindparam("start"),
        )
        for log, latest in _LATEST.items()
    )
)
_OVERLAPPING = union_all(
    *(
        select(log.c.job_id, log.c.window_start, log.c.window_end).where(
            finished,
            # Windows follow each other, so the first match is the last window that begins before
            # the range.
            log.c.window_start
            >= func.coalesce(
                select(func.max(log.c.window_start))
                .where(finished, log.c.window_start <= bindparam("start"))
                .scalar_subquery(),
                bindparam("start"),
            ),
            log.c.window_start < bindparam("end"),
            log.c.window_end > bindparam("start"),
        )
        for log, finished in _FINISHED.items()
    )
)


def find_finished_windows(
    conn: Connection, table: str, span: TimeWindow
) -> list[tuple[int, TimeWindow]]:
    """Return the finished windows that overlap a range, oldest first, each with its job id."""
    bounds = {"table": table, "start": int(span.span[0]), "end": int(span.span[1])}
    rows = conn.execute(_OVERLAPPING, bounds).all()
    found = [
        (row.job_id, _build_window(row.window_start, row.window_end, span.zone)) for row in rows
    ]
    return sorted(found, key=lambda item: item[1].span)


def find_skipped_windows(conn: Connection, table: str, span: TimeWindow) -> list[TimeWindow]:
    """Return the skipped windows that overlap a range, oldest first."""
    bounds = {"table": table, "start": int(span.span[0]), "end": int(span.span[1])}
    rows = conn.execute(_SKIPPED, bounds)
    found = [_build_window(row.window_start, row.window_end, span.zone) for row in rows]
    return sorted(found, key=lambda window: window.span)


def add_replaced_windows(conn: Connection, claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims of adjoining windows, each with the finished windows that it replaces.

    The result ends before the first window that is a part of a finished one. Raises
    PartOfWindowError if that is the oldest.
    """
    table, first, last = claims[0].table, claims[0].window, claims[-1].window
    finished = find_finished_windows(conn, table, first.up_to_end_of(last))
    found: list[Claim] = []
    for claim in claims:
        over = [(job, each) for job, each in finished if each.overlaps(claim.window)]
        if any(not claim.window.contains(each) for _, each in over):
            break
        replaced = tuple(job for job, each in over if each != claim.window)
        found.append(replace(claim, replaces=replaced))
    if not found:
        refuse_part(table, first, (each for _, each in finished))
    return found


def refuse_part(table: str, window: TimeWindow, finished: Iterable[TimeWindow]) -> None:
    """Raise PartOfWindowError if a window overlaps finished ones that it does not contain."""
    over = [each for each in finished if each.overlaps(window)]
    wholes = [each for each in over if not window.contains(each)]
    if not wholes:
        return
    zone = window.zone
    start = min(window.span[0], *(each.span[0] for each in over))
    end = max(window.span[1], *(each.span[1] for each in over))
    around = _build_window(start, end, zone)
    shown = ", ".join(map(str, wholes[:_SHOWN])) + (", …" if len(wholes) > _SHOWN else "")
    raise PartOfWindowError(
        f"{table} {window} overlaps {shown}, which ran before the table's windows changed. Its "
        f"rows can only be replaced as a whole; run {refresh_command(table, around)}"
    )


def supersede(conn: Connection, attempts: Sequence[Attempt]) -> None:
    """Mark the windows of an earlier grid within those of the attempts as replaced."""
    for attempt in attempts:
        for part in split_into_chunks(attempt.claim.replaces):
            for log in _LOGS:
                mine = log.c.job_id.in_(part) & (log.c.latest == 1)
                conn.execute(update(log).where(mine).values(latest=None))
        if attempt.claim.replaces:
            coverage.carve(conn, attempt.table, Status.SUCCESS, attempt.window)


def _build_window(start: float, end: float, zone: ZoneInfo) -> TimeWindow:
    return TimeWindow.from_seconds(start, end, zone)
