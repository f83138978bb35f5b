"""Claims and ends of attempts and of their steps. Checklist rows in the names."""

from dataclasses import replace

import pytest

from logdriven_dagster.errors import (
    AttemptLostError,
)
from logdriven_dagster.model.attempts import (
    AttemptOutcome,
    Status,
)
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.history import logs as history
from tests.builders import claim_one, day, finish, start_step
from tests.runlog.logbook import ME, end, fail, request, rows, start, succeed


def test_one_attempt_of_a_window_is_the_latest_by_the_schema(log):
    fail(log, day(1))
    fail(log, day(1))
    succeed(log, day(1))
    assert [row["status"] for row in rows(log, "SELECT status FROM v_window_log")] == ["SUCCESS"]
    assert rows(log, "SELECT count(*) AS n FROM job_log")[0]["n"] == 3


def test_only_who_has_the_token_finishes_an_attempt_y16(log):
    attempt = start(log, day(1))
    stranger = replace(attempt, fencing_token=attempt.fencing_token - 1)
    with pytest.raises(AttemptLostError), log.begin() as conn:
        finish(conn, stranger, AttemptOutcome(Status.SUCCESS))


def test_a_retried_step_begins_again(log):
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
