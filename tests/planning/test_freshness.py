"""Freshness by window: the newest window that should be done by now is done in the run log."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.logs import LastSlice, OpenWindow, TableLog
from logdriven_dagster.model.windows import Along, Slice, TimeWindow
from logdriven_dagster.planning.freshness import (
    Freshness,
    Verdict,
    evaluate_freshness,
    get_allowance,
)
from tests.builders import UTC, at, day, days, log, running, table

TWO_HOURS = {"within": "2 h"}
KEYS = {"source": {"type": "jdbc", "connection": "crm", "table": "t", "key_column": "id"}}


def judged(history: TableLog, now: str, zone: str = "UTC", **fields: Any) -> Freshness:
    found = evaluate_freshness(
        table(zone=zone, **{"freshness": TWO_HOURS} | fields), history, at(now, zone)
    )
    assert found is not None
    return found


def verdict(history: TableLog, now: str, **fields: Any) -> Verdict:
    return judged(history, now, **fields).verdict


def test_a_window_may_be_unfinished_until_within_is_over():
    assert verdict(log(day(1)), "2022-01-03 01:59") is Verdict.FRESH
    assert verdict(log(day(1)), "2022-01-03 02:00") is Verdict.LATE
    assert verdict(log(days(1, 3)), "2022-01-03 02:00") is Verdict.FRESH


def test_an_old_window_that_runs_again_makes_nothing_fresh():
    history = log(days(1, 3), day(4))
    assert verdict(history, "2022-01-06 02:00") is Verdict.LATE
    assert verdict(log(days(1, 5)), "2022-01-06 02:00") is Verdict.LATE


def test_an_old_window_that_is_missing_makes_nothing_late():
    assert verdict(log(day(5), failed=(day(2),)), "2022-01-06 02:00", ordered=False) == "fresh"


def test_the_oldest_window_missing_in_a_row_states_since_when_it_is_late():
    found = judged(log(day(1), failed=(day(3),)), "2022-01-06 14:00")
    assert (found.expected, found.missing) == (day(5), day(2))
    assert found.due == at("2022-01-03 02:00")
    assert found.overdue(at("2022-01-06 14:00")) == timedelta(days=3, hours=12)


def test_it_reports_the_state_of_the_missing_window():
    assert judged(log(day(1), failed=(day(2),)), "2022-01-03 02:00").reason == "FAILURE in job 1"
    assert judged(log(day(1)), "2022-01-03 02:00").reason == "has not run"


def test_nothing_is_expected_before_the_first_window_should_be_done():
    found = judged(log(), "2022-01-02 01:59")
    assert (found.verdict, found.expected, found.due) == (Verdict.FRESH, None, None)
    assert verdict(log(), "2022-01-02 02:00") is Verdict.LATE


def test_a_warning_comes_before():
    fields = {"freshness": {"within": "4 h", "warn": "2 h"}}
    assert verdict(log(day(1)), "2022-01-03 01:59", **fields) is Verdict.FRESH
    assert verdict(log(day(1)), "2022-01-03 02:00", **fields) is Verdict.WARNING
    assert verdict(log(day(1)), "2022-01-03 04:00", **fields) is Verdict.LATE
    assert judged(log(day(1)), "2022-01-03 02:30", **fields).due == at("2022-01-03 02:00")


@pytest.mark.parametrize(
    ("period", "delay", "allowed"),
    [
        ("15 min", 0, timedelta(minutes=15)),
        ("1 h", "20 min", timedelta(minutes=80)),
        ("1 day", "6 h", timedelta(hours=30)),
        ("1 month", "6 h", timedelta(hours=30)),
    ],
)
def test_auto_is_the_delay_and_one_period_but_at_most_a_day(period, delay, allowed):
    assert get_allowance(table(freshness="auto", period=period, delay=delay)) == allowed


def test_a_skipped_window_is_done():
    assert verdict(log(day(1), skipped=(day(2),)), "2022-01-03 02:00") is Verdict.FRESH


def test_after_its_end_the_last_window_decides():
    ended = {"end": "2022-01-03 12:00"}
    assert verdict(log(days(1, 3)), "2022-06-01", **ended) is Verdict.FRESH
    assert judged(log(day(1)), "2022-06-01", **ended).expected == day(2)


@pytest.mark.parametrize(
    "fields", [{"freshness": "none"}, {"enabled": False}, {"release_state": "offline"}]
)
def test_freshness_is_not_judged_without_a_rule_or_a_schedule(fields):
    config = table(**{"freshness": "auto"} | fields)
    assert evaluate_freshness(config, log(), at("2022-02-01")) is None


def again(status: Status, **fields: bool) -> TableLog:
    return TableLog((day(1),), open=(OpenWindow(day(2), 9, status, **fields),))


def test_a_refresh_leaves_it_fresh_unless_it_fails_after_it_has_begun_to_publish():
    now = "2022-01-03 02:00"
    assert verdict(again(Status.RUNNING, stands=True, was_finished=True), now) is Verdict.FRESH
    assert verdict(again(Status.RUNNING, was_finished=True), now) is Verdict.FRESH
    assert verdict(again(Status.FAILURE, stands=True, was_finished=True), now) is Verdict.FRESH
    assert verdict(again(Status.FAILURE, was_finished=True), now) is Verdict.LATE


def test_a_window_that_runs_for_the_first_time_is_not_done():
    history = TableLog((day(1),), open=(running(day(2)),))
    assert judged(history, "2022-01-03 02:00").reason == "RUNNING in job 9"


def test_windows_end_by_the_wall_clock_and_within_is_elapsed_time():
    """On 27 March 2022 the clocks of Berlin went from 2 to 3."""
    before = table(zone="Europe/Berlin", default_start="2022-03-01").grid
    done = log(TimeWindow(before.origin, before.get_bound(25)))
    fields = {"zone": "Europe/Berlin", "default_start": "2022-03-01"}
    assert verdict(done, "2022-03-27 01:59", **fields) is Verdict.FRESH
    assert verdict(done, "2022-03-27 03:00", **fields) is Verdict.LATE
    autumn = log(TimeWindow(before.origin, before.get_bound(26)))
    assert verdict(autumn, "2022-03-28 01:59", **fields) is Verdict.FRESH
    assert verdict(autumn, "2022-03-28 02:00", **fields) is Verdict.LATE


def test_a_later_snapshot_will_do_and_a_skipped_one_will_not():
    full = {"incremental_type": "full", "freshness": {"within": "3 days"}}
    assert verdict(log(day(6)), "2022-01-07 12:00", **full) is Verdict.FRESH
    history = log(day(1), skipped=(days(2, 5),), failed=(day(5),))
    found = judged(history, "2022-01-07 12:00", **full)
    assert (found.verdict, found.missing) == (Verdict.LATE, day(2))


def read(read_at: datetime | None, *, has_more: bool = False) -> TableLog:
    slice_ = Slice.nth(3, "1", "9", UTC, Along.KEYS)
    return TableLog(last=LastSlice(slice_, at("2022-01-05 12:00"), has_more, read_at))


def of_slices(history: TableLog, now: str) -> Freshness:
    step = {"step": "load", "target": {"type": "iceberg"}} | KEYS
    fields = {"incremental_type": "auto_inc_id", "period": "1 h", "default_start": 0}
    return judged(history, now, steps=[step], freshness={"within": "30 min"}, **fields)


def test_a_sliced_table_has_to_take_all_that_its_source_holds_once_a_period():
    at_noon = read(at("2022-01-05 12:00"))
    assert of_slices(at_noon, "2022-01-05 13:29").verdict is Verdict.FRESH
    found = of_slices(at_noon, "2022-01-05 14:00")
    assert (found.verdict, found.due) == (Verdict.LATE, at("2022-01-05 13:30"))
    assert found.reason == "its source was last read at 2022-01-05 12:00"


def test_slices_of_a_backlog_make_nothing_fresh():
    found = of_slices(read(at("2022-01-05 09:00"), has_more=True), "2022-01-05 12:05")
    assert (found.verdict, found.due) == (Verdict.LATE, at("2022-01-05 10:30"))
    assert found.reason == "its source has more rows than have been read"
    assert of_slices(read(None, has_more=True), "2022-01-05 12:05").verdict is Verdict.LATE


def test_a_sliced_table_that_never_ran_is_late():
    assert of_slices(TableLog(), "2022-01-05 12:05").reason == "its source has not been read yet"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"freshness": "2 h"}, "must be auto, none or {within: 2 h}, not '2 h'"),
        ({"freshness": {"within": 0}}, "a window needs time to run"),
        ({"freshness": {"within": "1 h", "warn": "1 h"}}, "warn: must be shorter than within"),
        ({"freshness": TWO_HOURS, "delay": "2 h"}, "must be longer than delay, which is 2:00:00"),
        ({"freshness": "auto", "incremental_type": "upstream"}, "has no schedule"),
    ],
)
def test_what_can_never_be_is_refused(fields, told):
    start = {"default_start": None} if "incremental_type" in fields else {}
    with pytest.raises(ValueError, match=told.replace("{", r"\{")):
        table(**fields | start)
