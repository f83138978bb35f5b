"""The pending queue of one table. Source: Sharp ETL; rows S and D18 of the checklist."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.attempts import Trigger
from logdriven_dagster.model.logs import LookbackWindow, TableLog
from logdriven_dagster.planning.context import PlanningContext
from logdriven_dagster.planning.pending import find_unfinished_windows, find_watermark
from logdriven_dagster.planning.readiness import NotDue, build_readiness
from logdriven_dagster.planning.reruns import Reruns
from tests.builders import at, day, days, hours, log, table

NOON_5TH = at("2022-01-05 14:00")


def test_an_empty_log_leaves_every_period_that_has_ended_s01():
    windows = find_unfinished_windows(table(), log(), NOON_5TH)
    assert list(windows) == [day(1), day(2), day(3), day(4)]


def test_one_more_period_leaves_one_window_s02():
    windows = find_unfinished_windows(table(), log(days(1, 7)), at("2022-01-08 14:00"))
    assert list(windows) == [day(7)]


@pytest.mark.parametrize("period", [1, 60, 1440, 43_200, 7, 90, "1 week", "1 month", "1 year"])
def test_every_period_counts_alike(period):
    config = table(period=period, default_start="2021-01-01")
    now = config.grid.get_bound(3)
    assert len(find_unfinished_windows(config, log(), now)) == 3


def test_a_period_must_have_ended_in_full_s03():
    assert not find_unfinished_windows(table(), log(days(1, 5)), at("2022-01-05 23:59"))
    assert list(find_unfinished_windows(table(), log(days(1, 5)), at("2022-01-06"))) == [day(5)]


def test_the_queue_starts_at_a_failed_window_s04():
    windows = find_unfinished_windows(table(), log(day(1), failed=(day(2),)), NOON_5TH)
    assert list(windows) == [day(2), day(3), day(4)]


def test_a_gap_below_a_later_success_is_pending_s06():
    windows = find_unfinished_windows(table(), log(days(1, 3), day(4), failed=(day(3),)), NOON_5TH)
    assert list(windows) == [day(3)]


def test_a_skipped_window_is_not_pending_and_moves_the_watermark_s07():
    history = log(day(1), skipped=(days(2, 4),))
    assert list(find_unfinished_windows(table(), history, NOON_5TH)) == [day(4)]
    assert find_watermark(table(), history) == day(4).start


def test_the_watermark_is_the_end_of_the_contiguous_prefix():
    assert find_watermark(table(), log(days(1, 3), day(4))) == day(3).start
    assert find_watermark(table(), log(day(4))) == day(1).start


def test_a_delay_holds_a_window_back_after_its_end():
    config = table(delay="2 hours")
    assert not find_unfinished_windows(config, log(), at("2022-01-02 01:59"))
    assert list(find_unfinished_windows(config, log(), at("2022-01-02 02:00"))) == [day(1)]


def test_no_window_ends_after_the_end_of_the_table():
    config = table(end="2022-01-03 12:00")
    assert list(find_unfinished_windows(config, log(), NOON_5TH)) == [day(1), day(2)]
    readiness = build_readiness(config, PlanningContext({}, {}, NOON_5TH))
    expected = NotDue("after the table's end 2022-01-03 12:00")
    assert readiness.find_obstacle(day(3)) == expected


def test_a_shorter_period_goes_on_where_the_longer_one_ended():
    windows = find_unfinished_windows(table(period=60), log(days(1, 4)), at("2022-01-04 02:00"))
    assert list(windows) == [hours(0, 1, of_day=4), hours(1, 2, of_day=4)]


def test_a_longer_period_first_completes_the_window_that_was_begun():
    windows = find_unfinished_windows(table(), log(hours(0, 5)), at("2022-01-03"))
    assert list(windows) == [hours(5, 24), day(2)]


def test_an_earlier_default_start_makes_the_days_before_pending():
    windows = find_unfinished_windows(table(default_start="2021-12-30"), log(days(1, 5)), NOON_5TH)
    assert [f"{w.start:%d}" for w in windows] == ["30", "31"]


@given(st.sets(st.integers(1, 20)), st.integers(1, 25))
def test_pending_and_finished_windows_partition_the_horizon(done, today):
    history = log(*(day(n) for n in sorted(done)))
    pending = set(find_unfinished_windows(table(), history, day(today).start))
    due = {day(n) for n in range(1, today)}
    assert pending == due - {day(n) for n in done}


@given(st.sets(st.integers(1, 20)), st.integers(0, 30), st.integers(0, 30))
def test_a_queue_is_a_sequence(done, start, stop):
    windows = find_unfinished_windows(table(), log(*map(day, sorted(done))), at("2022-01-25"))
    listed = list(windows)
    assert len(windows) == len(listed)
    assert list(windows[start:stop]) == listed[start:stop]
    assert [windows[n] for n in range(len(windows))] == listed


def ran(*each: tuple[int, str]):
    return tuple(LookbackWindow(day(n), at(now)) for n, now in each)


def list_reruns(config: TableConfig, history: TableLog, now: datetime):
    return Reruns(config, PlanningContext({}, {config.table: history}, now)).list_due()


def test_lookback_runs_the_last_windows_again_with_each_new_one():
    history = log(days(1, 4), within_lookback=ran((2, "2022-01-03"), (3, "2022-01-04")))
    again = list_reruns(table(lookback=2), history, at("2022-01-05"))
    assert again == [(day(2), Trigger.LOOKBACK), (day(3), Trigger.LOOKBACK)]


def test_lookback_is_quiet_until_the_next_window_is_due():
    history = log(days(1, 4), within_lookback=ran((2, "2022-01-04"), (3, "2022-01-04")))
    assert not list_reruns(table(lookback=2), history, at("2022-01-04 23:00"))


def test_lookback_looks_back_over_days_on_which_nothing_ran():
    history = log(days(1, 3), within_lookback=ran((1, "2022-01-03"), (2, "2022-01-03")))
    for now in ("2022-01-04", "2022-01-05", "2022-01-20"):
        assert list_reruns(table(lookback=1), history, at(now)) == [(day(2), Trigger.LOOKBACK)]


def test_a_late_catch_up_has_seen_the_late_data():
    now = "2022-01-05 10:00"
    history = log(days(1, 5), within_lookback=ran((2, now), (3, now), (4, now)))
    assert not list_reruns(table(lookback=2), history, at(now))


def test_a_refreshed_upstream_makes_finished_windows_pending_unless_ignored():
    history = log(days(1, 5), stale=(day(2),))
    assert list_reruns(table(), history, NOON_5TH) == [(day(2), Trigger.UPSTREAM)]
    assert not list_reruns(table(on_upstream_refresh="ignore"), history, NOON_5TH)
