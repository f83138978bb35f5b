"""Whole projects whose tables change between runs, against a model of what must be published.

The model replays what the null engine published on a target that tells rows by the start of their
window, row by row: half an hour of data is a row. It knows nothing of logs, claims and plans.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from logdriven_dagster.errors import PartOfWindowError, RefusedError
from logdriven_dagster.model.periods import Grid
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.testing import NullEngine, Sandbox
from tests.clock_changes import instant_of, null_table
from tests.memory import temporary_folder
from tests.random_examples import examples

ZONES = ("UTC", "Europe/Berlin", "America/New_York")
ROW = 1800
UPSTREAMS = {"t.a": (), "t.b": ("t.a",)}


@dataclass(frozen=True)
class Scale:
    """Periods that fit each other, and the days before and after a change of clocks."""

    periods: tuple[str, ...]
    before: int
    steps: tuple[timedelta, ...]
    """How far the data clock goes on with a run."""


SCALES = (
    Scale(("30 min", "1 hour", "3 hours"), 0, (timedelta(hours=1), timedelta(hours=4))),
    Scale(("6 hours", "1 day", "2 days"), 1, (timedelta(hours=14), timedelta(days=2))),
    Scale(("1 day", "1 week", "1 month"), 3, (timedelta(days=4), timedelta(days=20))),
)
CHANGES = ("2022-03-27", "2022-10-30", "2022-03-13", "2022-11-06")
"""Days on which clocks of one of the zones change."""


@dataclass
class Model:
    """Rows and windows that targets hold, each with the number of the publication that made it."""

    rows: dict[str, list[tuple[int, float, int]]] = field(default_factory=dict)
    windows: dict[str, list[tuple[TimeWindow, int]]] = field(default_factory=dict)
    seen: int = 0

    def replay(self, engine: NullEngine) -> None:
        for published in engine.publications[self.seen :]:
            self.seen += 1
            start, end = published.window.span
            kept = [row for row in self.rows.get(published.table, ()) if not start <= row[1] < end]
            new = [(at, start, self.seen) for at in range(int(start), int(end), ROW)]
            self.rows[published.table] = kept + new
            live = self.windows.get(published.table, [])
            live = [each for each in live if not published.window.contains(each[0])]
            self.windows[published.table] = [*live, (published.window, self.seen)]

    def held(self, table: str) -> set[int]:
        """The rows that a table holds, none of them twice."""
        rows = [row for row, _, _ in self.rows.get(table, ())]
        assert len(rows) == len(set(rows)), f"{table} holds rows twice"
        return set(rows)

    def is_part(self, table: str, window: TimeWindow) -> bool:
        """Whether a window overlaps one that counts without containing it."""
        live = (each for each, _ in self.windows.get(table, ()))
        return any(each.overlaps(window) and not window.contains(each) for each in live)


@dataclass
class Case:
    """A project in a folder, the data clock, and the model of its targets."""

    sandbox: Sandbox
    base: datetime
    now: datetime
    zone: str
    periods: dict[str, str]
    starts: dict[str, int]
    """Hours between the base and the start of a table."""
    lasting: dict[str, int] = field(default_factory=dict)
    """Hours between the start and the end of a table that has one."""
    model: Model = field(default_factory=Model)

    def write(self) -> None:
        self.sandbox.write("logdriven.yaml", f"project: p\ntimezone: {self.zone}\nlineage: false")
        for name, upstreams in UPSTREAMS.items():
            start = self.base.replace(tzinfo=None) + timedelta(hours=self.starts.get(name, 0))
            fields = dict(FIELDS)
            if hours := self.lasting.get(name):
                fields["end"] = (start + timedelta(hours=hours)).isoformat()
            text = null_table(name, self.periods[name], start.isoformat(), *upstreams, **fields)
            self.sandbox.write(f"tables/{name}.yaml", text)

    def change(self, what: str, *values: Any) -> None:
        """Change the zone of the project, or the period, start or end of a table."""
        if what == "zone":
            (self.zone,) = values
        else:
            of = {"period": self.periods, "start": self.starts, "end": self.lasting}[what]
            of[values[0]] = values[1]

    def run(self) -> bool:
        """Catch up; whether there was anything to do."""
        events = list(self.sandbox.runner.catch_up(self.now))
        self.model.replay(self.sandbox.engine)
        for name in UPSTREAMS:
            self.model.held(name)
        return bool(events)

    def refresh(self, name: str, first: int, count: int) -> None:
        """Refresh some windows of the grid; refused just where one is a part of a finished one."""
        grid = self.sandbox.project.table(name).grid
        low = grid.get_bound(first)
        span = TimeWindow(low, grid.get_bound(first + count), zone=grid.zone)
        if span.end > self.now or (grid.end is not None and span.end > grid.end):
            return
        try:
            list(self.sandbox.runner.refresh(name, span, self.now))
        except PartOfWindowError:
            assert self.model.is_part(name, span)
        except RefusedError:
            pass  # what has not run yet waits for its turn
        self.model.replay(self.sandbox.engine)
        self.model.held(name)

    def settle(self) -> None:
        """Run until nothing is left, and compare what is published with what must be."""
        # Each failure that was asked for is one run.
        assert not all(self.run() for _ in range(9)), "there is always something to do"
        project = self.sandbox.project
        for name, upstreams in UPSTREAMS.items():
            held = self.model.held(name)
            grid = project.table(name).grid
            of = [(project.table(each).grid, self.model.held(each)) for each in upstreams]
            assert must_hold(grid, of, self.now) <= held, name
            for window, number in self.model.windows.get(name, ()):
                if not all(is_held(window, *each) for each in of):
                    continue  # it runs again when an upstream of another period has ended
                for upstream in upstreams:
                    for made, again in self.model.windows.get(upstream, ()):
                        fresh = again < number or not made.overlaps(window)
                        assert fresh, f"{name} {window} is older than {upstream} {made}"


FIELDS = {"batch_size": "all"}


def is_held(window: TimeWindow, upstream: Grid, held: set[int]) -> bool:
    """Whether an upstream holds all rows that a window awaits."""
    awaited = upstream.covering(window)
    low, high = max(awaited.span[0], upstream.origin_seconds), awaited.span[1]
    if upstream.end is not None:
        high = min(high, upstream.get_bound(upstream.index(upstream.end)).timestamp())
    return held.issuperset(range(int(low), int(high), ROW))


def must_hold(grid: Grid, upstreams: Sequence[tuple[Grid, set[int]]], now: datetime) -> set[int]:
    """The rows of the windows that are due, up to the first whose upstreams are not there."""
    found: set[int] = set()
    for n in range(10_000):
        window = grid.window(n)
        if window.end > now or (grid.end is not None and window.end > grid.end):
            break
        if not all(is_held(window, *each) for each in upstreams):
            break
        found |= set(range(int(window.span[0]), int(window.span[1]), ROW))
    return found


History: TypeAlias = tuple[Scale, str, str, int, list[tuple[Any, ...]]]
STARTS = st.sampled_from((0, 4, 5, 7, 24, 72))


@st.composite
def histories(draw: Any) -> History:
    """Draw a scale, a zone, the day of a change of clocks, a start, and what happens then."""
    scale = draw(st.sampled_from(SCALES))
    table, period = st.sampled_from(sorted(UPSTREAMS)), st.sampled_from(scale.periods)
    act = st.one_of(
        st.tuples(st.just("run"), st.sampled_from(scale.steps)),
        st.tuples(st.just("refresh"), table, st.integers(0, 5), st.integers(1, 4)),
        st.tuples(st.just("period"), table, period),
        st.tuples(st.just("zone"), st.sampled_from(ZONES)),
        st.tuples(st.just("start"), table, STARTS),
        st.tuples(st.just("end"), table, st.sampled_from((0, 3, 12, 50, 500))),
        st.tuples(st.just("fail"), table),
    )
    day = draw(st.sampled_from(CHANGES))
    acts = draw(st.lists(act, min_size=2, max_size=5))
    return scale, draw(st.sampled_from(ZONES)), day, draw(STARTS), acts


def play(history: History) -> None:
    scale, zone, day, start, acts = history
    base = instant_of(f"{day}T00:00") - timedelta(days=scale.before)
    if "1 month" in scale.periods:
        base = base.replace(day=1)
    with tempfile.TemporaryDirectory(dir=temporary_folder()) as folder:
        sandbox = Sandbox(Path(folder), engine=NullEngine())
        periods = dict.fromkeys(UPSTREAMS, scale.periods[0])
        case = Case(sandbox, base, base + scale.steps[0], zone, periods, {"t.a": start})
        case.write()
        case.run()
        for name, *values in acts:
            match name:
                case "start" | "end" | "zone" if not case.model.windows.get("t.a"):
                    pass  # before an upstream has a window, nothing says what was made without it
                case "run":
                    case.now += values[0]
                    case.run()
                case "refresh":
                    case.refresh(*values)
                case "fail":
                    sandbox.engine.fail(values[0])
                case _:
                    case.change(name, *values)
            case.write()
        case.settle()


STALE_BEHIND_A_LONGER_PERIOD = (
    SCALES[1],
    "UTC",
    "2022-03-27",
    0,
    [("refresh", "t.a", 0, 1), ("period", "t.a", "1 day")],
)
STALE_BEHIND_AN_EARLIER_START = (
    SCALES[1],
    "UTC",
    "2022-03-27",
    7,
    [("run", timedelta(days=2)), ("start", "t.a", 0)],
)
STALE_BEHIND_A_LATER_END = (
    SCALES[1],
    "UTC",
    "2022-03-27",
    0,
    [("end", "t.a", 12), ("run", timedelta(days=2)), ("end", "t.a", 50)],
)
CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=examples(100), deadline=None, suppress_health_check=CHECKS)
@example(STALE_BEHIND_A_LATER_END)
@example(STALE_BEHIND_AN_EARLIER_START)
@example(STALE_BEHIND_A_LONGER_PERIOD)
@given(histories())
def test_changing_projects_publish_every_row_once_and_nothing_stale(history):
    play(history)


@settings(max_examples=2000, deadline=None, suppress_health_check=CHECKS)
@given(history=histories())
def test_many_changing_projects_publish_every_row_once_and_nothing_stale(history, long):
    play(history)
