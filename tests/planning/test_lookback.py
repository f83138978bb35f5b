"""`lookback`: late rows arrive, whatever the days, outages and failures are. Source: issue 16."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdriven_dagster.model.attempts import Trigger
from logdriven_dagster.model.logs import LookbackWindow
from logdriven_dagster.planning.context import PlanningContext
from logdriven_dagster.planning.plan import State, plan
from logdriven_dagster.planning.readiness import build_readiness
from logdriven_dagster.planning.reruns import Reruns
from tests.builders import at, day, days, log, table
from tests.planning.late_world import LateWorld, Row, hour
from tests.random_examples import examples

ORDERS = table("ods.orders")
FACTS = table("dwd.facts", lookback=3, depends_on=[{"table": "ods.orders", "read": "all"}])
TABLES = {"ods.orders": ORDERS, "dwd.facts": FACTS}


def world(*tables, rows=(), key="changed"):
    return LateWorld({config.table: config for config in tables}, list(rows), key)


def changed_late(*, days_late, every=6, until=14 * 24):
    """Rows of every few hours, each changed so many days after the instant that it is about."""
    return [Row(n, n + 24 * days_late, n + 24 * days_late) for n in range(0, until, every)]


def trail(world, name, since=0):
    return [(w.start.day, t.value) for table, w, t in world.trail[since:] if table == name]


@pytest.mark.sampled
@pytest.mark.parametrize("late", [0, 1, 2, 3])
def test_rows_that_are_changed_within_lookback_arrive_day_by_day(late):
    shop = world(ORDERS, FACTS, rows=changed_late(days_late=late))
    for n in range(2, 22):
        shop.catch_up(at(f"2022-01-{n:02} 01:00"))
        seen = {row for row in shop.source if row.visible < (n - 1) * 24}
        assert shop.rows("dwd.facts") == seen


@pytest.mark.parametrize("days_of_runs", [(20,), (4, 20), (4, 5, 11, 20)])
def test_so_they_do_in_a_first_catch_up_and_after_an_outage(days_of_runs):
    shop = world(ORDERS, FACTS, rows=changed_late(days_late=3))
    for n in days_of_runs:
        shop.catch_up(at(f"2022-01-{n:02} 01:00"))
    assert shop.rows("dwd.facts") == set(shop.source)


def test_the_last_windows_run_again_after_the_upstream_window_of_the_day():
    shop = world(ORDERS, FACTS)
    for n in range(2, 8):
        shop.catch_up(at(f"2022-01-{n:02} 01:00"))
    before = len(shop.trail)
    shop.catch_up(at("2022-01-08 01:00"))
    assert [name for name, *_ in shop.trail[before:]] == ["ods.orders"] + ["dwd.facts"] * 4
    again = [(n, "lookback") for n in (4, 5, 6)]
    assert trail(shop, "dwd.facts", before) == [*again, (7, "pending")]


def test_a_first_catch_up_runs_every_window_once():
    shop = world(ORDERS, FACTS)
    shop.catch_up(at("2022-01-20 01:00"))
    assert trail(shop, "dwd.facts") == [(n, "pending") for n in range(1, 20)]
    assert not list(shop.plan(at("2022-01-20 23:00")).windows())


def test_a_window_that_ran_before_a_later_upstream_window_runs_again_after_it():
    """The upstream fails in the middle of a catch-up; what could run did, and is not forgotten."""
    shop = world(ORDERS, FACTS, rows=changed_late(days_late=2))
    failing = iter([False, False, True])
    shop.catch_up(at("2022-01-20 01:00"), fails=lambda: next(failing, False))
    assert trail(shop, "dwd.facts") == [(1, "pending"), (2, "pending")]
    shop.catch_up(at("2022-01-20 02:00"))
    assert shop.rows("dwd.facts") == {row for row in shop.source if row.visible < 19 * 24}
    again = [n for n, trigger in trail(shop, "dwd.facts") if trigger != "pending"]
    assert again == [1, 2]


def test_a_repeat_waits_for_what_is_due_of_its_upstream_and_the_claim_agrees():
    yesterday = LookbackWindow(day(3), day(3).end)
    logs = {
        "ods.orders": log(days(1, 4), failed=(day(4),)),
        "dwd.facts": log(days(1, 4), within_lookback=(yesterday,)),
    }
    now = at("2022-01-05 01:00")
    planned = next(plan(TABLES, logs, now).queue("dwd.facts"))
    assert (planned.window, planned.trigger, planned.state) == (
        day(3),
        Trigger.LOOKBACK,
        State.BLOCKED,
    )
    assert planned.reason == ("waits for ods.orders [2022-01-04, 2022-01-05): FAILURE in job 1")
    refused = build_readiness(FACTS, PlanningContext(TABLES, logs, now)).find_obstacle_to_rerun(
        day(3), Trigger.LOOKBACK
    )
    assert refused is not None
    assert refused.reason == planned.reason


def test_a_repeat_is_not_due_before_its_upstream_is():
    slow = table("ods.orders", delay="6 hours")
    tables = {**TABLES, "ods.orders": slow}
    logs = {
        "ods.orders": log(days(1, 4)),
        "dwd.facts": log(days(1, 4), within_lookback=(LookbackWindow(day(3), day(3).end),)),
    }
    early, late = (plan(tables, logs, at(f"2022-01-05 0{n}:00")) for n in (5, 6))
    assert not early.tables["dwd.facts"].reruns
    assert early.tables["dwd.facts"].pending == 1
    assert len(late.tables["dwd.facts"].reruns) == 1


def test_what_an_attempt_notes_is_what_was_there_and_nothing_once_no_row_can_come():
    def noted(finished, now):
        logs = {"ods.orders": log(days(1, finished + 1))}
        return Reruns(FACTS, PlanningContext(TABLES, logs, at(now))).find_last_seen(day(1))

    assert noted(1, "2022-01-02 01:00") == day(1).end
    assert noted(1, "2022-01-09 01:00") == day(1).end
    assert noted(3, "2022-01-09 01:00") == day(3).end
    assert noted(4, "2022-01-09 01:00") is None


def test_a_week_that_brings_the_rows_of_its_days_is_awaited_as_a_whole():
    weekly = table("w", period="1 week")
    daily = table("d", lookback=1, depends_on=[{"table": "w", "read": "all"}])
    tables = {"w": weekly, "d": daily}
    logs = {
        "w": log(days(1, 8)),
        "d": log(days(1, 8), within_lookback=(LookbackWindow(day(7), day(7).end),)),
    }
    assert not plan(tables, logs, at("2022-01-12")).tables["d"].reruns
    assert plan(tables, logs, at("2022-01-15")).tables["d"].reruns == ((day(7), Trigger.LOOKBACK),)
    assert not any(p.state.has_work for p in plan(tables, logs, at("2022-01-15")).queue("d"))


def test_the_end_of_a_table_does_not_end_what_comes_late_for_it():
    ended = table(
        "dwd.facts", lookback=3, end="2022-01-05", depends_on=FACTS.model_dump()["depends_on"]
    )
    shop = world(ORDERS, ended, rows=changed_late(days_late=3))
    for n in range(2, 14):
        shop.catch_up(at(f"2022-01-{n:02} 01:00"))
    assert shop.rows("dwd.facts") == {row for row in shop.source if row.about < 4 * 24}


@st.composite
def worlds(draw):
    """A source of rows that are late, and two or three tables on grids of their own."""
    period = st.sampled_from([6, 12, 24, 48])
    delay = st.sampled_from([0, 0, 3])
    fields = {"ordered": draw(st.booleans())}
    first, key = draw(period), draw(st.sampled_from(["changed", "about"]))
    lookback = draw(st.integers(0, 2))
    ods = table("ods", period=first * 60, delay=draw(delay) * 60, lookback=lookback, **fields)
    second, n = draw(period), draw(st.integers(0, 3))
    whole = key == "changed" or draw(st.booleans())
    read = {"table": "ods", "read": "all"} if whole else {"table": "ods"}
    fields = {"ordered": draw(st.booleans()), "delay": draw(delay) * 60}
    dwd = table("dwd", period=second * 60, lookback=n, depends_on=[read], **fields)
    tables = [ods, dwd]
    if draw(st.booleans()):
        whole_again = draw(st.booleans())
        read = {"table": "dwd", "read": "all"} if whole_again else {"table": "dwd"}
        third = draw(period)
        enough = -(-(n + 1) * second // third) if whole_again else draw(st.integers(0, 2))
        tables.append(table("dws", period=third * 60, lookback=enough, depends_on=[read]))
    chance = random.Random(draw(st.integers(0, 10**6)))
    rows = []
    for about in range(0, 8 * 24, 4):
        # As late as the first table admits, and as the second one does, if it needs to look back.
        last = about + 10**6 if not whole else (about // second + n + 1) * second - 1
        late = (about // first + lookback + 1) * first - 1
        changed = min(chance.choice([about, about + 72]), last)
        if key == "changed":
            late = (changed // first + lookback + 1) * first - 1
        changed = min(changed, late)
        rows.append(Row(about, changed, chance.choice([changed, min(last, late)])))
    return world(*tables, rows=rows, key=key)


@pytest.mark.usefixtures("slow")
@settings(max_examples=examples(40))
@given(worlds(), st.integers(0, 10**6))
def test_nothing_is_missing_in_the_end(shop, seed):
    """Random lateness, tables, days of runs, failures, modes and interruptions."""
    chance = random.Random(seed)
    for instant in sorted(chance.sample(range(1, 14 * 24), 9)):
        failing = [chance.random() < 0.2 for _ in range(chance.choice([0, 40]))]
        shop.catch_up(
            hour(instant),
            fails=lambda left=failing: left.pop() if left else False,
            mode=chance.choice([None, None, "once"]),
            most=chance.choice([5, 30, 1000]),
        )
    end = hour(20 * 24 + 3)  # all grids meet at midnight, all delays are over
    while any(shop.plan(end).ready()):
        shop.catch_up(end)
    assert [p.reason for p in shop.plan(end).windows()] == []
    assert shop.rows(list(shop.tables)[-1]) == set(shop.source)
