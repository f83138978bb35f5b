"""Attempts at several windows, written at once: the log is that of one by one."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from logdriven_dagster.errors import AlreadyRunningError, AttemptLostError
from logdriven_dagster.model.attempts import (
    AttemptOutcome,
    Counts,
    Owner,
    Status,
    StepOutcome,
    Trigger,
)
from logdriven_dagster.runlog.attempts import claiming, ending, leases, steps
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.schema.attempts import job_log, step_log
from tests.builders import day, days, end_step, hours, stage_step
from tests.patience import PATIENCE
from tests.runlog.logbook import fail, request, rows, start, succeed, table_log

pytestmark = pytest.mark.sampled("database_url")

THREE = [day(n) for n in (1, 2, 3)]
ENDED = AttemptOutcome(Status.SUCCESS, "app-1", "a.csv")


def claim(log, *windows, **fields):
    return log.write(
        lambda conn: claiming.claim(conn, [request(w, **fields) for w in windows], Status.RUNNING)
    )


def outcome(n):
    return StepOutcome(Status.SUCCESS, Counts(n, n, n, 0), "csv", "iceberg", f"{n} rows")


def finish(log, attempts_, step="load"):
    outcomes = {(each.job_id, step): outcome(n) for n, each in enumerate(attempts_)}
    log.write(lambda conn: ending.succeed(conn, attempts_, ENDED, outcomes))


def written(log, prefix):
    """All rows of tables, without what tells two instants apart."""
    differing = {"job_id", "fencing_token", "data_now", "job_name", "job_schedule_id", "duration"}
    found = []
    for table in (job_log, step_log):
        kept = [
            c for c in table.columns if c.name not in differing and not c.name.endswith("_time")
        ]
        kept = [c for c in kept if c.name not in ("heartbeat_at", "lease_expires_at")]
        query = sa.select(*kept).order_by(table.c.job_id)
        if table is step_log:
            query = query.join(job_log, job_log.c.job_id == step_log.c.job_id)
        with log.read() as conn:
            found.append(conn.execute(query.where(job_log.c.job_name == prefix)).all())
    return found


def test_the_log_is_the_same_as_one_by_one(log):
    mine = claim(log, *THREE, name="ods.together")
    states = {(each.job_id, "load"): "{}" for each in mine}
    log.write(lambda conn: steps.stage(conn, states))
    finish(log, mine)
    for n, window in enumerate(THREE):
        one = start(log, window, name="ods.alone")

        def end(conn, one=one, n=n):
            stage_step(conn, one, "load", "{}")
            end_step(conn, one.job_id, "load", outcome(n))
            ending.succeed(conn, [one], ENDED, {})

        log.write(end)
    assert written(log, "ods.together") == written(log, "ods.alone")
    ranges = "SELECT job_name, status, window_start, window_end FROM log_range ORDER BY job_name"
    alone, side = (list(row.values())[1:] for row in rows(log, ranges))
    assert alone == side


def test_a_step_has_lasted_since_its_start(log):
    several = claim(log, *THREE)
    one = start(log, day(4), name="ods.alone")
    with log.begin() as conn:
        began = conn.execute(sa.select(step_log.c.job_id, step_log.c.start_time)).all()
        for job_id, instant in began:
            earlier = sa.update(step_log).where(step_log.c.job_id == job_id)
            conn.execute(earlier.values(start_time=instant - timedelta(seconds=1000)))
    finish(log, several)
    log.write(lambda conn: end_step(conn, one.job_id, "load", outcome(1)))
    lasted = [row["duration"] for row in rows(log, "SELECT duration FROM step_log")]
    assert len(lasted) == 4
    assert all(1000 <= seconds <= 1000 + PATIENCE for seconds in lasted)


def test_each_window_has_a_lease_of_its_own_and_its_first_step_runs(log):
    mine = claim(log, *THREE, steps=("load", "sum"))
    assert [each.window for each in mine] == THREE
    for each in mine:
        log.write(lambda conn, each=each: ATTEMPTS.verify(conn, [each]))
    states = rows(log, "SELECT step_id, status FROM step_log ORDER BY job_id, step_id")
    assert [tuple(row.values()) for row in states] == [("load", "RUNNING"), ("sum", "READY")] * 3


def test_only_those_before_the_first_that_must_run_by_itself_are_claimed(log):
    fail(log, day(3))
    assert [each.window for each in claim(log, *THREE)] == THREE[:2]
    fail(log, day(1), name="ods.other")
    assert [each.window for each in claim(log, *THREE, name="ods.other")] == THREE[:1]


def test_finished_windows_are_refreshed_in_one_pass_with_untried_ones(log):
    succeed(log, day(1))
    succeed(log, day(2))
    mine = claim(log, *THREE, trigger=Trigger.REFRESH)
    assert [(each.attempt_number, each.previous_id) for each in mine] == [(2, 1), (2, 2), (1, None)]
    finish(log, mine)
    assert table_log(log).finished == (days(1, 4),)


def test_none_is_claimed_where_a_window_of_another_period_runs(log):
    start(log, hours(5, 6, of_day=2), owner=Owner("there", 1, 2))
    with pytest.raises(AlreadyRunningError):
        claim(log, *THREE)
    assert table_log(log).finished == ()


def test_all_end_or_none(log):
    mine = claim(log, *THREE)
    log.write(lambda conn: leases.discard(conn, mine[1].job_id, Owner("there", 1, 2)))
    with pytest.raises(AttemptLostError, match=f"job {mine[1].job_id}, .* is DISCARDED"):
        finish(log, mine)
    assert table_log(log).finished == ()


def test_a_step_that_another_process_has_ended_ends_none(log):
    mine = claim(log, *THREE)
    log.write(lambda conn: end_step(conn, mine[2].job_id, "load", outcome(1)))
    with pytest.raises(AttemptLostError, match=f"job {mine[2].job_id}"):
        finish(log, mine)
    assert table_log(log).finished == ()


def test_nothing_is_durable_of_an_attempt_that_another_process_has_ended(log):
    mine = claim(log, *THREE)
    log.write(lambda conn: leases.discard(conn, mine[1].job_id, Owner("there", 1, 2)))
    for attempts in ([mine[1]], mine):
        states = {(each.job_id, "load"): "{}" for each in attempts}
        alone = len(attempts) == 1
        named = f"job {mine[1].job_id}" if alone else f"jobs {mine[0].job_id} to {mine[2].job_id}"
        with pytest.raises(AttemptLostError, match=f"{named}: another process"):
            log.write(lambda conn, states=states: steps.stage(conn, states), alone=alone)
    assert {row["staged"] for row in rows(log, "SELECT staged FROM step_log")} == {None}


@pytest.mark.parametrize("status", ["RUNNING", "FAILURE"])
def test_none_succeeds_with_a_step_that_is_not_through(log, status):
    mine = claim(log, *THREE, steps=("load", "sum"))
    spoiled = f"UPDATE step_log SET status = '{status}' WHERE step_id = 'sum' AND job_id = "
    log.write(lambda conn: conn.execute(sa.text(f"{spoiled}{mine[1].job_id}")))
    with pytest.raises(AttemptLostError, match=f"sum of job {mine[1].job_id} is {status}"):
        finish(log, mine)
    assert table_log(log).finished == ()
    assert {row["status"] for row in rows(log, "SELECT status FROM job_log")} == {"RUNNING"}


def test_what_they_finished_is_one_range(log):
    finish(log, claim(log, *THREE))
    assert table_log(log).finished == (days(1, 4),)
    assert {row["n"] for row in rows(log, "SELECT count(*) AS n FROM log_range")} == {1}


@pytest.mark.parametrize("trigger", [Trigger.PENDING, Trigger.REFRESH])
def test_many_windows_take_hardly_more_statements_than_one(log, trigger):
    def sent(*windows):
        counted = []
        listener = (log.engine, "before_cursor_execute", lambda *_: counted.append(1))
        sa.event.listen(*listener)
        mine = claim(log, *windows, trigger=trigger)
        log.write(lambda conn: steps.stage(conn, {(mine[0].job_id, "load"): "{}"}))
        finish(log, mine)
        sa.event.remove(*listener)
        return len(counted)

    succeed(log, day(1))
    for _ in range(2 if trigger is Trigger.REFRESH else 1):
        one, ten = sent(day(2)), sent(*(day(n) for n in range(3, 13)))
    reads_of_jobs, of_each_refreshed = 1, 2 if trigger is Trigger.REFRESH else 0
    assert ten == one + reads_of_jobs + 9 * of_each_refreshed
