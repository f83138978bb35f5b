"""Conditions and delays between tables. Sources: DolphinScheduler, relations; Kettle, K04–K09."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.logs import EndedWindow, OpenWindow, TableLog
from logdriven_dagster.model.ranges import unite
from logdriven_dagster.planning.context import PlanningContext
from logdriven_dagster.planning.plan import State, plan
from logdriven_dagster.planning.readiness import (
    DependenciesMissing,
    NotApplying,
    build_readiness,
)
from tests.builders import at, day, days, hours, log, running, table

NOW = at("2022-01-05 14:00")
ENDS = [Status.SUCCESS, Status.SKIPPED, Status.FAILURE, Status.DISCARDED]


def waiting(condition="success", upstream=None, **fields):
    """A daily table `b` that waits for `a`."""
    wait = {"table": "a", "condition": condition} | {
        name: fields.pop(name) for name in ("delay", "window", "read") if name in fields
    }
    return {"a": upstream or table("a"), "b": table("b", depends_on=[wait], **fields)}


def log_of(statuses, unit=day):
    """A log in which the n-th window, from 1 on, has the n-th status; None: untried."""
    known = [(unit(n + 1), status) for n, status in enumerate(statuses) if status]
    return TableLog(
        finished=tuple(unite(w for w, status in known if status is Status.SUCCESS)),
        skipped=tuple(unite(w for w, status in known if status is Status.SKIPPED)),
        open=tuple(
            OpenWindow(w, n, status)
            for n, (w, status) in enumerate(known)
            if status not in (Status.SUCCESS, Status.SKIPPED)
        ),
    )


def first_state(tables, upstream_log, **kwargs):
    return next(plan(tables, {"a": upstream_log}, NOW, **kwargs).queue("b")).state


def ended(window, minutes, status=Status.SUCCESS):
    return EndedWindow(window, status, timedelta(minutes=minutes))


@pytest.mark.parametrize("status", [Status.FAILURE, Status.RUNNING, Status.DISCARDED, None])
def test_one_upstream_failed_running_or_never_ran_and_the_others_are_unaffected_k05(status):
    tables = {**waiting(), "c": table("c")}
    result = plan(tables, {"a": log_of([status])}, NOW)
    assert next(result.queue("b")).state is State.BLOCKED
    assert next(result.queue("c")).state is State.READY


def test_an_upstream_that_is_not_ours_is_always_complete_k06():
    tables = {"b": table("b", depends_on=[{"table": "raw.a", "managed": False}])}
    assert next(plan(tables, {}, NOW).queue("b")).state is State.READY


def test_a_table_whose_upstreams_have_completed_is_in_the_plan_k04():
    assert first_state(waiting(), log(day(1))) is State.READY


def test_a_table_that_failed_after_its_upstream_completed_is_tried_again_k09():
    logs = {"a": log(day(1)), "b": log(failed=(day(1),))}
    first = next(plan(waiting(), logs, NOW).queue("b"))
    assert (first.window, first.state) == (day(1), State.READY)


@pytest.mark.parametrize("status", ENDS)
def test_always_follows_any_result_of_the_upstream_d07(status):
    assert first_state(waiting("always"), log_of([status])) is State.READY


@pytest.mark.parametrize("status", [Status.RUNNING, None])
def test_always_waits_for_the_end_d07(status):
    assert first_state(waiting("always"), log_of([status])) is State.BLOCKED


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (Status.FAILURE, State.READY),
        (Status.SUCCESS, State.INAPPLICABLE),
        (Status.SKIPPED, State.INAPPLICABLE),
        (Status.DISCARDED, State.BLOCKED),
        (Status.RUNNING, State.BLOCKED),
        (None, State.BLOCKED),
    ],
)
def test_failure_follows_a_failure_and_does_not_apply_without_one_d07(status, state):
    assert first_state(waiting("failure"), log_of([status])) is state


def test_an_inapplicable_window_gives_the_reason():
    first = next(plan(waiting("failure"), {"a": log(day(1))}, NOW).queue("b"))
    assert first.reason == "does not apply: a [2022-01-01, 2022-01-02): did not fail"


def test_what_does_not_apply_is_work_for_a_run_so_that_it_is_recorded():
    work = plan(waiting("failure"), {"a": log(days(1, 5))}, NOW).ready()
    assert [(item.table, item.window, item.state) for item in work] == [
        ("b", day(1), State.INAPPLICABLE)
    ]


def test_before_the_upstream_begins_nothing_can_fail():
    tables = waiting("failure", table("a", default_start="2022-01-03"))
    assert first_state(tables, TableLog()) is State.INAPPLICABLE


def test_conditions_act_across_periods():
    tables = waiting("failure", table("a", period=60, ordered=False))

    def hour(n):
        return hours(n - 1, n)

    ended_but_one = [Status.SUCCESS] * 22 + [Status.FAILURE]
    assert first_state(tables, log_of(ended_but_one, hour)) is State.BLOCKED
    assert first_state(tables, log_of([*ended_but_one, Status.SUCCESS], hour)) is State.READY
    assert first_state(tables, log_of([Status.SUCCESS] * 24, hour)) is State.INAPPLICABLE


@pytest.mark.parametrize("condition", ["always", "failure"])
def test_a_runner_that_seems_dead_has_not_failed_until_it_is_taken_over(condition):
    silent = OpenWindow(day(1), 3, Status.FAILURE, error="its lease ran out", presumed=True)
    first = next(plan(waiting(condition), {"a": TableLog(open=(silent,))}, NOW).queue("b"))
    assert first.state is State.BLOCKED
    assert "its lease ran out" in first.reason


def test_later_windows_wait_until_what_does_not_apply_is_recorded():
    result = plan(waiting("failure"), {"a": log(days(1, 3))}, NOW)
    first, second, *_ = result.queue("b")
    assert (first.state, second.state) == (State.INAPPLICABLE, State.BLOCKED)
    assert list(result.inapplicable(first)) == [day(1), day(2)]


def test_all_conditions_of_a_table_must_hold():
    depends_on = [{"table": "a", "condition": "failure"}, "c"]
    tables = {"a": table("a"), "c": table("c"), "b": table("b", depends_on=depends_on)}

    def state(**logs):
        return next(plan(tables, logs, NOW).queue("b")).state

    assert state(a=log(failed=(day(1),))) is State.BLOCKED
    assert state(a=log(failed=(day(1),)), c=log(day(1))) is State.READY
    assert state(a=log(day(1))) is State.INAPPLICABLE  # whatever becomes of c


def test_a_finished_window_runs_again_though_its_upstream_does_not_fail_any_more():
    tables = waiting("failure", lookback=1)
    again = TableLog(finished=(day(1),), stale=(day(1),))
    first = next(plan(tables, {"a": log(day(1)), "b": again}, at("2022-01-02")).queue("b"))
    assert first.state is State.READY


@pytest.mark.parametrize(("minutes", "state"), [(0, "blocked"), (29, "blocked"), (30, "ready")])
def test_after_a_delay_of_30_minutes_and_not_before_d07(minutes, state):
    tables = waiting("success", delay="30 min")
    upstream = TableLog(finished=(day(1),), recent=(ended(day(1), minutes),))
    assert first_state(tables, upstream).value == state


def test_the_reason_shows_how_much_of_a_delay_is_left():
    tables = waiting("success", delay="30 min")
    upstream = TableLog(finished=(day(1),), recent=(ended(day(1), 12),))
    reason = next(plan(tables, {"a": upstream}, NOW).queue("b")).reason
    assert "ended 0:12:00 ago; 0:18:00 of the delay of 0:30:00 remain" in reason


def test_a_delay_begins_with_the_last_end_of_the_awaited_range():
    tables = waiting("always", table("a", period=60), delay="30 min")
    lately = (ended(hours(3, 4), 40), ended(hours(23, 24), 10))
    assert first_state(tables, TableLog(finished=(day(1),), recent=lately)) is State.BLOCKED
    assert first_state(tables, TableLog(finished=(day(1),), recent=lately[:1])) is State.READY


def test_what_does_not_apply_does_not_wait_for_the_delay():
    tables = waiting("failure", delay="30 min")
    upstream = TableLog(finished=(day(1),), recent=(ended(day(1), 1),))
    assert first_state(tables, upstream) is State.INAPPLICABLE


def test_a_delay_after_a_snapshot_begins_with_the_first_that_is_new_enough():
    tables = waiting("success", table("a", incremental_type="full"), delay="36 hours")
    lately = (ended(day(2), 60 * 25), ended(day(3), 60))
    newer = TableLog(finished=(days(2, 4),), recent=lately)
    assert first_state(tables, newer) is State.BLOCKED
    older = TableLog(finished=(days(1, 4),), recent=lately)
    assert first_state(tables, older) is State.READY


@given(
    st.lists(st.sampled_from([*ENDS, Status.RUNNING, None]), min_size=24, max_size=24),
    st.sampled_from(["success", "always", "failure"]),
)
def test_a_condition_applies_to_every_window_of_the_awaited_range(statuses, condition):
    tables = waiting(condition, table("a", period=60, ordered=False))
    logs = {"a": log_of(statuses, lambda n: hours(n - 1, n))}
    readiness = build_readiness(tables["b"], PlanningContext(tables, logs, NOW))
    found = readiness.find_upstream_obstacle(day(1))
    all_ended = not {Status.RUNNING, None} & set(statuses)
    match condition:
        case "success":
            holds = set(statuses) == {Status.SUCCESS}
        case "always":
            holds = all_ended
        case _:
            holds = all_ended and Status.FAILURE in statuses
    never = condition == "failure" and set(statuses) <= {Status.SUCCESS, Status.SKIPPED}
    expected = NotApplying if never else None if holds else DependenciesMissing
    assert found is None if expected is None else isinstance(found, expected)


@given(
    st.lists(st.sampled_from([*ENDS, Status.RUNNING, None]), min_size=4, max_size=4),
    st.lists(st.sampled_from([*ENDS, Status.RUNNING, None]), min_size=4, max_size=4),
    st.sampled_from(["success", "always", "failure"]),
    st.booleans(),
)
def test_the_claim_refuses_exactly_what_the_plan_does_not_call_ready(ours, theirs, condition, one):
    tables = waiting(condition, ordered=one)
    logs = {"a": log_of(theirs), "b": log_of(ours)}
    readiness = build_readiness(tables["b"], PlanningContext(tables, logs, NOW))
    for planned in plan(tables, logs, NOW).queue("b"):
        if planned.state is not State.RUNNING:
            blocked = readiness.find_obstacle(planned.window)
            assert (blocked is None) == (planned.state is State.READY)
            assert isinstance(blocked, NotApplying) == (planned.state is State.INAPPLICABLE)


def test_running_windows_are_awaited_by_name():
    tables, logs = waiting("always"), {"a": TableLog(open=(running(day(1)),))}
    readiness = build_readiness(tables["b"], PlanningContext(tables, logs, NOW))
    missing = readiness.find_dependencies_missing(day(1))
    assert missing is not None
    assert "RUNNING in job 9" in missing.reason
