"""Claims and ends of attempts and of their steps. Checklist rows in the names."""

from dataclasses import replace

import pytest

from logdriven_dagster.errors import (
    AlreadyDoneError,
    AlreadyRunningError,
    AttemptLostError,
)
from logdriven_dagster.model.attempts import (
    AttemptOutcome,
    Status,
    StepOutcome,
    Trigger,
)
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.history import logs as history
from logdriven_dagster.runlog.schema.attempts import job_log, step_log
from tests.builders import claim_one, day, end_step, finish, start_step
from tests.runlog.logbook import ME, end, execute, fail, request, rows, start, succeed, table_log


def test_a_running_window_is_not_started_again(log):
    start(log, day(1))
    with pytest.raises(AlreadyRunningError, match="job 1 of here:10:20"):
        start(log, day(1))
    with pytest.raises(AlreadyRunningError):
        start(log, day(1), Trigger.REFRESH)


def test_a_finished_window_runs_again_only_as_a_refresh(log):
    succeed(log, day(1))
    with pytest.raises(AlreadyDoneError, match="already finished"):
        start(log, day(1))
    again = start(log, day(1), Trigger.REFRESH)
    assert again.attempt_number == 2


def test_a_failed_window_may_be_claimed_again(log):
    fail(log, day(1))
    assert start(log, day(1)).attempt_number == 2


def test_one_attempt_of_a_window_is_the_latest_by_the_schema(log):
    fail(log, day(1))
    fail(log, day(1))
    succeed(log, day(1))
    assert [row["status"] for row in rows(log, "SELECT status FROM v_window_log")] == ["SUCCESS"]
    assert rows(log, "SELECT count(*) AS n FROM job_log")[0]["n"] == 3


def test_an_attempt_that_somebody_else_ended_cannot_finish(log):
    attempt = start(log, day(1))
    execute(log, "UPDATE job_log SET status = 'FAILURE'")
    with pytest.raises(AttemptLostError):
        end(log, attempt)


def test_only_who_has_the_token_finishes_an_attempt_y16(log):
    attempt = start(log, day(1))
    stranger = replace(attempt, fencing_token=attempt.fencing_token - 1)
    with pytest.raises(AttemptLostError), log.begin() as conn:
        finish(conn, stranger, AttemptOutcome(Status.SUCCESS))


def test_a_step_ends_once(log):
    attempt = start(log, day(1))
    end(log, attempt)
    with pytest.raises(AttemptLostError), log.begin() as conn:
        end_step(conn, attempt.job_id, "load", StepOutcome(Status.FAILURE))


def test_a_retried_step_begins_anew(log):
    attempt = start(log, day(1))
    with log.begin() as conn:
        start_step(conn, attempt, "load")
    end(log, attempt)
    assert [row["status"] for row in rows(log, "SELECT status FROM step_log")] == ["SUCCESS"]


def test_a_step_cannot_start_in_an_attempt_that_was_ended(log):
    attempt = start(log, day(1))
    with log.begin() as conn:
        ATTEMPTS.bury(conn, attempt.job_id, ME)
    with pytest.raises(AttemptLostError), log.begin() as conn:
        start_step(conn, attempt, "load")


@pytest.mark.parametrize("text", ["a\0b", "half \ud800 character", "é" * 80_000])
def test_any_text_can_be_logged(log, text):
    attempt = start(log, day(1))
    with log.begin() as conn:
        outcome = StepOutcome(Status.FAILURE, output=text, error=text)
        end_step(conn, attempt.job_id, "load", outcome)
        finish(conn, attempt, AttemptOutcome(Status.FAILURE, current_file=text))
    assert table_log(log).open[0].error


def test_a_failed_attempt_closes_its_running_steps(log):
    attempt = start(log, day(1))
    with log.begin() as conn:
        finish(conn, attempt, AttemptOutcome(Status.FAILURE))
    assert rows(log, "SELECT status FROM step_log") == [{"status": "FAILURE"}]


def test_a_long_error_is_cut_with_a_note(log):
    fail(log, day(1), error="x" * 20_000)
    (row,) = rows(log, "SELECT error FROM step_log")
    assert len(row["error"]) == 5000
    assert row["error"].endswith("(cut)")


def test_arguments_of_a_run_are_recorded_s42(log):
    with log.begin() as conn:
        claim_one(conn, request(day(1), runtime_args={"k": "v"}))
    with log.read() as conn:
        assert history.list_attempts(conn)[0]["runtime_args"] == {"k": "v"}


def test_ids_never_come_again(log):
    succeed(log, day(1))
    with log.begin() as conn:
        conn.execute(step_log.delete())
        conn.execute(job_log.delete())
    assert start(log, day(1)).job_id == 2
