"""Catch-ups over the changes of clocks leave the log that one window at a time leaves."""

from collections import Counter
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdriven_dagster.config.models.fields import read_instant
from logdriven_dagster.execution.events import WindowSucceeded
from logdriven_dagster.model.windows import TimeWindow
from tests.builders import at
from tests.clock_changes import around_a_change, attempted, null_project, null_table
from tests.random_examples import examples

HOURLY = null_table("ods.h", "1 hour", "2022-11-06T00:00:00")


def done(events):
    return [e.attempt.window for e in events if isinstance(e, WindowSucceeded)]


def test_one_catch_up_passes_the_hour_that_comes_twice(tmp_path):
    runner = null_project(tmp_path, "America/New_York", [HOURLY])
    windows = done(runner.catch_up(at("2022-11-06 04:00", "America/New_York")))
    assert list(map(str, windows)) == [
        "[2022-11-06, 2022-11-06 01:00-04:00)",
        "[2022-11-06 01:00-04:00, 2022-11-06 01:00-05:00)",
        "[2022-11-06 01:00-05:00, 2022-11-06 02:00)",
        "[2022-11-06 02:00, 2022-11-06 03:00)",
        "[2022-11-06 03:00, 2022-11-06 04:00)",
    ]
    assert len({window.range_start for window in windows}) == 5


QUARTERS = [
    null_table("ods.q", "15 min", "2022-10-30T00:00:00"),
    null_table("dwd.h", "1 hour", "2022-10-30T00:00:00", "ods.q"),
    null_table("dws.d", "1 day", "2022-10-30", "dwd.h"),
]


def test_one_catch_up_runs_the_quarters_hours_and_the_day_of_a_change(tmp_path):
    runner = null_project(tmp_path, "Europe/Berlin", QUARTERS)
    list(runner.catch_up(at("2022-10-31 00:00", "Europe/Berlin")))
    tables = Counter(name for name, *_ in attempted(runner))
    assert tables == {"ods.q": 100, "dwd.h": 25, "dws.d": 1}


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled
@pytest.mark.parametrize(
    ("start", "end", "stale"),
    [
        ("2022-10-30T02:00:00+02:00", "2022-10-30 03:00", [0, 1]),
        ("2022-10-30T02:00:00+02:00", "2022-10-30T02:00:00+01:00", [0]),
        ("2022-10-30T02:00:00+01:00", "2022-10-30 03:00", [1]),
    ],
)
def test_each_of_the_two_hours_makes_what_is_made_from_it_stale(tmp_path, start, end, stale):
    runner = null_project(tmp_path, "Europe/Berlin", QUARTERS)
    now = at("2022-10-31 00:00", "Europe/Berlin")
    list(runner.catch_up(now))
    first, last = (read_instant(text, runner.project.zone) for text in (start, end))
    list(runner.refresh("ods.q", TimeWindow(first, last), now))
    again = [w for w in done(runner.catch_up(now)) if w.span[1] - w.span[0] == 3600]
    two = datetime(2022, 10, 30, tzinfo=timezone.utc)
    assert [(w.start - two) // timedelta(hours=1) for w in again] == stale


PERIODS = st.sampled_from(["15 min", "30 min", "1 hour", "2 hours", "6 hours", "1 day", "2 days"])


@pytest.mark.usefixtures("slow")
@settings(max_examples=examples(10), deadline=None)
@given(around_a_change(), st.tuples(PERIODS, PERIODS), st.integers(1, 40), st.data())
def test_a_catch_up_leaves_the_log_of_one_window_at_a_time(place, periods, hours, data):
    zone, begin = place
    start = begin.astimezone(zone).replace(minute=0).isoformat()
    tables = [
        null_table("ods.a", periods[0], f"'{start}'"),
        null_table("dwd.b", periods[1], f"'{start}'", "ods.a", ordered="true"),
    ]
    now = begin + timedelta(hours=hours)
    with TemporaryDirectory() as whole, TemporaryDirectory() as single:
        at_once = null_project(Path(whole), zone.key, tables)
        list(at_once.catch_up(now))
        step_by_step = null_project(Path(single), zone.key, tables)
        for _ in range(1000):
            if not done(step_by_step.catch_up(now, mode="once")):
                break
        assert attempted(at_once) == attempted(step_by_step)
        for name in ("ods.a", "dwd.b"):
            windows = [row[1:3] for row in attempted(at_once) if row[0] == name]
            assert all(one[1] == other[0] for one, other in pairwise(windows))
