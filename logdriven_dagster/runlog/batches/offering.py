"""Queueing batches: passes the successes of a table on to each step that consumes them.

Source: BDRE, HaltJob. Its code deletes batches that a consumer has not taken yet before it queues
the next one; ours never deletes. A batch is queued under the lock of its source's `job_log` row, so
that of two concurrent callers the second one sees the row of the first.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Table, func, insert, or_, select, update
from sqlalchemy.engine import Connection, Row

from logdriven_dagster.model.attempts import Attempt, Status
from logdriven_dagster.model.batches import BatchState, Route, build_marking
from logdriven_dagster.model.windows import convert_to_instant
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.schema.attempts import (
    batch,
    batch_archive,
    batch_queue,
    job_log,
    job_log_archive,
)
from logdriven_dagster.runlog.sql.chunks import split_into_chunks
from logdriven_dagster.runlog.sql.clock import utc_now
from logdriven_dagster.runlog.sql.projects import match_project
from logdriven_dagster.runlog.sql.windows import build_window_of_row


def enlist(conn: Connection, route: Route) -> None:
    """Queue the source's finished windows that this consumer was never offered, oldest first.

    For a new consumer that is the whole history, including windows finished by runners that did not
    know the consumer. Source: Sharp ETL, a window for each upstream success that is not consumed
    yet.
    """
    _rename_step(conn, route)
    found = find_unoffered(conn, route, locked=True)
    known = find_queued_batches(conn, route, [row.target_batch_id for row in found])
    missing = [row for row in found if row.target_batch_id not in known]
    numbers = iter(make_batches(conn, [r.job_id for r in missing if r.target_batch_id is None]))
    marks = read_stored_markings(conn, [row.target_batch_id for row in missing])
    queued = []
    for row in missing:
        number = row.target_batch_id
        if number is None:
            number = next(numbers)
            for log in (job_log, job_log_archive):
                made = update(log).where(log.c.job_id == row.job_id)
                conn.execute(made.values(target_batch_id=number))
        marking = marks.get(number) or build_default_marking(row, route)
        queued.append(_build_row(number, row.job_id, marking, (row.window_start, row.window_end)))
    queue(conn, route, queued)


def offer(conn: Connection, attempt: Attempt, marking: str, routes: Iterable[Route]) -> int | None:
    """Queue the result of a finished attempt for each route, and return the number of its batch.

    Returns None if the table has no consumers. An attempt makes one batch; a refresh makes another
    one, which is pending again.
    """
    routes = list(routes)
    made = select(job_log.c.target_batch_id).where(job_log.c.job_id == attempt.job_id)
    number = conn.execute(made).scalar_one()
    if number is None:
        if not routes:
            return None
        (number,) = make_batches(conn, [attempt.job_id])
        makes = update(job_log).where(job_log.c.job_id == attempt.job_id)
        conn.execute(makes.values(target_batch_id=number))
    conn.execute(update(batch).where(batch.c.batch_id == number).values(batch_marking=marking))
    for route in routes:
        enlist(conn, route)
        if not find_queued_batches(
            conn, route, [number]
        ):  # it began before another one that ended first
            span = int(attempt.window.start.timestamp()), int(attempt.window.end.timestamp())
            queue(conn, route, [_build_row(number, attempt.job_id, marking, span)])
    return int(number)


def record_batch(conn: Connection, attempt: Attempt, number: int) -> None:
    """Record the batch that a success of the attempt makes.

    Raises AttemptLostError if it is lost.
    """
    ATTEMPTS.write(conn, [attempt], {"target_batch_id": number})
    by = update(batch).where(batch.c.batch_id == number)
    conn.execute(by.values(source_job_id=attempt.job_id))


def make_batches(
    conn: Connection, source_job_ids: Sequence[int | None], kind: str = "window"
) -> list[int]:
    """Create batches of these attempts and return their ids in order; None: made by no attempt."""
    rows = [{"source_job_id": job_id, "batch_type": kind} for job_id in source_job_ids]
    new = insert(batch).values(create_time=utc_now())
    if not rows:
        return []
    if conn.dialect.insert_executemany_returning_sort_by_parameter_order:
        returned = new.returning(batch.c.batch_id, sort_by_parameter_order=True)
        return list(conn.execute(returned, rows).scalars())
    return [_get_key(conn.execute(new, row).inserted_primary_key) for row in rows]  # MySQL


def queue(conn: Connection, route: Route, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add NEW rows for a consumer."""
    if not rows:
        return
    same: dict[str, Any] = {
        "job_name": route.table,
        "step_id": route.step,
        "source_job_name": route.source,
        "batch_state": BatchState.NEW.value,
    }
    queued = insert(batch_queue).values(insert_ts=utc_now())
    conn.execute(queued, [same | dict(row) for row in rows])


def find_unoffered(conn: Connection, route: Route, *, locked: bool = False) -> list[Row[Any]]:
    """Return the latest successes of the source that are newer than those offered to the consumer.

    They are in the order of the windows. Empty key and offset ranges are no batches. `locked` locks
    their rows.
    """
    if route.source == route.table:
        return []
    newest = max(
        conn.execute(
            select(func.max(rows.c.source_job_id)).where(match_route(rows, route))
        ).scalar()
        or 0
        for rows in (batch_queue, batch_archive)
    )
    logs = [job_log]
    if find_last_archived(conn) > newest:
        logs.append(job_log_archive)
    found: list[Row[Any]] = []
    for log in logs:  # the archive last, to find rows that move in the meantime
        query = select(log).where(
            match_project(log), match_finished(log), log.c.job_name == route.source
        )
        query = query.where(log.c.job_id > newest)
        found += conn.execute(query.with_for_update() if locked else query).all()
    return sorted(found, key=lambda row: (row.window_start, row.job_id))


def find_last_archived(conn: Connection) -> int:
    """Return the newest attempt of the project in the archive, 0 if there is none."""
    key = job_log_archive.c.job_id
    newest = select(key).where(match_project(job_log_archive)).order_by(key.desc()).limit(1)
    return int(conn.execute(newest).scalar() or 0)


def match_finished(log: Table) -> ColumnElement[bool]:
    """Match the rows of `job_log` whose windows are batches: finished and not empty."""
    return (
        (log.c.latest == 1)
        & (log.c.status == Status.SUCCESS.value)
        & log.c.window_start.is_not(None)
        & or_(log.c.covered.is_(None), log.c.covered != 0)
    )


def match_route(rows: Table, route: Route) -> ColumnElement[bool]:
    """Match the rows of a consumer and a source, in the queue or in its archive."""
    mine = match_project(rows) & (rows.c.job_name == route.table)
    mine &= rows.c.source_job_name == route.source
    return mine & (rows.c.step_id == route.step) if route.shared else mine


def find_queued_batches(
    conn: Connection,
    route: Route,
    numbers: Iterable[int | None],
    places: Sequence[Table] = (batch_queue, batch_archive),
) -> set[int]:
    """Return those of the batches that are, or ever were, in the consumer's queue."""
    found: set[int] = set()
    for part in split_into_chunks([number for number in numbers if number is not None]):
        for rows in places:
            mine = match_route(rows, route) & rows.c.source_batch_id.in_(part)
            found |= set(conn.execute(select(rows.c.source_batch_id).where(mine)).scalars())
    return found


def read_stored_markings(conn: Connection, numbers: Iterable[int | None]) -> dict[int, str]:
    """Return the markings of the batches that have one, by batch."""
    found: dict[int, str] = {}
    for part in split_into_chunks([number for number in numbers if number is not None]):
        marked = select(batch.c.batch_id, batch.c.batch_marking).where(
            batch.c.batch_id.in_(part), batch.c.batch_marking.is_not(None)
        )
        found |= {row.batch_id: row.batch_marking for row in conn.execute(marked)}
    return found


def build_default_marking(row: Row[Any], route: Route) -> str:
    """Return the default marking of a window."""
    window = build_window_of_row(row.incremental_type, row._mapping, route.zone)
    return build_marking(window, route.zone, convert_to_instant(row.data_now or 0))


def _rename_step(conn: Connection, route: Route) -> None:
    """Move the batches queued for a renamed step to its new name instead of queueing them again."""
    renamed = update(batch_queue).where(match_route(batch_queue, route))
    renamed = renamed.where(batch_queue.c.step_id != route.step)
    conn.execute(renamed.values(step_id=route.step))


def _build_row(number: int, job_id: int, marking: str, span: tuple[int, int]) -> dict[str, Any]:
    return {
        "source_batch_id": number,
        "source_job_id": job_id,
        "batch_marking": marking,
        "window_start": span[0],
        "window_end": span[1],
    }


def _get_key(primary_key: Sequence[Any] | None) -> int:
    assert primary_key is not None
    return int(primary_key[0])
