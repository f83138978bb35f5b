"""The lease of a window on three databases. Checklist rows in the names."""

from datetime import timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from logdriven_dagster.config.derived.processes import build_processes
from logdriven_dagster.errors import AlreadyRunningError, AttemptLostError, RunLogError
from logdriven_dagster.model.attempts import (
    AttemptOutcome,
    OnRunning,
    Owner,
    Status,
    StepOutcome,
    Trigger,
)
from logdriven_dagster.runlog import lifecycle
from logdriven_dagster.runlog.attempts import leases, progress
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.schema.attempts import job_log
from tests.builders import day, days, finish, stage_step, start_step, table
from tests.runlog.logbook import (
    ME,
    end,
    execute,
    expire,
    fail,
    rows,
    set_clock,
    start,
    succeed,
    table_log,
)

OTHER = Owner("there", 1, 2, "run-2")
WRITES = {
    "renew": lambda conn, mine: ATTEMPTS.renew(conn, [mine]),
    "verify": lambda conn, mine: ATTEMPTS.verify(conn, [mine]),
    "start_step": lambda conn, mine: start_step(conn, mine, "load"),
    "stage_step": lambda conn, mine: stage_step(conn, mine, "load", "{}"),
    "halt_step": lambda conn, mine: lifecycle.halt_step(
        conn, build_processes([table()]), mine, "load", StepOutcome(Status.SUCCESS)
    ),
    "note_errors": lambda conn, mine: progress.note_errors(conn, [mine], 1),
    "finish": lambda conn, mine: finish(conn, mine, AttemptOutcome(Status.SUCCESS)),
}


def statuses(log):
    return [row["status"] for row in rows(log, "SELECT status FROM job_log ORDER BY job_id")]


def test_the_owner_and_the_lease_are_readable_y11(log):
    attempt = start(log, day(1), lease=timedelta(minutes=3))
    with log.read() as conn:
        row = conn.execute(job_log.select()).one()
    assert (row.owner, row.dagster_run_id) == ("here:10:20", "run-1")
    assert row.fencing_token == attempt.fencing_token
    left = (row.lease_expires_at - row.heartbeat_at).total_seconds()
    assert left == pytest.approx(180, abs=0.1)


def test_a_running_window_is_held_until_its_lease_is_over_k10_y09(log):
    start(log, day(1))
    with pytest.raises(AlreadyRunningError):
        start(log, day(1), owner=OTHER)
    assert not table_log(log).open[0].expired
    expire(log)
    assert table_log(log).open[0].expired
    taken = start(log, day(1), owner=OTHER)
    assert (taken.previous, taken.attempt_number) == (Status.FAILURE, 2)
    assert statuses(log) == ["FAILURE", "RUNNING"]
    (error,) = {row["error"] for row in rows(log, "SELECT error FROM step_log WHERE job_id = 1")}
    assert error == "taken over from here:10:20 by there:1:2: its lease ran out"


def test_one_of_two_takes_over_y13(log):
    start(log, day(1))
    expire(log)
    start(log, day(1), owner=OTHER)
    with pytest.raises(AlreadyRunningError):
        start(log, day(1))


@pytest.mark.parametrize("status", ["SUCCESS", "FAILURE", "DISCARDED"])
def test_an_attempt_that_has_ended_is_not_taken_over_y14(log, status):
    end(log, start(log, day(1)), Status(status))
    execute(log, "UPDATE job_log SET lease_expires_at = '2000-01-01 00:00:00'")
    with log.begin() as conn:
        assert ATTEMPTS.bury_expired(conn, "me") == []
    assert statuses(log) == [status]


@pytest.mark.parametrize("write", WRITES)
def test_a_zombie_can_write_nothing_y15_d19(log, write):
    zombie = start(log, day(1))
    expire(log)
    successor = start(log, day(1))
    assert successor.fencing_token > zombie.fencing_token
    with pytest.raises(AttemptLostError), log.begin() as conn:
        WRITES[write](conn, zombie)
    end(log, successor)
    assert statuses(log) == ["FAILURE", "SUCCESS"]


def test_an_attempt_releases_its_lease_once_y12(log):
    attempt = start(log, day(1))
    end(log, attempt)
    with pytest.raises(AttemptLostError), log.begin() as conn:
        finish(conn, attempt, AttemptOutcome(Status.FAILURE))
    assert statuses(log) == ["SUCCESS"]


def test_windows_of_one_table_are_locked_one_by_one_y10(log):
    start(log, day(1))
    start(log, day(2), owner=OTHER)
    assert statuses(log) == ["RUNNING", "RUNNING"]


def test_windows_that_overlap_never_run_side_by_side_y19(log):
    start(log, days(1, 8))
    with pytest.raises(AlreadyRunningError, match=r"overlaps .*, which job 1 of here"):
        start(log, day(3), owner=OTHER)
    start(log, day(8), owner=OTHER)
    expire(log)
    start(log, day(3), owner=OTHER)


def test_a_replaced_attempt_is_shut_out_s10(log):
    first = start(log, day(1))
    second = start(log, day(1), Trigger.REFRESH, owner=OTHER, on_running=OnRunning.REPLACE)
    assert second.replaced == ME
    assert second.staged == {}
    with pytest.raises(AttemptLostError):
        end(log, first)
    end(log, second)
    assert statuses(log) == ["FAILURE", "SUCCESS"]


def test_a_discarded_attempt_is_over_and_pending_again_y06(log):
    attempt = start(log, day(1), steps=("load", "later"))
    with log.begin() as conn:
        assert leases.discard(conn, attempt.job_id, OTHER)
        assert not leases.discard(conn, attempt.job_id, OTHER)
    with pytest.raises(AttemptLostError, match="is DISCARDED in the run log"):
        end(log, attempt)
    assert {row["status"] for row in rows(log, "SELECT status FROM step_log")} == {"DISCARDED"}
    assert start(log, day(1)).previous is Status.DISCARDED


def test_the_dead_process_of_this_machine_is_buried_once_k18(log):
    attempt = start(log, day(1))
    with log.begin() as conn:
        assert ATTEMPTS.bury(conn, attempt.job_id, ME)
        assert not ATTEMPTS.bury(conn, attempt.job_id, ME)
    assert table_log(log).open[0].error == "taken over from here:10:20: its process has ended"


def test_no_attempt_stays_running_for_ever_k18(log):
    start(log, day(1), name="forgotten")
    expire(log)
    with log.begin() as conn:
        assert ATTEMPTS.bury_expired(conn, "me") == [1]
    assert statuses(log) == ["FAILURE"]


def test_staged_rows_are_handed_to_the_next_runner_y03(log):
    def dead(definition):
        attempt = start(log, day(1), Trigger.REFRESH, definition=definition)
        with log.begin() as conn:
            stage_step(conn, attempt, "load", '{"rows": 1}')
        expire(log)

    dead("same")
    resumed = start(log, day(1), Trigger.REFRESH, definition="same")
    assert resumed.staged == {"load": '{"rows": 1}'}
    end(log, resumed)
    dead("same")
    assert start(log, day(1), Trigger.REFRESH, definition="changed").staged == {}


def test_staged_rows_of_an_ended_attempt_belong_to_no_one_y14(log):
    attempt = start(log, day(1), definition="same")
    with log.begin() as conn:
        stage_step(conn, attempt, "load", "{}")
    end(log, attempt, Status.FAILURE)
    assert start(log, day(1), definition="same").staged == {}


def test_failures_in_a_row_are_counted_until_a_success(log):
    for _ in range(3):
        fail(log, day(1))
    assert table_log(log).open[0].failures == 3
    succeed(log, day(1))
    fail(log, day(1), trigger=Trigger.REFRESH)
    assert table_log(log).open[0].failures == 1


def test_later_steps_of_a_failed_attempt_stay_ready_y04(log):
    end(log, start(log, day(1), steps=("load", "later")), Status.FAILURE)
    found = rows(log, "SELECT step_id, status FROM step_log ORDER BY step_id")
    assert [tuple(row.values()) for row in found] == [("later", "READY"), ("load", "FAILURE")]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE job_log SET status = 'FAILED'",
        "UPDATE job_log SET status = 'READY'",
        "UPDATE step_log SET status = 'DONE'",
        "UPDATE job_log SET fencing_token = NULL",
    ],
)
def test_the_schema_knows_no_other_states_y01(log, statement):
    start(log, day(1))
    with pytest.raises((RunLogError, IntegrityError)):
        execute(log, statement)


def test_a_clock_that_is_set_back_does_not_prolong_the_lease_of_a_dead_runner(log):
    start(log, day(1))
    set_clock(log, hours=-2)
    assert start(log, day(1), owner=OTHER).attempt_number == 2


@pytest.mark.parametrize("hours", [2, -2])
def test_a_runner_that_lives_keeps_its_window_when_the_clock_jumps(log, hours):
    mine = start(log, day(1))
    set_clock(log, hours)
    with log.begin() as conn:
        ATTEMPTS.renew(conn, [mine])
    with pytest.raises(AlreadyRunningError):
        start(log, day(1), owner=OTHER)
    end(log, mine)


def test_a_runner_that_lost_its_window_to_a_jump_of_the_clock_changes_nothing(log):
    mine = start(log, day(1))
    set_clock(log, hours=2)
    other = start(log, day(1), owner=OTHER)
    assert other.fencing_token > mine.fencing_token
    with log.begin() as conn, pytest.raises(AttemptLostError):
        ATTEMPTS.verify(conn, [mine])
