"""The log of jobs on every database. Checklist rows in the names."""

import pytest

from logdriven_dagster.errors import AlreadyRunningError, AttemptLostError
from logdriven_dagster.model.attempts import Owner, Status
from logdriven_dagster.model.job_runs import JobRequest, JobStepResult, RunStep
from logdriven_dagster.runlog.jobs import history as job_history
from logdriven_dagster.runlog.jobs import runs as job_runs
from logdriven_dagster.runlog.leases import LeasedRows
from tests.runlog.logbook import execute, rows

pytestmark = pytest.mark.sampled("database_url")

ME = Owner("here", 10, 20, "run-1")
OTHER = Owner("there", 11, 21)
LOAD, SWEEP = RunStep(10, "load"), RunStep(20, "sweep")


def request(job="nightly", owner=ME, **fields):
    return JobRequest(job, f"JOB_{job}", "maintenance", "shop", owner, **fields)


def start(log, job="nightly", owner=ME, **fields):
    return log.write(lambda conn: job_runs.start(conn, request(job, owner, **fields)))


def finish(log, run, status=Status.SUCCESS, error=None):
    log.write(lambda conn: job_runs.finish(conn, run, status, error))


def expire(log):
    over = "UPDATE job_run SET lease_expires_at = '2000-01-01 00:00:00.000000'"
    return execute(log, f"{over} WHERE status = 'RUNNING'")


def test_a_run_is_running_with_its_beginning_before_anything_else_k03(log):
    start(log, parameters={"region": "eu"}, trigger="schedule", steps=(LOAD, SWEEP))
    (row,) = rows(log, "SELECT * FROM job_run")
    assert (row["status"], row["end_time"], row["running"]) == ("RUNNING", None, 1)
    assert row["begin_time"] is not None
    assert (row["run_trigger"], row["dagster_run_id"]) == ("schedule", "run-1")
    assert row["parameters"] == '{"region": "eu"}'
    steps = rows(log, "SELECT step_id, status, begin_time FROM job_run_step ORDER BY exec_order")
    assert [tuple(step.values()) for step in steps] == [
        ("load", "READY", None),
        ("sweep", "READY", None),
    ]


def test_a_job_runs_once_at_a_time(log):
    run = start(log)
    with pytest.raises(AlreadyRunningError, match=r"already running in run 1 of here:10:20"):
        start(log, owner=OTHER)
    start(log, "other job")
    finish(log, run)
    assert start(log, owner=OTHER).fencing_token > run.fencing_token


def test_of_two_starts_at_once_the_index_lets_one_through(log, monkeypatch):
    start(log)
    monkeypatch.setattr(LeasedRows, "list_leased", lambda *_: [])
    with pytest.raises(AlreadyRunningError, match="another process has just started"):
        start(log, owner=OTHER)


def test_a_run_ends_with_its_time_and_its_error_k15(log):
    finish(log, start(log), Status.FAILURE, "2 windows failed")
    finish(log, start(log))
    failed, done = rows(log, "SELECT * FROM job_run ORDER BY job_run_id")
    assert (failed["status"], failed["error"]) == ("FAILURE", "2 windows failed")
    assert (done["status"], done["error"]) == ("SUCCESS", None)
    assert failed["end_time"] >= failed["begin_time"]
    assert failed["running"] is done["running"] is None


def test_two_runs_that_begin_in_the_same_second_have_one_latest_k16(log):
    for status in (Status.FAILURE, Status.SUCCESS):
        finish(log, start(log), status)
    execute(log, "UPDATE job_run SET begin_time = '2022-01-01 00:00:00'")
    (latest,) = rows(log, "SELECT * FROM v_job_log")
    assert (latest["job_name"], latest["job_run_id"], latest["status"]) == ("nightly", 2, "SUCCESS")
    with log.read() as conn:
        assert job_history.read_latest_runs(conn, ["JOB_nightly"])["nightly"]["job_run_id"] == 2


def test_a_run_whose_lease_is_over_is_taken_over_k18(log):
    dead = start(log, steps=(LOAD,))
    log.write(lambda conn: job_runs.start_step(conn, dead, LOAD))
    expire(log)
    start(log, owner=OTHER)
    first, second = rows(log, "SELECT * FROM job_run ORDER BY job_run_id")
    assert (first["status"], second["status"]) == ("FAILURE", "RUNNING")
    assert first["error"].startswith("taken over from here:10:20 by there:11:21: its lease ran out")
    (step,) = rows(log, "SELECT * FROM job_run_step WHERE job_run_id = 1")
    assert step["status"] == "FAILURE"


def test_no_run_stays_running_for_ever_k18(log):
    start(log)
    start(log, "forgotten")
    expire(log)
    assert log.write(lambda conn: job_runs.RUNS.bury_expired(conn, OTHER)) == [1, 2]
    assert rows(log, "SELECT * FROM job_run WHERE status = 'RUNNING'") == []


@pytest.mark.usefixtures("slow")
def test_a_run_of_a_dead_process_is_ended_without_waiting_k18(log):
    start(log)
    ((number, owner),) = log.ask(job_runs.find_living_owners)
    assert log.write(lambda conn: job_runs.RUNS.bury(conn, number, owner))
    (row,) = rows(log, "SELECT * FROM job_run")
    assert row["error"] == "taken over from here:10:20: its process has ended"
    assert not log.write(lambda conn: job_runs.RUNS.bury(conn, number, owner))


def test_who_was_taken_over_can_neither_renew_nor_write_nor_finish(log):
    dead = start(log, steps=(LOAD,))
    expire(log)
    start(log, owner=OTHER, steps=(LOAD,))
    done = JobStepResult(Status.SUCCESS)
    for write in (
        lambda conn: job_runs.RUNS.renew(conn, [dead]),
        lambda conn: job_runs.RUNS.verify(conn, [dead]),
        lambda conn: job_runs.start_step(conn, dead, LOAD),
        lambda conn: job_runs.end_step(conn, dead, LOAD, done),
        lambda conn: job_runs.finish(conn, dead, Status.SUCCESS),
    ):
        with pytest.raises(AttemptLostError, match="another process ended it"):
            log.write(write)


def test_a_heartbeat_moves_the_expiry(log):
    run = start(log)
    expire(log)
    log.write(lambda conn: job_runs.RUNS.renew(conn, [run]))
    with pytest.raises(AlreadyRunningError):
        start(log, owner=OTHER)


def test_a_step_holds_its_rows_and_its_failed_tries(log):
    run = start(log, steps=(LOAD, SWEEP))
    log.write(lambda conn: job_runs.start_step(conn, run, LOAD))
    log.write(lambda conn: job_runs.start_step(conn, run, LOAD, 1))
    result = JobStepResult(Status.SUCCESS, 7, "7 rows deleted", None, 1)
    log.write(lambda conn: job_runs.end_step(conn, run, LOAD, result))
    finish(log, run, Status.FAILURE, "stopped")
    with log.read() as conn:
        found = job_history.read_latest_runs(conn, ["JOB_nightly"])["nightly"]
    load, sweep = found["steps"]
    assert (load["status"], load["row_count"], load["error_count"]) == ("SUCCESS", 7, 1)
    assert load["output"] == "7 rows deleted"
    assert load["end_time"] >= load["begin_time"]
    assert sweep["status"] == "READY"


def test_the_step_at_which_the_newest_run_stopped_is_known_m06(log):
    def stopped():
        return log.ask(lambda conn: job_runs.find_stopped_step(conn, "JOB_nightly"))

    assert stopped() is None
    run = start(log, steps=(LOAD, SWEEP))
    for step, status in ((LOAD, Status.SUCCESS), (SWEEP, Status.FAILURE)):
        log.write(lambda conn, step=step: job_runs.start_step(conn, run, step))
        result = JobStepResult(status)
        log.write(lambda conn, s=step, r=result: job_runs.end_step(conn, run, s, r))
    finish(log, run, Status.FAILURE, "sweep")
    assert stopped() == SWEEP
    start(log, steps=(SWEEP,))
    assert stopped() == SWEEP  # killed before it began
