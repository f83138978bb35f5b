"""Retention of the log on three databases: old rows go, what planning reads does not change."""

import pytest

from logdriven_dagster.model.attempts import Trigger
from tests.builders import at, day, days, table
from tests.runlog.ageing import age, move
from tests.runlog.logbook import execute, fail, rows, start, succeed, table_log

pytestmark = pytest.mark.sampled("database_url")


def count(log, name="job_log"):
    return rows(log, f"SELECT count(*) AS n FROM {name}")[0]["n"]


def test_archiving_moves_no_watermark_and_makes_nothing_pending_y17(log):
    for n in (1, 2, 3):
        succeed(log, day(n))
    fail(log, day(4))
    before = table_log(log)
    age(log)
    assert move(log) == 3
    after = table_log(log)
    assert (after.finished, after.skipped) == (before.finished, before.skipped)
    assert [item.window for item in after.open] == [day(4)]
    assert (count(log), count(log, "job_log_archive")) == (1, 3)
    assert (count(log, "step_log"), count(log, "step_log_archive")) == (1, 3)
    assert move(log) == 0


def test_what_is_young_or_unfinished_stays(log):
    succeed(log, day(1))
    fail(log, day(2))
    start(log, day(3))
    age(log, "%-20220102%")
    assert move(log) == 0


def test_attempts_before_the_latest_go_and_their_number_stays(log):
    fail(log, day(1))
    fail(log, day(1))
    age(log)
    assert move(log) == 1
    assert start(log, day(1)).attempt_number == 3


@pytest.mark.sampled
def test_a_refresh_of_an_archived_window_counts_on(log):
    succeed(log, day(1))
    succeed(log, day(2))
    age(log)
    move(log)
    refreshed = start(log, day(1), Trigger.REFRESH)
    assert refreshed.attempt_number == 2
    assert table_log(log).finished == (day(2),)


def test_a_window_that_a_user_set_to_failure_is_not_archived(log):
    succeed(log, day(1))
    execute(log, "UPDATE job_log SET status = 'FAILURE'")
    age(log)
    assert move(log) == 0
    assert table_log(log).finished == ()


def test_what_lookback_needs_stays(log):
    for n in (1, 2, 3, 4):
        succeed(log, day(n), now=f"2022-01-0{n + 1}")
    age(log)
    looking = table(lookback=1)
    before = table_log(log, looking).within_lookback
    assert move(log, looking) == 2
    assert table_log(log, looking).within_lookback == before
    assert [(item.window, item.seen) for item in before] == [
        (day(3), at("2022-01-04")),
        (day(4), at("2022-01-05")),
    ]


def test_an_archived_window_over_a_refreshed_upstream_is_stale(log):
    tables = table("a"), table("b", depends_on=["a"])
    for n in (1, 2):
        succeed(log, day(n), name="a")
        succeed(log, day(n), name="b")
    age(log)
    move(log, *tables)
    succeed(log, day(1), name="a", trigger=Trigger.REFRESH)
    assert table_log(log, *tables)["b"].stale == (day(1),)
    succeed(log, day(1), name="b", trigger=Trigger.UPSTREAM)
    assert table_log(log, *tables)["b"].stale == ()


def test_a_row_that_a_user_inserts_counts_and_is_absorbed(log):
    succeed(log, day(1))
    columns = "project_id, job_name, job_period, job_schedule_id, status"
    columns += ", window_start, window_end, latest"
    start_of_2, start_of_3 = (int(day(n).start.timestamp()) for n in (2, 3))
    values = f"1, 'ods.t', 1440, 'ods.t-20220102000000', 'SUCCESS', {start_of_2}, {start_of_3}, 1"
    execute(log, f"INSERT INTO job_log ({columns}) VALUES ({values})")
    assert table_log(log).finished == (days(1, 3),)
    age(log)
    assert move(log) == 2
    assert table_log(log).finished == (days(1, 3),)
    assert count(log, "log_range") == 1
