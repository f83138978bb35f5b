"""When a failing window may be tried again, and where a dead attempt goes on."""

from datetime import timedelta

import pytest

from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.logs import OpenWindow, TableLog
from logdriven_dagster.planning.plan import State, plan
from logdriven_dagster.planning.retries import (
    LONGEST,
    find_resumable_steps,
    get_remaining_back_off,
)
from tests.builders import STEP, at, day, table

MINUTE = timedelta(minutes=1)


def failed(failures: int, ago: timedelta = timedelta(0), status=Status.FAILURE) -> OpenWindow:
    return OpenWindow(day(1), 1, status, failures=failures, quiet_for=ago)


@pytest.mark.parametrize(("failures", "minutes"), [(1, 1), (2, 2), (3, 4), (4, 8), (7, 60)])
def test_the_pause_doubles_up_to_an_hour(failures, minutes):
    assert get_remaining_back_off(failed(failures), MINUTE) == timedelta(minutes=minutes)


def test_a_pause_passes():
    assert get_remaining_back_off(failed(3, ago=3 * MINUTE), MINUTE) == MINUTE
    assert get_remaining_back_off(failed(3, ago=5 * MINUTE), MINUTE) == timedelta(0)
    assert get_remaining_back_off(failed(10_000), MINUTE) == LONGEST


def test_a_first_death_is_taken_over_at_once_and_a_discard_never_waits():
    assert get_remaining_back_off(failed(0, status=Status.RUNNING), MINUTE) == timedelta(0)
    assert get_remaining_back_off(failed(2, status=Status.DISCARDED), MINUTE) == timedelta(0)


def test_a_resting_window_is_blocked_with_its_reason_only_where_asked():
    config, logs = table(), {"ods.t": TableLog(open=(failed(2),))}
    now = at("2022-01-02 12:00")
    (first, *_) = plan({"ods.t": config}, logs, now, backoff=MINUTE).windows()
    assert (first.state, first.reason) == (
        State.BLOCKED,
        "failed 2 times in a row; next attempt in 0:02:00",
    )
    (first, *_) = plan({"ods.t": config}, logs, now).windows()
    assert first.state is State.READY


def steps(*flags: str):
    """`v` a view, `t` a step with a target, `x` one that cannot be started with."""
    made = []
    for n, flag in enumerate(flags):
        step = {**STEP, "step": f"s{n}", "can_recover": flag != "x"}
        made.append({k: v for k, v in step.items() if k != "target" or flag != "v"})
    return table(steps=made).steps


@pytest.mark.parametrize(
    ("flags", "staged", "kept"),
    [
        ("tt", [], 0),
        ("tt", [0], 1),
        ("tt", [0, 1], 2),
        ("tt", [1], 0),
        ("vtt", [1], 2),
        ("txt", [0], 0),
        ("ttx", [0, 1], 1),
        ("txx", [0, 1], 0),
    ],
)
def test_a_dead_attempt_goes_on_at_its_first_unfinished_step_y03(flags, staged, kept):
    names = {f"s{n}" for n in staged}
    assert len(find_resumable_steps(steps(*flags), names)) == kept
