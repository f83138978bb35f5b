"""The outbox over SQLite, PostgreSQL and MariaDB: each notice once, to one sender at a time."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from logdriven_dagster.errors import RunLogError
from logdriven_dagster.model.attempts import Status, Trigger
from logdriven_dagster.model.job_runs import JobRequest
from logdriven_dagster.runlog.attempts import leases
from logdriven_dagster.runlog.jobs import runs as job_runs
from logdriven_dagster.runlog.observed import notifications
from logdriven_dagster.runlog.observed.notifications import MOST_TRIES, Notice
from tests.builders import day
from tests.runlog.logbook import ME, end, execute, expire, fail, rows, set_clock, start, succeed

pytestmark = pytest.mark.sampled("database_url")

NIGHTLY = JobRequest("nightly", "JOB_1", "standard", "shop", ME)
FAILED = Notice("ops", "table", "ods.t", "failure", 1)


def post(log, *notices, owner="me"):
    log.write(lambda conn: notifications.post(conn, notices, owner))


def take(log, owner="me", recipient="ops"):
    return log.write(lambda conn: notifications.take(conn, recipient, owner))


def waiting(log, owner="me"):
    return log.ask(lambda conn: notifications.find_waiting_recipients(conn, ["ops", "boss"], owner))


def failed_before(log, attempt):
    return log.ask(lambda conn: notifications.has_window_failed_before(conn, attempt.job_id))


def hours_pass(log, hours):
    for column in ("due_time", "create_time"):
        kind = log.engine.dialect.name
        earlier = {
            "sqlite": f"strftime('%Y-%m-%d %H:%M:%f000', {column}, '-{hours} hours')",
            "postgresql": f"{column} - interval '{hours} hours'",
        }.get(kind, f"{column} - INTERVAL {hours} HOUR")
        execute(log, f"UPDATE notification_log SET {column} = {earlier}")


def test_a_window_that_never_failed_has_not_failed_before(log):
    succeed(log, day(1))
    fail(log, day(2))
    assert not failed_before(log, start(log, day(1), Trigger.REFRESH))
    assert not failed_before(log, start(log, day(3)))


def test_a_window_has_failed_before_until_it_succeeds(log):
    fail(log, day(1))
    again = start(log, day(1))
    assert failed_before(log, again)
    end(log, again)
    assert not failed_before(log, start(log, day(1), Trigger.REFRESH))


def test_an_attempt_that_was_stopped_does_not_hide_a_failure(log):
    fail(log, day(1))
    stopped = start(log, day(1))
    log.write(lambda conn: leases.discard(conn, stopped.job_id, ME))
    assert failed_before(log, start(log, day(1)))


def test_takeovers_are_no_failures_of_the_window(log):
    start(log, day(1))
    expire(log)
    assert not failed_before(log, start(log, day(1)))


def test_a_success_that_a_user_sets_back_has_not_failed(log):
    succeed(log, day(1))
    execute(log, "UPDATE job_log SET status = 'FAILURE'")
    assert not failed_before(log, start(log, day(1)))


def test_failures_count_when_they_are_archived(log):
    fail(log, day(1))
    again = start(log, day(1))
    columns = "job_id, job_name, job_period, job_schedule_id, status, create_time"
    others = "last_update_time, attempt_number, error_count, failures, project_id"
    execute(
        log,
        f"INSERT INTO job_log_archive ({columns}, {others}) "
        f"SELECT {columns}, {others} FROM job_log WHERE status = 'FAILURE'",
    )
    execute(log, "DELETE FROM step_log WHERE status = 'FAILURE'")
    execute(log, "DELETE FROM job_log WHERE status = 'FAILURE'")
    assert failed_before(log, again)


def test_a_job_has_failed_before_until_it_succeeds(log):
    def run(status):
        started = log.write(lambda conn: job_runs.start(conn, NIGHTLY))
        before = log.ask(lambda conn: notifications.has_job_failed_before(conn, started.job_run_id))
        log.write(lambda conn: job_runs.finish(conn, started, status))
        return before

    ends = [Status.FAILURE, Status.DISCARDED, Status.FAILURE, Status.SUCCESS, Status.FAILURE]
    assert [run(status) for status in ends] == [False, True, True, True, False]


def test_no_one_is_notified_twice_of_one_attempt(log):
    post(log, FAILED)
    with pytest.raises(RunLogError, match=r"(?i)unique|duplicate"):
        post(log, FAILED)
    assert rows(log, "SELECT count(*) AS n FROM notification_log") == [{"n": 1}]


def test_events_reported_together_are_one_parcel_in_order(log):
    later = Notice("ops", "table", "ods.u", "recovery", 2)
    post(log, FAILED, later, Notice("boss", "table", "ods.t", "failure", 1))
    assert waiting(log) == ["boss", "ops"]
    assert take(log).notices == (FAILED, later)
    assert waiting(log) == ["boss"]


def test_another_run_leaves_a_notice_to_its_owner_until_that_may_be_dead(log):
    post(log, FAILED)
    assert take(log, owner="other") is None
    hours_pass(log, 1)
    assert take(log, owner="other").notices == (FAILED,)


def test_a_clock_that_is_set_back_holds_up_no_notice(log):
    post(log, FAILED)
    set_clock(log, hours=-2)
    assert take(log, owner="other").notices == (FAILED,)


def test_of_two_senders_one_gets_the_parcel(log):
    post(log, FAILED)
    with ThreadPoolExecutor(2) as both:
        taken = list(both.map(lambda _: take(log), range(2)))
    assert sorted(parcel is None for parcel in taken) == [False, True]


def test_what_was_sent_is_never_sent_again(log):
    post(log, FAILED)
    parcel = take(log)
    log.write(lambda conn: notifications.record_sent(conn, parcel))
    hours_pass(log, 1)
    assert waiting(log) == []


def test_a_sender_that_died_is_followed_by_another_with_the_same_message(log):
    post(log, FAILED)
    first = take(log)
    assert take(log) is None
    hours_pass(log, 1)
    assert take(log, owner="other").digest == first.digest


def test_an_unreached_recipient_is_tried_again_after_pauses_and_then_given_up(log):
    post(log, FAILED)
    for _ in range(MOST_TRIES):
        parcel = take(log)
        log.write(
            lambda conn, told=parcel: notifications.record_failed_delivery(conn, told, "no route")
        )
        assert waiting(log) == []
        execute(log, "UPDATE notification_log SET due_time = '2000-01-01 00:00:00'")
    assert waiting(log) == []
    assert rows(log, "SELECT tries, error FROM notification_log") == [
        {"tries": MOST_TRIES, "error": "no route"}
    ]


def test_old_news_are_not_sent(log):
    post(log, FAILED)
    hours_pass(log, 25)
    assert waiting(log) == []


def test_notices_are_deleted_with_their_log(log):
    post(log, FAILED)
    forget = timedelta(days=7)
    assert log.write(lambda conn: notifications.forget(conn, forget)) == 0
    hours_pass(log, 24 * 8)
    assert log.write(lambda conn: notifications.forget(conn, forget)) == 1


def test_a_transaction_that_is_rolled_back_notifies_no_one(log):
    def crash(conn):
        notifications.post(conn, [FAILED], "me")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        log.write(crash)
    assert waiting(log) == []
