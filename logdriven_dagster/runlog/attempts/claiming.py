"""Claiming windows: inserts their new latest rows of `job_log`, which are their leases."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from sqlalchemy import update
from sqlalchemy.engine import Connection, Row
from sqlalchemy.exc import IntegrityError

from logdriven_dagster.errors import AlreadyDoneError, AlreadyRunningError
from logdriven_dagster.model.attempts import Attempt, Claim, OnRunning, Owner, Status, Trigger
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.attempts import coverage, failed_refreshes, leases, steps
from logdriven_dagster.runlog.attempts.earlier import EarlierAttempts, earlier_attempts
from logdriven_dagster.runlog.attempts.inheritance import looked_at, resumable
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.attempts.rows import insert_rows, numbered, schedule_id
from logdriven_dagster.runlog.leases import next_token
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive
from logdriven_dagster.runlog.sql.projects import of_project

_WITHOUT_REMAINS = (Status.SUCCESS.value, Status.SKIPPED.value, Status.DISCARDED.value)
_KEPT = (Status.RUNNING.value, Status.SUCCESS.value, Status.SKIPPED.value)


@dataclass(frozen=True, slots=True)
class _NextAttempt:
    """The properties of the next attempt at a window that follow from the earlier attempts."""

    number: int
    token: int
    failures: int
    """The number of consecutive failures."""
    standing: int | None
    """The id of the attempt that finished the window."""

    @property
    def columns(self) -> dict[str, Any]:
        return {"fencing_token": self.token, **numbered(self.number)}


def claim(
    conn: Connection, requests: Sequence[Claim], first: Status = Status.READY
) -> list[Attempt]:
    """Start attempts at adjoining windows of a table, oldest first, as new latest RUNNING rows.

    The first step of each attempt gets the status `first`, the others are READY. The oldest window
    is claimed regardless of the state in which an earlier attempt left it. The windows behind it
    are claimed up to the first one whose earlier attempt left it in a state that needs care: that
    window must run by itself.

    A running attempt whose lease has expired is taken over: it ends as FAILURE, and the new attempt
    gets its staged results. Raises AlreadyRunningError if another attempt is running (unless the
    request replaces it), and AlreadyDoneError if the latest one succeeded and the trigger is
    PENDING. Of two concurrent claims the unique index of `(job_schedule_id, latest)` admits one.
    """
    past = earlier_attempts(conn, requests)
    _refuse_overlapping(conn, past.requests[0], past)
    requests = _joined(past.requests, past)
    replaced = [_make_way(conn, each, past.of(each)) for each in requests]
    turns = [_turn(conn, each, past) for each in requests]
    fields = [
        {
            "failures": turn.failures,
            # A caller without a definition does not report the start of publishing either.
            "standing": turn.standing if request.definition is not None else None,
            **turn.columns,
            **({"again": 1} if request.replaces or request.is_late else {}),
            **looked_at(request, past.of(request)),
        }
        for request, turn in zip(requests, turns, strict=True)
    ]
    try:
        for request, turn in zip(requests, turns, strict=True):
            _demote(conn, request, past.of(request), turn.standing)
        jobs = insert_rows(conn, requests, Status.RUNNING, fields, requests[0].lease)
    except IntegrityError:
        raise _just_started(requests[0]) from None
    steps.add(conn, jobs, requests[0].steps, first)
    return [
        replace(_attempt(conn, job_id, request, turn, past.of(request)), replaced=owner)
        for job_id, request, turn, owner in zip(jobs, requests, turns, replaced, strict=True)
    ]


def skip(
    conn: Connection, requests: Sequence[Claim], reason: str | None = None
) -> list[TimeWindow]:
    """Record windows as skipped and return the recorded ones; a refresh can still run them.

    A window that is running, done or already skipped stays unchanged, except that an operator may
    skip a window that a rule has skipped. The reason becomes the output of the steps, which are
    SKIPPED as well. Windows skipped by an operator (Trigger.SKIP) become part of no range.
    """
    if not requests:
        return []
    past = earlier_attempts(conn, requests)
    chosen = [request for request in past.requests if _may_be_passed_over(conn, request, past)]
    for request in chosen:
        _demote(conn, request, past.of(request), None)
        if past.of(request) is not None:
            # The window may have succeeded before it was made pending again by hand.
            coverage.carve(conn, request.table, Status.SUCCESS, request.window)
    ranged = [request.trigger is not Trigger.SKIP for request in chosen]
    fields = [
        _turn(conn, request, past).columns | ({"covered": 1} if in_range else {})
        for request, in_range in zip(chosen, ranged, strict=True)
    ]
    if not chosen:
        return []
    try:
        jobs = insert_rows(conn, chosen, Status.SKIPPED, fields)
    except IntegrityError:
        raise _just_started(chosen[0]) from None
    if reason is not None:
        steps.add_skipped(conn, jobs, chosen[0].steps, reason)
    for request, in_range in zip(chosen, ranged, strict=True):
        if in_range:
            coverage.cover(conn, request.table, Status.SKIPPED, request.window)
    return [request.window for request in chosen]


def unskip(conn: Connection, requests: Sequence[Claim], reason: str) -> None:
    """Make skipped windows pending again: mark their latest attempts DISCARDED with a reason."""
    past = earlier_attempts(conn, requests)
    for request in past.requests:
        _demote(conn, request, past.of(request), None)
    fields = [_turn(conn, request, past).columns for request in past.requests]
    try:
        jobs = insert_rows(conn, past.requests, Status.DISCARDED, fields)
    except IntegrityError:
        raise _just_started(requests[0]) from None
    steps.add_skipped(conn, jobs, requests[0].steps, reason)


def _may_be_passed_over(conn: Connection, request: Claim, past: EarlierAttempts) -> bool:
    previous = past.of(request)
    if previous is None:
        return True
    again = request.trigger is Trigger.SKIP and previous.status == Status.SKIPPED.value
    if previous.status in _KEPT and not previous.expired and not again:
        return False
    if previous.expired:
        ATTEMPTS.take_over(conn, previous, request.owner)
    standing = failed_refreshes.standing_behind(conn, previous.job_id)
    if standing is not None:  # the window is finished, only its refresh died
        failed_refreshes.hide(conn, previous.job_id, standing)
    return standing is None


def _joined(requests: Sequence[Claim], past: EarlierAttempts) -> list[Claim]:
    """Return the first request and those behind it, up to the first that must run by itself."""

    def begins_anew(request: Claim) -> bool:
        previous = past.of(request)
        return previous is None or previous.status in _WITHOUT_REMAINS

    anew = list(takewhile(begins_anew, requests))
    return anew or list(requests[:1])


def _make_way(conn: Connection, request: Claim, previous: Row[Any] | None) -> Owner | None:
    """Refuse a window that is running or done; return the owner of the attempt ended, if any."""
    if previous is None:
        return None
    what = f"{request.table} {request.window}"
    if previous.expired:
        if not ATTEMPTS.take_over(conn, previous, request.owner):
            raise _just_started(request)
        return None
    if previous.status == Status.RUNNING.value:
        if request.on_running is not OnRunning.REPLACE:
            by = f"job {previous.job_id} of {previous.owner}"
            raise AlreadyRunningError(f"{what} is already running in {by}")
        if not leases.replace(conn, previous.job_id, request.owner):
            raise _just_started(request)
        return Owner.parse(previous.owner, previous.dagster_run_id)
    done = previous.status == Status.SUCCESS.value and previous.covered != 0
    if done and request.trigger is Trigger.PENDING:
        raise AlreadyDoneError(f"{what} has already finished, in job {previous.job_id}")
    return None


def _refuse_overlapping(conn: Connection, first: Claim, past: EarlierAttempts) -> None:
    """Refuse a window that overlaps a running one, as windows of a changed period may.

    Source: Kylin, where a merge and a build over one range met in production. On servers, two such
    claims within the same milliseconds do not see each other; windows of one period always do.
    """
    for row in past.overlapping:
        if not (row.expired and ATTEMPTS.take_over(conn, row, first.owner)):
            running = f"{row.job_schedule_id}, which job {row.job_id} of {row.owner} is running"
            raise AlreadyRunningError(f"{first.table} {first.window} overlaps {running}")


def _turn(conn: Connection, request: Claim, past: EarlierAttempts) -> _NextAttempt:
    """Return the number, token and failures of the next attempt, and the attempt that counts."""
    previous = past.of(request)
    number, token = past.archived.get(schedule_id(request), (0, 0))
    if previous is None and not number:
        return _NextAttempt(1, next_token(past.now, token), 0, None)
    refresh = None
    if previous is None:
        _demote_archived(conn, request)
        standing = failed_refreshes.standing_archived(conn, request)
    elif previous.status in coverage.DONE and previous.covered != 0:
        standing = previous.job_id
    else:
        standing = failed_refreshes.standing_behind(conn, previous.job_id)
    if previous is None or standing == previous.job_id:
        refresh = failed_refreshes.repeated(conn, schedule_id(request))
    before = refresh or previous
    if before is None:
        return _NextAttempt(number + 1, next_token(past.now, token), 0, standing)
    failed = before.status == Status.FAILURE.value or (refresh is None and before.expired)
    token = next_token(past.now, token, before.fencing_token)
    return _NextAttempt(
        before.attempt_number + 1, token, before.failures + 1 if failed else 0, standing
    )


def _demote_archived(conn: Connection, request: Claim) -> None:
    mine = job_log_archive.c.job_schedule_id == schedule_id(request)
    conn.execute(
        update(job_log_archive).where(of_project(job_log_archive), mine).values(latest=None)
    )


def _demote(
    conn: Connection, request: Claim, previous: Row[Any] | None, standing: int | None
) -> None:
    """Mark the previous attempt as no longer the latest, and a failed refresh as repeated."""
    if previous is None:
        return
    demoted = update(job_log).where(
        job_log.c.job_id == previous.job_id,
        job_log.c.latest == 1,
        job_log.c.status != Status.RUNNING.value,
    )
    values: dict[str, int | None] = {"latest": None}
    if standing not in (None, previous.job_id):
        values["failed_refresh"] = failed_refreshes.REPEATED
    if conn.execute(demoted.values(**values)).rowcount != 1:
        raise _just_started(request)


def _attempt(
    conn: Connection, job_id: int, request: Claim, turn: _NextAttempt, previous: Row[Any] | None
) -> Attempt:
    begun = Attempt(job_id, request, turn.number, turn.token, standing=turn.standing)
    if previous is None:
        return begun
    before = Status(previous.status)
    anew = previous.status in _WITHOUT_REMAINS
    return replace(
        begun,
        # A running attempt has just been taken over or replaced.
        previous=Status.FAILURE if before is Status.RUNNING else before,
        previous_id=previous.job_id,
        staged={} if anew else resumable(conn, request, previous),
    )


def _just_started(request: Claim) -> AlreadyRunningError:
    what = f"{request.table} {request.window}"
    return AlreadyRunningError(f"another runner has just started {what}")
