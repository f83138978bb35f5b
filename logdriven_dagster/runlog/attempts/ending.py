"""The end of attempts: writes rows, steps and covered ranges in one transaction."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.engine import Connection

from logdriven_dagster.model.attempts import (
    CURRENT_FILE_LENGTH,
    Attempt,
    AttemptOutcome,
    Status,
    StepOutcome,
)
from logdriven_dagster.runlog.attempts import coverage, failed_refreshes, steps
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.attempts.steps import StepKey
from logdriven_dagster.runlog.sql.texts import clean_text

_ENDED_AT = ("job_end_time", "last_update_time")


def succeed(
    conn: Connection,
    attempts: Sequence[Attempt],
    outcome: AttemptOutcome,
    ended_steps: Mapping[StepKey, StepOutcome],
) -> None:
    """Record that attempts at adjoining windows succeeded, with the steps that end now.

    `attempts` are ordered oldest first. `outcome` holds for all of them; `ended_steps` has the
    outcomes of the steps that end with them. Raises AttemptLostError if one of them was ended or
    taken over, or if another of their steps has not ended.
    """
    empty = attempts[0].window.is_empty
    ending = {step for _, step in ended_steps}
    ended = _build_columns(outcome, covered=int(not empty)) | {"ending": sorted(ending)}
    if not ATTEMPTS.write(conn, attempts, ended, now=_ENDED_AT, where=steps.CAN_SUCCEED):
        raise steps.build_step_error(conn, [attempt.job_id for attempt in attempts], ending)
    steps.finish(conn, ended_steps)
    if not empty:
        whole = attempts[0].window.up_to_end_of(attempts[-1].window)
        coverage.cover(conn, attempts[0].table, Status.SUCCESS, whole)


def fail(
    conn: Connection,
    attempts: Sequence[Attempt],
    outcome: AttemptOutcome,
    blamed: tuple[str, StepOutcome] | None = None,
) -> None:
    """Record that attempts ended without success, with their open steps.

    `blamed` is the step that caused the failure, with its outcome. A window that was
    finished before, and of which nothing was published, stays finished. Raises AttemptLostError if
    one of the attempts was ended or taken over.
    """
    jobs = [attempt.job_id for attempt in attempts]
    ATTEMPTS.write(conn, attempts, _build_columns(outcome, covered=None), now=_ENDED_AT)
    steps.close(conn, jobs, outcome.status, blamed=blamed)
    for attempt in attempts:
        if attempt.standing is not None and outcome.published_nothing:
            failed_refreshes.hide(conn, attempt.job_id, attempt.standing)
    steps.forget_staged(conn, jobs)


def _build_columns(outcome: AttemptOutcome, *, covered: int | None) -> dict[str, Any]:
    files = outcome.current_file
    return {
        "status": outcome.status.value,
        "application_id": outcome.application_id,
        "current_file": None if files is None else clean_text(files, CURRENT_FILE_LENGTH),
        "error_count": outcome.error_count,
        "lease_expires_at": None,  # released; an attempt ended by another process keeps its expiry
        "covered": covered,
    }
