"""What a report reads, over SQLite, PostgreSQL and MariaDB."""

from datetime import datetime, timedelta, timezone

from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.job_runs import JobRequest
from logdriven_dagster.runlog import archive
from logdriven_dagster.runlog.jobs import runs as job_runs
from logdriven_dagster.runlog.observed import reports
from tests.builders import day, table
from tests.runlog.logbook import ME, execute, fail, open_log, start, succeed

HOUR = timedelta(hours=1)


def between(log, start, end, tables=None):
    with log.read() as conn:
        return reports.list_attempts_between(conn, start, end, tables)


def now():
    return datetime.now(timezone.utc)


def started(log, instant):
    execute(log, f"UPDATE job_log SET job_start_time = '{instant:%Y-%m-%d %H:%M:%S.%f}'")


def test_all_attempts_that_started_in_the_time_are_there_with_their_steps_s40(log):
    succeed(log, day(1))
    fail(log, day(2))
    start(log, day(3), name="ods.u")
    rows = between(log, now() - HOUR, now() + HOUR)
    assert [(row["job_name"], row["status"]) for row in rows] == [
        ("ods.t", "SUCCESS"),
        ("ods.t", "FAILURE"),
        ("ods.u", "RUNNING"),
    ]
    assert rows[0]["steps"][0]["success_count"] == 5
    assert rows[1]["steps"][0]["error"] == "broken"


def test_the_time_begins_with_its_start_and_ends_before_its_end_s40(log):
    succeed(log, day(1))
    instant = now().replace(microsecond=0) - timedelta(minutes=5)
    started(log, instant)
    assert len(between(log, instant, instant + HOUR)) == 1
    assert between(log, instant - HOUR, instant) == []


def test_only_the_tables_that_were_asked_for_are_there(log):
    succeed(log, day(1))
    assert len(between(log, now() - HOUR, now() + HOUR, {"ods.t"})) == 1
    assert between(log, now() - HOUR, now() + HOUR, {"ods.u"}) == []


def test_other_projects_in_the_same_log_are_left_out(log):
    succeed(log, day(1))
    other = open_log(log.engine.url, "another")
    assert between(other, now() - HOUR, now() + HOUR) == []
    assert len(between(log, now() - HOUR, now() + HOUR)) == 1


def test_archived_attempts_are_there_as_well_s40(log):
    for n in (1, 2, 3):
        succeed(log, day(n))
    before = between(log, now() - HOUR, now() + HOUR)
    assert log.write(lambda conn: archive.archive(conn, [table()], timedelta(0))) == 3
    assert between(log, now() - HOUR, now() + HOUR) == before


def test_runs_of_jobs_are_there(log):
    request = JobRequest("nightly", "JOB_1", "standard", "project", ME)
    run = log.write(lambda conn: job_runs.start(conn, request))
    log.write(lambda conn: job_runs.finish(conn, run, Status.FAILURE, "broken"))
    with log.read() as conn:
        (row,) = reports.list_job_runs_between(conn, now() - HOUR, now() + HOUR)
    assert (row["job_name"], row["status"], row["error"]) == ("nightly", "FAILURE", "broken")
