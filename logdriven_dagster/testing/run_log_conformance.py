"""Conformance tests of databases with a run log: claims, leases, fencing tokens and texts.

A package subclasses `RunLogConformance` in its tests and provides its fixture (docs/testing.md).
"""

from abc import abstractmethod
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import text

from logdriven_dagster.errors import AlreadyDoneError, AlreadyRunningError, AttemptLostError
from logdriven_dagster.model.attempts import (
    Attempt,
    AttemptOutcome,
    Claim,
    Counts,
    Owner,
    Status,
    StepOutcome,
    Trigger,
)
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.attempts import claiming, ending, steps
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.history import logs

_UTC = ZoneInfo("UTC")
TABLE, STEP = "ods.conforming", "load"
HERE, THERE = Owner("here", 10, 20), Owner("there", 1, 2)
FIRST_DAY, SECOND_DAY = (
    TimeWindow(datetime(2022, 1, day, tzinfo=_UTC), datetime(2022, 1, day + 1, tzinfo=_UTC))
    for day in (1, 2)
)


def claim(
    run_log: RunLog, window: TimeWindow, trigger: Trigger = Trigger.PENDING, owner: Owner = HERE
) -> Attempt:
    """Claim a window of a daily table, whose only step runs."""
    now = datetime(2022, 2, 1, tzinfo=_UTC)
    wanted = Claim(TABLE, window, 1440, "time_window", "project", trigger, owner, now, (STEP,))
    (attempt,) = run_log.write(lambda conn: claiming.claim(conn, [wanted], Status.RUNNING))
    return attempt


def end_attempt(run_log: RunLog, attempt: Attempt, status: Status = Status.SUCCESS) -> None:
    """End an attempt and its step. Raises AttemptLostError if another runner has the window."""
    with run_log.begin() as conn:
        ATTEMPTS.renew(conn, [attempt])
        steps.finish(conn, {(attempt.job_id, STEP): StepOutcome(status, Counts(5, 5, 5, 0))})
        outcome = AttemptOutcome(status)
        if status is Status.SUCCESS:
            ending.succeed(conn, [attempt], outcome, {})
        else:
            ending.fail(conn, [attempt], outcome)


def expire_leases(run_log: RunLog) -> None:
    """Make every lease expire."""
    execute(run_log, "UPDATE job_log SET lease_expires_at = '2000-01-01 00:00:00.000000'")


def execute(run_log: RunLog, *statements: str) -> None:
    """Change the run log as an operator with an SQL client does."""
    with run_log.begin() as conn:
        for statement in statements:
            conn.execute(text(statement))


class RunLogConformance:
    """Guarantees of a database with a run log: claims, leases, fencing tokens and texts.

    Two runners never have one window, and a runner that lost its window writes nothing.
    """

    @pytest.fixture
    @abstractmethod
    def run_log(self) -> RunLog:
        """Return the empty run log of a project, which was entered: `RunLog.enter`."""

    def test_a_running_window_cannot_be_claimed(self, run_log: RunLog) -> None:
        claim(run_log, FIRST_DAY)
        for trigger in (Trigger.PENDING, Trigger.REFRESH):
            with pytest.raises(AlreadyRunningError, match="job 1 of here:10:20"):
                claim(run_log, FIRST_DAY, trigger, THERE)

    def test_a_finished_window_can_only_be_refreshed(self, run_log: RunLog) -> None:
        end_attempt(run_log, claim(run_log, FIRST_DAY))
        with pytest.raises(AlreadyDoneError, match="already finished"):
            claim(run_log, FIRST_DAY)
        assert claim(run_log, FIRST_DAY, Trigger.REFRESH).attempt_number == 2

    def test_a_failed_window_can_be_claimed(self, run_log: RunLog) -> None:
        end_attempt(run_log, claim(run_log, FIRST_DAY), Status.FAILURE)
        assert claim(run_log, FIRST_DAY).attempt_number == 2

    def test_windows_that_overlap_cannot_be_claimed(self, run_log: RunLog) -> None:
        claim(run_log, FIRST_DAY.up_to_end_of(SECOND_DAY))
        with pytest.raises(AlreadyRunningError, match=r"overlaps .*, which job 1 "):
            claim(run_log, SECOND_DAY, owner=THERE)

    def test_an_expired_lease_is_taken_over_unless_it_is_renewed(self, run_log: RunLog) -> None:
        attempt = claim(run_log, FIRST_DAY)
        expire_leases(run_log)
        run_log.write(lambda conn: ATTEMPTS.renew(conn, [attempt]))
        with pytest.raises(AlreadyRunningError):
            claim(run_log, FIRST_DAY, owner=THERE)
        expire_leases(run_log)
        taken = claim(run_log, FIRST_DAY, owner=THERE)
        assert (taken.previous, taken.attempt_number) == (Status.FAILURE, 2)
        with pytest.raises(AttemptLostError):
            end_attempt(run_log, attempt)

    def test_an_attempt_that_another_process_ended_cannot_finish(self, run_log: RunLog) -> None:
        attempt = claim(run_log, FIRST_DAY)
        execute(run_log, "UPDATE job_log SET status = 'FAILURE'")
        with pytest.raises(AttemptLostError):
            end_attempt(run_log, attempt)

    def test_a_step_ends_once(self, run_log: RunLog) -> None:
        attempt = claim(run_log, FIRST_DAY)
        end_attempt(run_log, attempt)
        ended = {(attempt.job_id, STEP): StepOutcome(Status.FAILURE)}
        with pytest.raises(AttemptLostError):
            run_log.write(lambda conn: steps.finish(conn, ended))

    def test_fencing_tokens_increase(self, run_log: RunLog) -> None:
        tokens = []
        for _ in range(3):
            attempt = claim(run_log, FIRST_DAY)
            tokens.append(attempt.fencing_token)
            end_attempt(run_log, attempt, Status.FAILURE)
        execute(run_log, "UPDATE job_log SET fencing_token = 9000000000000000 WHERE latest = 1")
        tokens.append(claim(run_log, FIRST_DAY).fencing_token)
        assert tokens == sorted(set(tokens))
        assert tokens[-1] == 9000000000000001

    def test_job_ids_are_not_used_again(self, run_log: RunLog) -> None:
        end_attempt(run_log, claim(run_log, FIRST_DAY))
        execute(run_log, "DELETE FROM step_log", "DELETE FROM job_log")
        assert claim(run_log, FIRST_DAY).job_id == 2

    @pytest.mark.parametrize("recorded", ["a\0b", "half \ud800 character", "é" * 80_000])
    def test_any_text_can_be_recorded(self, run_log: RunLog, recorded: str) -> None:
        attempt = claim(run_log, FIRST_DAY)
        outcome = StepOutcome(Status.FAILURE, output=recorded, error=recorded)
        with run_log.begin() as conn:
            steps.finish(conn, {(attempt.job_id, STEP): outcome})
            ending.fail(conn, [attempt], AttemptOutcome(Status.FAILURE, current_file=recorded))
        (found,) = run_log.ask(lambda conn: logs.attempts(conn, TABLE, limit=1))
        assert found["steps"][0]["error"]
