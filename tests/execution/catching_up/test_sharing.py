"""Several runners share what is pending; one that waits goes on behind the others."""

import time
from datetime import timedelta
from threading import Timer

import pytest

from logdriven_dagster.execution.events import WindowRefused, WindowStarted, WindowSucceeded
from tests.builders import at, day
from tests.execution.conftest import NOW

WAIT = timedelta(minutes=3)


@pytest.fixture
def other(world):
    """Another runner has begun the first window of `ods.numbers`."""
    events = world.runner.catch_up(NOW, ["ods.numbers"], max_windows=1)
    assert isinstance(next(events), WindowStarted)
    return events


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled
@pytest.mark.parametrize("slots", [1, 2])
def test_a_run_that_waits_goes_on_behind_what_another_one_finishes(world, other, slots):
    Timer(1, lambda: list(other)).start()
    events = list(world.runner.catch_up(NOW, wait=WAIT, max_parallel=slots))
    begun = [e.attempt.table for e in events if isinstance(e, WindowStarted)]
    assert sorted(begun) == ["dws.sums"] * 4 + ["ods.numbers"] * 3
    assert not [event for event in events if isinstance(event, WindowRefused)]


def test_without_waiting_it_leaves_them_to_the_other(world, other):
    assert world.catch_up() == []
    list(other)


@pytest.mark.usefixtures("long")
def test_a_run_waits_for_a_refresh_that_another_one_has_begun_since_it_planned(world):
    list(world.runner.catch_up(NOW, ["ods.numbers"]))
    catching_up = world.runner.catching_up(NOW, ["dws.sums"], wait=WAIT)
    refresh = world.runner.refresh("ods.numbers", day(1), NOW)
    assert isinstance(next(refresh), WindowStarted)
    Timer(1, lambda: list(refresh)).start()
    events = list(catching_up.events())
    assert [type(event) for event in events] == [WindowStarted, WindowSucceeded] * 4


@pytest.mark.usefixtures("long")
def test_it_waits_no_longer_than_its_limit(world, other):
    began = time.monotonic()
    assert world.catch_up(wait=timedelta(seconds=3)) == []
    assert 3 <= time.monotonic() - began < 30
    list(other)


def test_it_does_not_wait_where_nothing_runs(world):
    began = time.monotonic()
    assert world.catch_up(now=at("2022-01-01 12:00"), wait=WAIT) == []
    assert time.monotonic() - began < 30
