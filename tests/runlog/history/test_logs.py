"""What planning and people read of the log. Sources: Sharp ETL's tables, Kettle's views."""

from datetime import timedelta

import pytest

from logdriven_dagster.model.attempts import (
    AttemptOutcome,
    Status,
    StepOutcome,
    Trigger,
)
from logdriven_dagster.planning.retries import get_remaining_back_off
from logdriven_dagster.runlog.attempts import claiming
from logdriven_dagster.runlog.history import logs as history
from tests.builders import at, day, days, end_step, finish, hours, start_step, table
from tests.runlog.logbook import (
    ME,
    execute,
    fail,
    request,
    rows,
    set_clock,
    start,
    succeed,
    table_log,
)

pytestmark = pytest.mark.sampled("database_url")


def test_the_error_of_the_step_that_failed_is_the_one_shown(log):
    attempt = start(log, day(1), steps=("load", "second"))
    with log.begin() as conn:
        start_step(conn, attempt, "second")
        end_step(conn, attempt.job_id, "second", StepOutcome(Status.FAILURE, error="real"))
        finish(conn, attempt, AttemptOutcome(Status.FAILURE))
    assert table_log(log).open[0].error == "real"


def test_a_clock_that_is_set_back_keeps_no_failed_window_waiting(log):
    fail(log, day(1))
    assert get_remaining_back_off(table_log(log).open[0], timedelta(hours=1)) > timedelta(0)
    set_clock(log, hours=-2)
    assert get_remaining_back_off(table_log(log).open[0], timedelta(hours=1)) == timedelta(0)


def test_skipped_windows_are_rows_and_can_run_later(log):
    with log.begin() as conn:
        claiming.skip(conn, [request(day(1)), request(day(2))])
        claiming.skip(conn, [request(day(1))])
    assert table_log(log).skipped == (days(1, 3),)
    succeed(log, day(1))
    assert (table_log(log).finished, table_log(log).skipped) == ((day(1),), (day(2),))


def test_finished_windows_are_read_as_few_ranges(log):
    for window in (day(1), day(2), day(3), day(5), day(8), day(9)):
        succeed(log, window)
    fail(log, day(4))
    assert table_log(log).finished == (days(1, 4), day(5), days(8, 10))
    assert [(item.window, item.error) for item in table_log(log).open] == [(day(4), "broken")]


def test_windows_of_a_changed_period_join(log):
    succeed(log, day(1))
    for hour in range(24):
        succeed(log, hours(hour, hour + 1, of_day=2))
    assert table_log(log).finished == (days(1, 3),)


def test_an_operator_makes_a_window_pending_by_an_update(log):
    for n in (1, 2, 3):
        succeed(log, day(n))
    execute(log, "UPDATE job_log SET status='FAILURE' WHERE data_range_start='20220102000000'")
    assert table_log(log).finished == (day(1), day(3))
    assert start(log, day(2)).attempt_number == 2


def test_a_running_window_shows_its_owner(log):
    start(log, day(1))
    (item,) = table_log(log).open
    assert (item.status, item.owner) == (Status.RUNNING, ME)


def test_the_newest_successes_are_known_for_lookback(log):
    for n in range(1, 7):
        succeed(log, day(n), now=f"2022-01-0{n + 1}")
    lookback_windows = table_log(log, table(lookback=2)).within_lookback
    assert [(item.window, item.seen) for item in lookback_windows] == [
        (day(n), at(f"2022-01-0{n + 1}")) for n in (4, 5, 6)
    ]


def test_a_window_over_a_refreshed_upstream_is_stale_until_it_runs_again(log):
    tables = table("a"), table("b", depends_on=["a"])
    for n in (1, 2):
        succeed(log, day(n), name="a")
        succeed(log, day(n), name="b")
    assert table_log(log, *tables)["b"].stale == ()
    succeed(log, day(1), name="a", trigger=Trigger.REFRESH)
    assert table_log(log, *tables)["b"].stale == (day(1),)
    succeed(log, day(1), name="b", trigger=Trigger.UPSTREAM)
    assert table_log(log, *tables)["b"].stale == ()


def test_the_latest_run_of_a_table_is_one_row_even_within_one_second_k16(log):
    for n in (1, 2, 3):
        succeed(log, day(n))
    execute(log, "UPDATE job_log SET job_start_time = '2022-01-01 00:00:00'")
    (row,) = rows(log, "SELECT * FROM v_table_log")
    assert (row["job_id"], row["status"], int(row["row_count"])) == (3, "SUCCESS", 5)
    with log.read() as conn:
        assert history.read_latest_statuses(conn, ["ods.t"]) == {"ods.t": "SUCCESS"}


def test_the_log_of_one_table_is_newest_first_and_bounded(log):
    for n in range(1, 6):
        succeed(log, day(n))
    succeed(log, day(1), name="other")
    with log.read() as conn:
        found = history.list_attempts(conn, "ods.t", limit=2)
    assert [row["data_range_start"] for row in found] == ["20220105000000", "20220104000000"]
