"""The timers that the probes put around functions of the product."""

import importlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from types import SimpleNamespace

import pytest

from benchmarks.probes import counts, overhead
from benchmarks.probes.stopwatch import Stopwatch

PLACES = [place for places in overhead.PARTS.values() for place in places]


@pytest.mark.parametrize("place", [*PLACES, *counts.PARTS.values()])
def test_the_functions_that_are_timed_are_there(place: str):
    module, _, path = place.partition(":")
    assert callable(reduce(getattr, path.split("."), importlib.import_module(module)))


def test_time_in_an_inner_timer_is_not_the_outer_ones(monkeypatch: pytest.MonkeyPatch):
    @contextmanager
    def held() -> Iterator[str]:
        clock.now += 1
        yield "value"
        clock.now += 2

    def outer() -> str:
        clock.now += 4
        with program.held() as value:
            clock.now += 8
        return value

    clock, program = SimpleNamespace(now=0.0), SimpleNamespace(held=held, outer=outer)
    monkeypatch.setattr(time, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(importlib, "import_module", lambda _: program)
    watch = Stopwatch()
    watch.time("held", "program:held")
    watch.time("outer", "program:outer")
    assert program.outer() == "value"
    assert watch.taken()[0] == {"held": 3, "outer": 12}
    assert watch.taken()[0] == {}
