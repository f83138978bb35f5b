"""Readiness and running order over several tables. Source: Sharp ETL, dependencies."""

import pytest

from logdriven_dagster.config.derived.relations import add_waits
from logdriven_dagster.config.models.dependencies import Dependency
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.planning.context import PlanningContext
from logdriven_dagster.planning.dependencies import find_awaited_range, read_ranges
from logdriven_dagster.planning.plan import State, plan
from logdriven_dagster.planning.readiness import (
    DependenciesMissing,
    EarlierUnfinished,
    NotDue,
    build_readiness,
)
from tests.builders import at, day, days, hours, log, running, table
from tests.patience import within

NOW = at("2022-01-05 14:00")


def planned(tables, logs, now=NOW, **kwargs):
    known = {config.table: config for config in tables}
    return plan(known, logs, now, **kwargs)


def states(result, name):
    return [(item.window, item.state.value) for item in result.queue(name)]


def test_only_the_oldest_window_of_an_ordered_table_is_ready():
    result = planned([table()], {})
    assert [state for _, state in states(result, "ods.t")] == ["ready"] + ["blocked"] * 3
    assert (
        list(result.queue("ods.t"))[1].reason == "waits for [2022-01-01, 2022-01-02): has not run"
    )


def test_every_window_of_an_unordered_table_is_ready():
    result = planned([table(ordered=False)], {})
    assert {state for _, state in states(result, "ods.t")} == {"ready"}


def test_a_running_window_is_shown_as_running():
    result = planned([table()], {"ods.t": TableLog(open=(running(day(1)),))})
    assert next(result.windows()).state is State.RUNNING


def test_a_day_waits_for_all_its_24_hours():
    tables = [table("h", period=60), table("d", depends_on=["h"])]
    almost = {"h": log(hours(0, 23))}
    assert "h [2022-01-01 23:00, 2022-01-02)" in next(planned(tables, almost).queue("d")).reason
    whole = {"h": log(hours(0, 24))}
    assert next(planned(tables, whole).queue("d")).state is State.READY


def test_an_hour_waits_for_the_day_that_contains_it_unless_the_relation_overrides_it():
    daily = table("d")
    strict = table("h", period=60, depends_on=["d"], default_start="2022-01-02")
    loose = table("h", period=60, depends_on=[{"table": "d", "window": "ended"}])
    assert find_awaited_range(daily, strict.depends_on[0], hours(3, 4, of_day=2)) == day(2)
    assert find_awaited_range(daily, loose.depends_on[0], hours(3, 4, of_day=2)) == day(1)
    assert find_awaited_range(daily, loose.depends_on[0], hours(23, 24, of_day=2)) == day(2)


def test_missing_upstreams_are_named_s34():
    tables = [table("a"), table("b"), table("c", depends_on=["a", "b"])]
    reason = next(planned(tables, {"b": log(failed=(day(1),))}).queue("c")).reason
    assert "a [2022-01-01, 2022-01-02): has not run" in reason
    assert "b [2022-01-01, 2022-01-02): FAILURE in job 1" in reason


def test_an_unmanaged_upstream_counts_as_complete():
    tables = [table(depends_on=[{"table": "raw.orders", "managed": False}])]
    assert next(planned(tables, {}).windows()).state is State.READY


def test_nothing_is_awaited_before_the_upstream_begins():
    upstream = table("a", default_start="2022-01-03")
    downstream = table("b", depends_on=["a"])
    assert find_awaited_range(upstream, downstream.depends_on[0], day(1)) is None
    assert find_awaited_range(upstream, downstream.depends_on[0], day(3)) == day(3)


@pytest.mark.parametrize("waiting", [{}, {"window": "ended"}, {"condition": "always"}], ids=str)
def test_nor_after_the_upstreams_last_window(waiting):
    upstream = table("a", end="2022-01-03")
    downstream = table("b", depends_on=[{"table": "a", **waiting}])
    assert find_awaited_range(upstream, downstream.depends_on[0], day(2)) == day(2)
    assert find_awaited_range(upstream, downstream.depends_on[0], day(3)) is None
    done = {"a": log(days(1, 3)), "b": log(days(1, 3))}
    assert next(planned([upstream, downstream], done).queue("b")).state is State.READY


@pytest.mark.parametrize(
    ("period", "window", "expected"),
    [
        (1440, days(1, 8), days(1, 4)),
        (1440, days(8, 15), None),
        (2 * 1440, days(1, 8), days(1, 3)),
        (7 * 1440, days(1, 8), None),
    ],
)
def test_of_a_period_that_straddles_the_end_what_there_is_of_the_upstream_is_awaited(
    period, window, expected
):
    upstream = table("a", period=period, end="2022-01-04 12:00")
    weekly = table("b", period="1 week", depends_on=["a"])
    assert find_awaited_range(upstream, weekly.depends_on[0], window) == expected


def test_nor_does_a_snapshot_have_to_come_after_the_end():
    tables = [
        table("dim", incremental_type="full", end="2022-01-03"),
        table("f", depends_on=["dim"]),
    ]
    logs = {"dim": log(day(2)), "f": log(days(1, 4))}
    assert next(planned(tables, logs).queue("f")).state is State.READY


def test_what_waits_for_a_failure_does_not_apply_after_the_end():
    waiting = [{"table": "a", "condition": "failure", "read": "none"}]
    tables = [table("a", end="2022-01-03"), table("b", depends_on=waiting)]
    logs = {"a": log(days(1, 3)), "b": log(days(1, 4))}
    assert next(planned(tables, logs).queue("b")).state is State.INAPPLICABLE


@pytest.mark.parametrize("n", [1, 4])
def test_of_an_upstream_that_has_no_window_there_nothing_is_read(n):
    upstream = table("a", default_start="2022-01-02", end="2022-01-04")
    windowed = table("b", depends_on=["a"])
    whole = table("c", depends_on=[{"table": "a", "read": "all"}])
    assert read_ranges(upstream, windowed.depends_on[0], day(n)) == ()
    assert read_ranges(upstream, windowed.depends_on[0], day(2)) == (day(2),)
    assert read_ranges(upstream, whole.depends_on[0], day(n)) is None


def test_a_history_is_read_as_a_whole_since_versions_outlast_their_windows():
    target = {"type": "iceberg", "mode": "history", "key": ["id"]}
    history = table("dim", steps=[{"step": "load", "sql": "SELECT 1 AS id", "target": target}])
    reader = table("f", depends_on=["dim"])
    assert read_ranges(history, reader.depends_on[0], day(2)) is None
    assert next(planned([history, reader], {}).queue("f")).state is State.BLOCKED


def test_a_skipped_upstream_window_is_not_complete():
    tables = [table("a"), table("b", depends_on=["a"])]
    result = planned(tables, {"a": log(days(2, 5), skipped=(day(1),))})
    assert "skipped" in next(result.queue("b")).reason


def test_a_snapshot_that_has_succeeded_once_satisfies_a_full_dependency_k04():
    tables = [table("dim", incremental_type="full"), table("f", depends_on=["dim"])]
    logs = {"dim": log(day(1)), "f": log(days(1, 3))}
    assert next(planned(tables, logs, selected=["f"]).queue("f")).state is State.READY
    assert next(planned(tables, {"dim": log(day(4))}).queue("f")).state is State.READY
    assert next(planned(tables, {}).queue("f")).state is State.BLOCKED
    assert read_ranges(tables[0], tables[1].depends_on[0], day(1)) is None


@pytest.mark.parametrize("wanted", [{"window": "newest"}, {"read": "none"}], ids=str)
def test_one_as_new_as_the_window_is_awaited_if_configured_or_for_order_only(wanted):
    waiting = [{"table": "dim", **wanted}]
    tables = [table("dim", incremental_type="full"), table("f", depends_on=waiting)]
    logs = {"dim": log(day(2)), "f": log(days(1, 3))}
    reason = next(planned(tables, logs, selected=["f"]).queue("f")).reason
    assert reason == "waits for dim [2022-01-03, 2022-01-04): no snapshot of this time or later"
    logs["dim"] = log(day(4))
    assert next(planned(tables, logs, selected=["f"]).queue("f")).state is State.READY


def test_a_full_table_takes_the_newest_snapshot_and_passes_the_older_ones_over():
    result = planned([table(incremental_type="full")], {}).tables["ods.t"]
    assert list(result.unfinished) == [day(4)]
    assert list(result.passed_over) == [day(1), day(2), day(3)]


def test_latest_only_waits_for_an_older_window_that_is_running_k10():
    """It cannot be passed over, so that claiming a newer one would be refused."""
    logs = {"ods.t": TableLog(open=(running(day(1)),))}
    result = planned([table()], logs, mode="latest_only")
    assert [state for _, state in states(result, "ods.t")] == ["blocked"]
    assert "RUNNING in job 9" in next(result.queue("ods.t")).reason
    unordered = planned([table(ordered=False)], logs, mode="latest_only")
    assert [state for _, state in states(unordered, "ods.t")] == ["ready"]


def test_once_and_latest_only_s07():
    once = planned([table()], {}, mode="once").tables["ods.t"]
    assert (list(once.unfinished), len(once.passed_over)) == ([day(1)], 0)
    newest = planned([table()], {}, mode="latest_only").tables["ods.t"]
    assert (list(newest.unfinished), len(newest.passed_over)) == ([day(4)], 3)


def test_the_oldest_window_comes_first_and_upstreams_before_downstreams_y20():
    tables = [table("a"), table("b", depends_on=["a"]), table("w", period="1 week")]
    order = [(item.table, item.window.start.day) for item in planned(tables, {}).windows()]
    assert order == [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3), ("b", 3), ("a", 4), ("b", 4)]


def test_a_window_takes_its_turn_after_the_longer_window_that_it_waits_for():
    tables = [table("d"), table("h", period=60, depends_on=["d"])]
    order = [item.table for item in planned(tables, {}, at("2022-01-02")).windows()]
    assert order == ["d"] + ["h"] * 24


def in_turn(tables, logs=None, **kwargs):
    return [item.table for item in planned(tables, logs or {}, **kwargs).windows()]


@pytest.mark.parametrize(
    "reading",
    [
        {"window": "none", "read": "all"},
        {"window": "none"},
        {"read": "all"},
        {"managed": False},
    ],
    ids=str,
)
def test_what_is_read_as_a_whole_runs_before_what_reads_it(reading):
    tables = [table("dim"), table("fact", depends_on=[{"table": "dim", **reading}])]
    assert in_turn(tables) == ["dim"] * 4 + ["fact"] * 4


def test_so_does_what_the_former_is_made_from_and_what_is_made_from_the_latter_follows():
    tables = [
        table("raw"),
        table("dim", depends_on=["raw"]),
        table("fact", depends_on=[{"table": "dim", "window": "none"}]),
        table("mart", depends_on=["fact"]),
        table("whole", depends_on=[{"table": "mart", "read": "all"}]),
    ]
    assert in_turn(tables) == ["raw", "dim"] * 4 + ["fact", "mart"] * 4 + ["whole"] * 4


def test_what_reads_a_whole_table_does_not_wait_for_one_that_cannot_run():
    tables = [table("dim"), table("fact", depends_on=[{"table": "dim", "window": "none"}])]
    disabled = planned([table("dim", enabled=False), tables[1]], {})
    assert next(disabled.ready()).table == "fact"
    assert next(planned(tables, {}, selected=["fact"]).ready()).table == "fact"
    running_elsewhere = {"dim": TableLog(open=(running(day(1)),))}
    assert next(planned(tables, running_elsewhere).ready()).table == "fact"


def test_a_snapshot_comes_before_all_that_reads_it_and_so_it_does_in_a_job():
    snapshot = table("dim", incremental_type="full")
    done = {"dim": log(day(1), day(2), day(3))}
    tables = [snapshot, table("fact", depends_on=["dim"])]
    assert in_turn(tables, done)[0] == "dim"
    waiting = add_waits(table("fact"), [Dependency(table="dim", read="none")])
    assert in_turn([snapshot, waiting], done)[0] == "dim"


@pytest.mark.parametrize(
    ("window", "logs", "kind"),
    [
        (day(5), {}, NotDue),
        (days(0, 1), {}, NotDue),
        (day(2), {}, EarlierUnfinished),
        (day(1), {}, DependenciesMissing),
    ],
)
def test_obstacles_have_types(window, logs, kind):
    tables = {"a": table("a"), "b": table("b", depends_on=["a"])}
    readiness = build_readiness(tables["b"], PlanningContext(tables, logs, NOW))
    assert isinstance(readiness.find_obstacle(window), kind)


@pytest.mark.parametrize("history", [log(), log(days(-3652, 4))], ids=["nothing done", "all done"])
def test_a_thousand_tables_of_ten_years_are_planned_without_touching_every_window(history):
    tables = [table(f"t{n}", default_start="2012-01-01") for n in range(1000)]
    with within(20):  # the figure is in benchmarks/; this guards the order
        result = planned(tables, {config.table: history for config in tables})
        next(result.ready(), None)
