"""What waits in the batch queue, for planning: read, never written.

What a source had finished before its consumer began is not in the queue yet; it counts as if it
were.
"""

from collections.abc import Collection, Sequence
from typing import TypeAlias

from sqlalchemy import ScalarSelect, Select, Table, case, func, literal, select, union_all
from sqlalchemy.engine import Connection

from logdriven_dagster.model.batches import Batch, BatchState, Process, Route, reach
from logdriven_dagster.runlog.batches import batch_of
from logdriven_dagster.runlog.offering import (
    chunks,
    finished,
    marking_of_row,
    stored_markings,
    unoffered,
)
from logdriven_dagster.runlog.schema import batch_archive, batch_queue, job_log, job_log_archive

Pair: TypeAlias = tuple[str, str]
"""A step and the table whose batches it consumes."""
_ROUTES_AT_ONCE = 400
"""SQLite joins at most 500 queries into one."""


def queued(conn: Connection, processes: Collection[Process]) -> dict[str, dict[Pair, int]]:
    """Table → (step, source) → how many batches its next slices can take; every route is there.

    With a cut pattern those up to the last that has it, which is 0 where none has. Batches of an
    attempt that did not succeed are not counted: its slice is open in the log.
    """
    routes = [route for process in processes for route in process.routes]
    new, old = _new_counts(conn, routes), _unoffered_counts(conn, routes)
    found: dict[str, dict[Pair, int]] = {process.table: {} for process in processes}
    for n, route in enumerate(routes):
        count = new.get((route.table, route.step, route.source), 0) + old[n]
        pattern = route.enqueuer.cut_pattern
        if count and pattern is not None:
            count = reach(_markings(conn, route), pattern)
        found[route.table][route.step, route.source] = count
    return found


def waiting(conn: Connection, table: str, limit: int) -> list[Batch]:
    """The next batches in a table's queue that nobody has taken, in their order."""
    mine = (batch_queue.c.job_name == table) & (batch_queue.c.batch_state == BatchState.NEW.value)
    query = select(batch_queue).where(mine).order_by(batch_queue.c.queue_id).limit(limit)
    return [batch_of(row) for row in conn.execute(query)]


def _new_counts(conn: Connection, routes: Sequence[Route]) -> dict[tuple[str, str, str], int]:
    key = (batch_queue.c.job_name, batch_queue.c.step_id, batch_queue.c.source_job_name)
    found: dict[tuple[str, str, str], int] = {}
    for part in chunks(sorted({route.table for route in routes})):
        query = select(*key, func.count()).group_by(*key)
        query = query.where(
            batch_queue.c.job_name.in_(part), batch_queue.c.batch_state == BatchState.NEW.value
        )
        found |= {(table, step, source): n for table, step, source, n in conn.execute(query)}
    return found


def _unoffered_counts(conn: Connection, routes: Sequence[Route]) -> list[int]:
    """For each route how much of its source's history is newer than what was offered."""
    found = [0] * len(routes)
    foreign = [n for n, route in enumerate(routes) if route.source != route.table]
    for start in range(0, len(foreign), _ROUTES_AT_ONCE):
        part = foreign[start : start + _ROUTES_AT_ONCE]
        for n, count in conn.execute(_counting({n: routes[n] for n in part})):
            found[n] = count
    return found


def _counting(routes: dict[int, Route]) -> Select[int, int]:
    """Rows (number of the route, count), by a few steps in indices for each route."""
    pairs = union_all(
        *(
            select(
                literal(n).label("n"),
                literal(route.table).label("consumer"),
                literal(route.step).label("step"),
                literal(route.source).label("source"),
            )
            for n, route in routes.items()
        )
    ).subquery("pairs")

    def newest(rows: Table) -> ScalarSelect[int]:
        query = select(func.coalesce(func.max(rows.c.source_job_id), 0)).where(
            rows.c.job_name == pairs.c.consumer,
            rows.c.step_id == pairs.c.step,
            rows.c.source_job_name == pairs.c.source,
        )
        return query.scalar_subquery()

    offered = select(
        pairs.c.n,
        pairs.c.source,
        newest(batch_queue).label("queued"),
        newest(batch_archive).label("archived"),
    ).subquery("offered")
    last = case((offered.c.queued > offered.c.archived, offered.c.queued), else_=offered.c.archived)
    known = select(offered.c.n, offered.c.source, last.label("newest")).subquery("known")

    def newer(log: Table) -> ScalarSelect[int]:
        query = select(func.count()).where(
            log.c.job_name == known.c.source, log.c.job_id > known.c.newest, finished(log)
        )
        return query.scalar_subquery()

    archived = select(func.coalesce(func.max(job_log_archive.c.job_id), 0)).scalar_subquery()
    older = case((archived > known.c.newest, newer(job_log_archive)), else_=0)
    return select(known.c.n, newer(job_log) + older)


def _markings(conn: Connection, route: Route) -> list[str]:
    """The markings of what waits for a consumer, in the order of the queue."""
    mine = (
        (batch_queue.c.job_name == route.table)
        & (batch_queue.c.step_id == route.step)
        & (batch_queue.c.source_job_name == route.source)
        & (batch_queue.c.batch_state == BatchState.NEW.value)
    )
    query = select(batch_queue.c.batch_marking).where(mine).order_by(batch_queue.c.queue_id)
    marks = [marking or "" for marking in conn.execute(query).scalars()]
    old = unoffered(conn, route)
    stored = stored_markings(conn, [row.target_batch_id for row in old])
    return marks + [stored.get(row.target_batch_id) or marking_of_row(row, route) for row in old]
