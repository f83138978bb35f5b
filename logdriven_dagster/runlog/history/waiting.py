"""Queries of the batch queue for planning, which only read.

Windows that a source had finished before its consumer began are not in the queue yet; they count as
if they were.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from sqlalchemy import CompoundSelect, SelectBase, case, func, literal, select, union_all
from sqlalchemy.engine import Connection, Row

from logdriven_dagster.model.batches import BatchState, Process, Route, reach
from logdriven_dagster.runlog.batches.offering import (
    build_default_marking,
    find_last_archived,
    find_unoffered,
    match_finished,
    match_route,
    read_stored_markings,
)
from logdriven_dagster.runlog.schema.attempts import (
    batch,
    batch_archive,
    batch_queue,
    job_log,
    job_log_archive,
)
from logdriven_dagster.runlog.sql.among import among
from logdriven_dagster.runlog.sql.chunks import QUERIES, split_into_chunks
from logdriven_dagster.runlog.sql.projects import match_project

Pair: TypeAlias = tuple[str, str]
"""A step and the table whose batches it consumes."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The batches that wait for a consumer, by step and source."""

    queued: dict[Pair, int] = field(default_factory=dict)
    """The number of batches that the next windows can take, for every route."""
    unmarked: dict[Pair, int] = field(default_factory=dict)
    """The number of further batches that wait for one marked by the cut pattern."""
    restated: tuple[int, ...] = ()
    """The attempts at windows that took an earlier version of a batch that is not marked."""


def read_waiting(conn: Connection, processes: Collection[Process]) -> dict[str, Waiting]:
    """Read the batches that wait in the queue for each of these tables.

    With a cut pattern, the batches up to the last one that has it can be taken. Batches of an
    attempt that did not succeed are not counted: their window is open in the log.
    """
    routes = [route for process in processes for route in process.routes]
    in_queue = _count_queued(conn, routes)
    newest = _find_newest_offered(conn, routes, in_queue)
    history = _count_unoffered(
        conn, {(r.source, n) for r, n in newest.items() if r.source != r.table}
    )
    found = {process.table: Waiting() for process in processes}
    for route in routes:
        count = in_queue[route][0] + history.get((route.source, newest[route]), 0)
        pattern, pair = route.enqueuer.cut_pattern, (route.step, route.source)
        mine = found[route.table]
        mine.queued[pair] = count
        if count and pattern is not None:
            mine.queued[pair] = reach(_list_markings(conn, route), pattern)
            mine.unmarked[pair] = count - mine.queued[pair]
            if mine.unmarked[pair]:
                restated = {*mine.restated, *_find_restated(conn, route)}
                found[route.table] = replace(mine, restated=tuple(sorted(restated)))
    return found


def _find_restated(conn: Connection, route: Route) -> Sequence[int]:
    """Return the attempts that took earlier versions of batches that lack the mark."""
    pattern = route.enqueuer.cut_pattern or ""
    mine = match_route(batch_queue, route) & (batch_queue.c.batch_state == BatchState.NEW.value)
    rows = conn.execute(select(batch_queue).where(mine, batch_queue.c.window_start.is_not(None)))
    targets = [
        select(func.max(batch_archive.c.target_batch_id)).where(
            match_route(batch_archive, route),
            batch_archive.c.window_start < row.window_end,
            batch_archive.c.window_end > row.window_start,
        )
        for row in rows
        if not re.search(pattern, row.batch_marking or "")
    ]
    if not targets:
        return ()
    made = [
        n
        for part in split_into_chunks(targets, QUERIES)
        for n in conn.execute(union_all(*part)).scalars()
    ]
    known = [n for n in made if n is not None]
    return (
        conn.execute(select(batch.c.source_job_id).where(batch.c.batch_id.in_(known)))
        .scalars()
        .all()
    )


def _count_queued(conn: Connection, routes: Sequence[Route]) -> dict[Route, tuple[int, int]]:
    """Return the number of new batches and the newest attempt that made one; zeros for none."""
    key = (batch_queue.c.job_name, batch_queue.c.source_job_name, batch_queue.c.step_id)
    is_new = case((batch_queue.c.batch_state == BatchState.NEW.value, 1), else_=0)
    columns = (func.sum(is_new), func.coalesce(func.max(batch_queue.c.source_job_id), 0))
    steps: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
    query = select(*key, *columns).where(match_project(batch_queue), among(batch_queue.c.job_name))
    query = query.group_by(*key)
    names = {route.table for route in routes}
    for table, source, step, new, newest in conn.execute(query, {"names": names}):
        steps.setdefault((table, source), {})[step] = (int(new), newest)
    found = {}
    for route in routes:
        rows = steps.get((route.table, route.source), {})
        mine = [row for step, row in rows.items() if step == route.step or not route.shared]
        found[route] = (sum(new for new, _ in mine), max((job for _, job in mine), default=0))
    return found


def _find_newest_offered(
    conn: Connection, routes: Sequence[Route], in_queue: Mapping[Route, tuple[int, int]]
) -> dict[Route, int]:
    """Return the newest attempt whose batch each consumer was offered, queued or consumed."""
    newest = func.coalesce(func.max(batch_archive.c.source_job_id), 0).label("value")
    queries = [
        select(literal(n).label("number"), newest).where(match_route(batch_archive, route))
        for n, route in enumerate(routes)
    ]
    archived = dict(_execute_all(conn, queries))
    return {route: max(archived[n], in_queue[route][1]) for n, route in enumerate(routes)}


def _count_unoffered(
    conn: Connection, after: Collection[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    """Return the number of batches that each source made in attempts after the given ones."""
    last = find_last_archived(conn)
    asked = list(after)
    queries = [
        select(literal(n).label("number"), func.count().label("value")).where(
            match_project(log), log.c.job_name == source, log.c.job_id > job_id, match_finished(log)
        )
        for n, (source, job_id) in enumerate(asked)
        for log in ((job_log, job_log_archive) if last > job_id else (job_log,))
    ]
    found = dict.fromkeys(asked, 0)
    for n, count in _execute_all(conn, queries):
        found[asked[n]] += count
    return found


def _execute_all(conn: Connection, queries: Sequence[SelectBase]) -> Iterator[tuple[int, int]]:
    """Yield the rows of many small queries, executed a few hundred at a time.

    With constants in each, every database takes a step or two in an index for it.
    """
    for part in split_into_chunks(queries, QUERIES):
        joined: CompoundSelect[Any] = union_all(*part)
        rows: Sequence[Row[Any]] = conn.execute(joined).all()
        yield from ((row.number, int(row.value)) for row in rows)


def _list_markings(conn: Connection, route: Route) -> list[str]:
    """Return the markings of the batches that wait for a consumer, in the order of the queue."""
    mine = match_route(batch_queue, route) & (batch_queue.c.batch_state == BatchState.NEW.value)
    query = select(batch_queue.c.batch_marking).where(mine).order_by(batch_queue.c.queue_id)
    marks = [marking or "" for marking in conn.execute(query).scalars()]
    old = find_unoffered(conn, route)
    stored = read_stored_markings(conn, [row.target_batch_id for row in old])
    return marks + [
        stored.get(row.target_batch_id) or build_default_marking(row, route) for row in old
    ]
