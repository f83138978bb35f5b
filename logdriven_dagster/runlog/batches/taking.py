"""Taking batches: the choice of an attempt's batches from the queue, and their later states.

Source: BDRE, InitJob … TermJob on BATCH_CONSUMP_QUEUE; consumed batches move to the archive. A
consumer's queue is read under the locks of its rows, so that no batch is taken twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, insert, or_, select, update
from sqlalchemy.engine import Connection, Row

from logdriven_dagster.errors import AlreadyRunningError, EarlierWindowError, LifeCycleError
from logdriven_dagster.model.attempts import Attempt, Status
from logdriven_dagster.model.batches import PSEUDO_BATCH, Batch, BatchState, Process, Route, cut
from logdriven_dagster.runlog.attempts import coverage, failed_refreshes
from logdriven_dagster.runlog.attempts.rows import schedule_id
from logdriven_dagster.runlog.batches.offering import (
    enlist,
    make_batches,
    match_route,
    record_batch,
)
from logdriven_dagster.runlog.schema.attempts import (
    batch_archive,
    batch_queue,
    job_log,
    job_log_archive,
)
from logdriven_dagster.runlog.sql.chunks import split_into_chunks
from logdriven_dagster.runlog.sql.clock import utc_now
from logdriven_dagster.runlog.sql.projects import match_project


@dataclass(frozen=True, slots=True)
class ChosenBatches:
    """The batches that an attempt has taken, and the batch that it makes of them."""

    target_batch_id: int
    batches: tuple[Batch, ...]
    has_more: bool = False
    """True if the queue holds enough batches for another window."""


def take(
    conn: Connection, process: Process, attempt: Attempt, max_batches: int | None
) -> ChosenBatches:
    """Give an attempt its batches, and the batch that it makes.

    After an attempt that did not succeed, these are the same batches and the same target. For a
    finished window that runs again, they are its batches, with later versions of them that wait for
    a mark, and a new target. Otherwise they are the oldest batches that were not taken. Raises
    LifeCycleError 101, 109, 112; EarlierWindowError if another window has to run again first;
    AlreadyRunningError if another attempt of the table is running.
    """
    if max_batches is None and any(r.enqueuer.cut_pattern is None for r in process.routes):
        raise LifeCycleError(101, f"{process.table} has an enqueuer without a cut pattern")
    least = 1 if any(route.enqueuer.required for route in process.routes) else 0
    if max_batches is not None and max_batches < least:
        what = f"{process.table} cannot take {max_batches} batches"
        raise LifeCycleError(101, f"{what}; give 1 or more")
    for route in process.routes:
        enlist(conn, route)
    waiting = _lock_waiting(conn, process)
    open_ones = _find_other_attempts(conn, attempt)
    begun = [item for item in waiting if item.target_batch_id is not None]
    mine = [item for item in begun if item.target_batch_id not in open_ones]
    new = [item for item in waiting if item.target_batch_id is None]
    if mine and (target := mine[0].target_batch_id):
        chosen = tuple(item for item in mine if item.target_batch_id == target)
    else:
        target = _target(conn, attempt)
        chosen = _copy_batches(conn, process, attempt)
        marked = {(r.step, r.source) for r in process.routes if r.enqueuer.cut_pattern is not None}
        own = [item for item in chosen if (item.step, item.source) in marked]
        chosen += tuple(item for item in new if _is_restatement(item, own))
        if not chosen:
            _refuse_begun(attempt, begun, open_ones)
            chosen = tuple(_choose(process, new, max_batches))
    _take(conn, process, chosen, target)
    record_batch(conn, attempt, target)
    taken = {item.queue_id for item in chosen}
    left = [item for item in new if item.queue_id not in taken]
    return ChosenBatches(target, chosen, has_more=_is_sufficient(process, left, max_batches))


def _target(conn: Connection, attempt: Attempt) -> int:
    """Return the batch that a success of the attempt makes."""
    made = select(job_log.c.target_batch_id).where(job_log.c.job_id == attempt.job_id)
    number = conn.execute(made).scalar_one()
    return int(number) if number is not None else make_batches(conn, [attempt.job_id])[0]


def take_none(conn: Connection, attempt: Attempt) -> ChosenBatches:
    """Give batch 0 to an attempt at a table that has no enqueuers. Source: BDRE, InitJob.

    The batch comes from the window itself: windows of a table may run concurrently.
    """
    origin = schedule_id(attempt)
    mine = (
        match_project(batch_queue)
        & (batch_queue.c.job_name == attempt.table)
        & (batch_queue.c.source_job_name == origin)
        & (batch_queue.c.source_batch_id == PSEUDO_BATCH)
    )
    target = conn.execute(select(batch_queue.c.target_batch_id).where(mine)).scalar()
    if target is None:
        (target,) = make_batches(conn, [attempt.job_id])
        row: dict[str, Any] = {
            "job_name": attempt.table,
            "step_id": attempt.claim.steps[0],
            "source_job_name": origin,
            "source_batch_id": PSEUDO_BATCH,
            "target_batch_id": target,
            "insert_ts": utc_now(),
            "batch_state": BatchState.NEW.value,
        }
        conn.execute(insert(batch_queue).values(row))
    record_batch(conn, attempt, target)
    accessed = {"batch_state": BatchState.ACCESSED.value, "end_ts": None}
    conn.execute(update(batch_queue).where(mine).values(accessed))
    return ChosenBatches(int(target), ())


def start(conn: Connection, attempt: Attempt, step: str) -> None:
    """Record that a step begins to read its batches."""
    accessed = BatchState.ACCESSED.value
    _mark(conn, attempt, step, start_ts=utc_now(), end_ts=None, batch_state=accessed)


def mark_processed(conn: Connection, attempt: Attempt, step: str | None = None) -> None:
    """Mark the batches of an attempt, or of one of its steps, as consumed."""
    state = BatchState.PROCESSED.value
    _mark(conn, attempt, step, batch_state=state, end_ts=utc_now())


def mark_failed(conn: Connection, attempt: Attempt, step: str | None = None) -> None:
    """Mark the batches of a failed attempt or step as failed; they stay queued."""
    _mark(conn, attempt, step, batch_state=BatchState.FAILED.value, end_ts=utc_now())


def give_back(conn: Connection, job_id: int) -> None:
    """Remove the batch copies of a failed refresh from the queue; the archive stays unchanged."""
    made = select(job_log.c.target_batch_id).where(job_log.c.job_id == job_id)
    mine = match_project(batch_queue) & (batch_queue.c.target_batch_id == made.scalar_subquery())
    table = select(job_log.c.job_name).where(job_log.c.job_id == job_id)
    conn.execute(delete(batch_queue).where(batch_queue.c.job_name == table.scalar_subquery(), mine))


def archive(conn: Connection, attempt: Attempt) -> None:
    """Move the attempt's batches from the queue to the archive."""
    names = [column.name for column in batch_queue.columns]
    rows = select(batch_queue).where(_match_taken(attempt))
    conn.execute(insert(batch_archive).from_select(names, rows))
    conn.execute(delete(batch_queue).where(_match_taken(attempt)))


def find_steps_with_batches(conn: Connection, attempt: Attempt) -> set[str]:
    """Return the steps that consume batches which an attempt has taken."""
    query = select(batch_queue.c.step_id).where(_match_taken(attempt)).distinct()
    return {step for step in conn.execute(query).scalars() if step}


def list_markings(conn: Connection, attempt: Attempt) -> list[str]:
    """Return the markings of the batches that an attempt has taken."""
    mine = select(batch_queue.c.batch_marking).where(_match_taken(attempt))
    return [marking for marking in conn.execute(mine).scalars() if marking]


def _batch_of(row: Row[Any]) -> Batch:
    """Return a row of the queue as a value."""
    span = None if row.window_start is None else (row.window_start, row.window_end)
    return Batch(
        queue_id=row.queue_id,
        batch_id=row.source_batch_id,
        step=row.step_id,
        source=row.source_job_name,
        source_job_id=row.source_job_id,
        marking=row.batch_marking or "",
        span=span,
        target_batch_id=row.target_batch_id,
    )


def _lock_waiting(conn: Connection, process: Process) -> list[Batch]:
    """Lock and return the batches that wait for the process, in the order of the queue."""
    query = select(batch_queue).where(
        match_project(batch_queue), batch_queue.c.job_name == process.table
    )
    rows = conn.execute(query.order_by(batch_queue.c.queue_id).with_for_update())
    routes = {(route.step, route.source) for route in process.routes}
    return [item for item in map(_batch_of, rows) if (item.step, item.source) in routes]


def _find_other_attempts(conn: Connection, attempt: Attempt) -> dict[int, Row[Any]]:
    """Return the unfinished attempts at other windows, by the batch that they were to make.

    Raises AlreadyRunningError if one is running. Source: BDRE, InitJob, one run of a process at a
    time.
    """
    query = select(job_log).where(
        match_project(job_log),
        job_log.c.job_name == attempt.table,
        job_log.c.latest == 1,
        job_log.c.status.in_(coverage.OPEN),
        job_log.c.job_id != attempt.job_id,
    )
    rows = conn.execute(query).all()
    for row in rows:
        if row.status == Status.RUNNING.value:
            by = f"window {row.window_start}, in job {row.job_id} of {row.owner}"
            raise AlreadyRunningError(
                f"{attempt.table} is already running: {by}; wait until it ends"
            )
    return {row.target_batch_id: row for row in rows if row.target_batch_id is not None}


def _refuse_begun(attempt: Attempt, begun: Sequence[Batch], others: dict[int, Row[Any]]) -> None:
    if begun:
        row = others[begun[0].target_batch_id or 0]
        what = f"{attempt.table} has taken batches that window {row.window_start} did not finish"
        fix = (
            f"job {row.job_id} is {row.status}; run that window first, for example with "
            "`logdriven run`"
        )
        raise EarlierWindowError(f"{what}: {fix}")


def _choose(process: Process, new: Sequence[Batch], max_batches: int | None) -> list[Batch]:
    """Choose the batches of a run for each route.

    Source: BDRE, InitJob, whose patterns come first.
    """
    chosen: list[Batch] = []
    missing: Route | None = None
    oldest = {item.queue_id for item in _select_oldest(process, new, max_batches)}
    for route in process.routes:
        mine, pattern = _select_route(route, new), route.enqueuer.cut_pattern
        if not mine and not route.enqueuer.required:
            continue
        if pattern is None:
            part = tuple(item for item in mine if item.queue_id in oldest)
        elif not (part := cut(mine, pattern, max_batches)):
            marks = f"none of {len(mine)} batches of {route.source} is marked {pattern!r}"
            raise LifeCycleError(109, f"{route}: {marks}; it waits for a marked one")
        if not mine:
            missing = missing or route
        chosen += part
    if missing:
        raise LifeCycleError(
            112, f"{missing} waits for a batch of {missing.source}; run {missing.source} first"
        )
    return chosen


def _select_route(route: Route, batches: Sequence[Batch]) -> list[Batch]:
    return [item for item in batches if (item.step, item.source) == (route.step, route.source)]


def _select_oldest(process: Process, new: Sequence[Batch], max_batches: int | None) -> list[Batch]:
    """Return the oldest `max_batches` batches of each step without a cut pattern.

    At least one batch of each upstream is included. Source: BDRE, InitJob, max_batch for each
    sub-process.
    """
    found: list[Batch] = []
    for sub in process.steps:
        routes = [
            r for r in process.routes if r.step == sub.step and r.enqueuer.cut_pattern is None
        ]
        firsts = [batch for route in routes for batch in _select_route(route, new)[:1]]
        others = [batch for route in routes for batch in _select_route(route, new)[1:]]
        in_order = firsts + sorted(others, key=lambda batch: batch.queue_id)
        most = max_batches and max(max_batches, len(firsts))
        found += cut(in_order, None, most)
    return found


def _is_sufficient(process: Process, left: Sequence[Batch], max_batches: int | None) -> bool:
    try:
        return bool(_choose(process, left, max_batches))
    except LifeCycleError:
        return False


def _copy_batches(conn: Connection, process: Process, attempt: Attempt) -> tuple[Batch, ...]:
    """Queue copies of the batches of a finished window that runs again; the archive stays."""
    for log in (job_log, job_log_archive):
        before = conn.execute(failed_refreshes.select_superseded_batch(log, attempt)).scalar()
        if before is not None:
            break
    else:
        return ()
    names = [column.name for column in batch_queue.columns if column.name != "queue_id"]
    rows = select(*(batch_archive.c[name] for name in names)).where(
        match_project(batch_archive),
        batch_archive.c.target_batch_id == before,
        or_(*(match_route(batch_archive, route) for route in process.routes)),
    )
    conn.execute(insert(batch_queue).from_select(names, rows))
    return tuple(item for item in _lock_waiting(conn, process) if item.target_batch_id == before)


def _is_restatement(item: Batch, taken: Sequence[Batch]) -> bool:
    """Return True if a batch is a later version of a taken one, and will be read with it."""
    return item.span is not None and any(
        (item.step, item.source) == (old.step, old.source)
        and old.span is not None
        and old.span[0] <= item.span[0]
        and item.span[1] <= old.span[1]
        for old in taken
    )


def _take(conn: Connection, process: Process, chosen: Sequence[Batch], target: int) -> None:
    values = {"target_batch_id": target, "batch_state": BatchState.ACCESSED.value, "end_ts": None}
    for part in split_into_chunks([item.queue_id for item in chosen]):
        taken = update(batch_queue).where(batch_queue.c.queue_id.in_(part)).values(values)
        if conn.execute(taken).rowcount != len(part):
            raise AlreadyRunningError(f"another process has just taken batches of {process.table}")


def _mark(conn: Connection, attempt: Attempt, step: str | None, **values: Any) -> None:
    mine = _match_taken(attempt)
    if step is not None:
        mine &= batch_queue.c.step_id == step
    conn.execute(update(batch_queue).where(mine).values(values))


def _match_taken(attempt: Attempt) -> ColumnElement[bool]:
    target = select(job_log.c.target_batch_id).where(job_log.c.job_id == attempt.job_id)
    return and_(
        match_project(batch_queue),
        batch_queue.c.job_name == attempt.table,
        batch_queue.c.target_batch_id == target.scalar_subquery(),
    )
