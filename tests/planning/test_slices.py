"""The pending queue of a table without time: pure functions of the log."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdriven_dagster.engine.sources.keys import cut
from logdriven_dagster.model.attempts import Status, Trigger
from logdriven_dagster.model.logs import LastSlice, OpenWindow, TableLog
from logdriven_dagster.model.windows import Along, Slice
from logdriven_dagster.planning.context import PlanningContext
from logdriven_dagster.planning.dependencies import Upstreams
from logdriven_dagster.planning.plan import plan
from logdriven_dagster.planning.readiness import build_readiness
from logdriven_dagster.planning.slices import (
    find_slices_within,
    get_next_slice,
    list_pending_slices,
)
from tests.builders import UTC, at, day, table
from tests.config.sliced_tables import KEYS, sliced

NOW = at("2022-01-05 12:00")
BIG = st.integers(min_value=0, max_value=10**30)


def keys(number: int, low: int | str, high: int | str | None) -> Slice:
    end = None if high is None else str(high)
    return Slice.nth(number, str(low), end, UTC, Along.KEYS)


def done(window: Slice, now=NOW, *, has_more: bool = False) -> TableLog:
    return TableLog(last=LastSlice(window, now, has_more))


def failed(window: Slice) -> OpenWindow:
    return OpenWindow(window, 1, Status.FAILURE)


def test_the_first_slice_begins_at_the_start_and_is_due_at_once():
    (first,) = list_pending_slices(sliced("auto_inc_id", default_start=7), TableLog(), NOW)
    assert (first.number, first.low, first.high) == (0, "7", None)
    (first,) = list_pending_slices(sliced("kafka_offset"), TableLog(), NOW)
    assert first.low == "earliest"


@given(BIG, BIG)
def test_the_next_slice_begins_where_the_last_one_ended(low: int, width: int):
    last = keys(3, low, low + width)
    following = get_next_slice(sliced("auto_inc_id"), LastSlice(last, NOW, has_more=False))
    assert following.low == last.high
    assert following.number == (3 if width == 0 else 4)
    assert following.key != last.key or width == 0


@pytest.mark.parametrize(
    ("period", "later", "due"),
    [
        (1440, timedelta(hours=11), False),
        (1440, timedelta(hours=12), True),
        (1, timedelta(0), False),
    ],
)
def test_it_is_due_when_a_new_period_has_begun(period, later, due):
    config = sliced("auto_inc_id", period=period)
    assert bool(list_pending_slices(config, done(keys(0, 0, 5)), NOW + later)) is due


def test_where_more_was_seen_it_is_due_at_once():
    log = done(keys(0, 0, 5), has_more=True)
    assert [str(item) for item in list_pending_slices(sliced("auto_inc_id"), log, NOW)] == [
        "(5, …]"
    ]


def test_a_failed_slice_is_pending_with_its_range_and_hides_the_next_one():
    log = replace(done(keys(0, 0, 5), has_more=True), open=(failed(keys(1, 5, 9)),))
    assert [str(item) for item in list_pending_slices(sliced("auto_inc_id"), log, NOW)] == [
        "(5, 9]"
    ]


def test_a_failed_refresh_comes_before_what_is_next():
    log = replace(done(keys(1, 5, 9), has_more=True), open=(failed(keys(0, 0, 5)),))
    config = sliced("auto_inc_id")
    assert [str(i) for i in list_pending_slices(config, log, NOW)] == ["(0, 5]", "(9, …]"]
    planned = plan({config.table: config}, {config.table: log}, NOW)
    states = [window.state.value for window in planned.windows()]
    assert states == ["ready", "blocked"]


@pytest.mark.parametrize(
    ("queued", "fields", "numbers"),
    [
        (0, {}, []),
        (3, {}, [1, 2, 3]),
        (3, {"max_batches": 2}, [1, 2]),
        (7, {"depends_on": [{"table": "ods.a", "cut_pattern": "EOD"}]}, [1]),
    ],
)
def test_batches_that_wait_are_cut_into_slices(queued, fields, numbers):
    config = sliced("upstream", **fields)
    log = replace(done(Slice.nth(0, "1", "1", UTC)), queued={("load", "ods.a"): queued})
    assert [item.number for item in list_pending_slices(config, log, NOW)] == numbers


def test_batches_that_wait_for_a_mark_are_shown_with_the_reason_109():
    config = sliced("upstream", depends_on=[{"table": "ods.a", "cut_pattern": "EOD"}])
    pair = ("load", "ods.a")
    log = replace(done(Slice.nth(0, "1", "1", UTC)), queued={pair: 0}, unmarked={pair: 2})
    tables = {config.table: config, "ods.a": table("ods.a")}
    (waiting,) = plan(tables, {config.table: log}, NOW, [config.table]).windows()
    assert (waiting.window.number, waiting.state.value) == (1, "blocked")
    reason = "waits for a delivery of ods.a that is marked 'EOD': none of the 2 in its queue is"
    assert waiting.reason == reason
    refused = build_readiness(
        config, PlanningContext(tables, {config.table: log}, NOW)
    ).find_obstacle(waiting.window)
    assert refused is not None
    assert refused.reason == reason


def test_a_slice_whose_windows_have_run_again_runs_again_itself():
    config = sliced("upstream", depends_on=[{"table": "ods.a", "cut_pattern": "EOD"}])
    pair, first = ("load", "ods.a"), Slice.nth(0, "1", "1", UTC)
    log = replace(done(first), queued={pair: 0}, unmarked={pair: 1}, stale=(first,))
    tables = {config.table: config, "ods.a": table("ods.a")}
    (again,) = plan(tables, {config.table: log}, NOW, [config.table]).windows()
    assert (again.window, again.trigger, again.state.value) == (first, Trigger.UPSTREAM, "ready")
    kept = config.model_copy(update={"on_upstream_refresh": "ignore"})
    (waiting,) = plan({**tables, kept.table: kept}, {kept.table: log}, NOW, [kept.table]).windows()
    assert (waiting.window.number, waiting.state.value) == (1, "blocked")


def test_a_slice_needs_a_batch_of_every_upstream():
    config = sliced("upstream", depends_on=["ods.a", "ods.b"])
    log = TableLog(queued={("load", "ods.a"): 3, ("load", "ods.b"): 1})
    assert len(list_pending_slices(config, log, NOW)) == 1


def test_all_is_loaded_once_a_look_has_left_nothing_behind():
    assert done(keys(0, 0, 5)).complete_until == NOW.timestamp()
    never = float("-inf")
    assert done(keys(0, 0, 5), has_more=True).complete_until == never
    assert replace(done(keys(0, 0, 5)), open=(failed(keys(1, 5, 6)),)).complete_until == never
    assert TableLog().complete_until == never


@given(BIG, st.lists(st.integers(1, 10**20), min_size=1, max_size=5), st.integers(1, 10**19))
def test_windows_of_keys_are_bounded_contiguous_and_end_at_the_last_key(start, steps, size):
    """However the keys lie, a catch-up ends at the greatest one, in windows of `size` at most."""
    present = [start + sum(steps[: n + 1]) for n in range(len(steps))]
    config = sliced("auto_inc_id", window_size=size, default_start=start, steps=[KEYS])
    window, seen = keys(0, start, None), []
    while True:
        left = [key for key in present if key > int(window.low)]
        high, has_more = cut(config, window, min(left, default=None), max(left, default=None))
        seen += [key for key in left if key <= int(high)]
        assert has_more == (int(high) < present[-1])
        if not has_more:
            break
        assert left[0] <= int(high) < left[0] + size
        window = keys(window.number + 1, high, None)
    assert seen == present


@given(st.integers(0, 50), st.integers(0, 50))
def test_lag_never_steps_back(last, lag):
    config = sliced("auto_inc_id", lag=lag, steps=[KEYS])
    high, has_more = cut(config, keys(0, 20, None), last if last > 20 else None, last)
    assert int(high) == (max(20, last - lag) if last > 20 else 20)
    assert not has_more


def test_a_window_behind_waits_for_a_look_after_its_delay():
    orders = sliced("auto_inc_id")
    daily = table("dws.d", depends_on=[orders.table], delay="15 min")
    known = {orders.table: orders, daily.table: daily}
    for looked, missing in (("2022-01-02 00:05", True), ("2022-01-02 00:15", False)):
        logs = {orders.table: done(keys(0, 0, 5), at(looked))}
        upstreams = Upstreams(daily, PlanningContext(known, logs, NOW))
        assert bool(list(upstreams.find_missing(day(1)))) is missing


def test_a_range_finds_the_slices_that_it_touches():
    config = sliced("auto_inc_id")
    known = [keys(n, 10 * n, 10 * n + 10) for n in range(3)]
    assert [s.number for s in find_slices_within(config, known, "10", "20")] == [1]
    assert [s.number for s in find_slices_within(config, known, "9", "11")] == [0, 1]
    assert find_slices_within(config, known, "30", "99") == []
    topics = sliced("kafka_offset")
    ends = [json.dumps({"t": {"0": n, "1": 5}}) for n in (0, 10, 20)]
    of_topic = [Slice.nth(n, ends[n], ends[n + 1], UTC, Along.OFFSETS) for n in range(2)]
    asked = [json.dumps({"t": {"0": n}}) for n in (9, 10)]
    assert [s.number for s in find_slices_within(topics, of_topic, *asked)] == [0]
    assert [s.number for s in find_slices_within(topics, of_topic, "1", "2")] == [1]
