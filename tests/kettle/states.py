"""States of a few tables that depend on each other, and what both sides make of their times.

Kettle knows no windows. Its "today" is our newest daily window: a run that ended today is an
attempt at that window, one that ended before is an attempt at the window before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from hypothesis import strategies as st

from logdriven_dagster.model.windows import TimeWindow
from tests.builders import at, day

JOB = "daily"
NOW = at("2022-01-03 18:00")
TODAY = at("2022-01-03")
_FIRST = at("2022-01-02")
_STATUSES = ("Completed", "Completed", "Completed", "Failed", "Failed", "Running")
_TICKS = 100
_TICK = timedelta(minutes=24)
"""Ticks 0 to 59 are yesterday, 60 to 99 today; all lie before NOW."""


@dataclass(frozen=True)
class Run:
    """One row of `t_etl_tbl_log`."""

    status: str
    begin: datetime
    end: datetime | None
    """None while it is Running; Kettle's column says 1970 then."""

    @property
    def is_today(self) -> bool:
        return (self.end or self.begin) >= TODAY

    @property
    def window(self) -> TimeWindow:
        return day(2) if self.is_today else day(1)


@dataclass(frozen=True)
class Table:
    """The configuration and the history of one table."""

    upstreams: Mapping[str, bool] = field(default_factory=dict)
    """Upstream → `tbl_from_is_etl`."""
    runs: tuple[Run, ...] = ()
    """One after the other; only the last may be Running."""
    enabled: bool = True
    in_job: bool = True
    twins: tuple[Run, ...] = ()
    """Runs that another job began in the same second as this one's last."""

    @property
    def last(self) -> Run | None:
        return self.runs[-1] if self.runs else None

    @property
    def status(self) -> str:
        return self.last.status if self.last else "never"

    @property
    def last_success(self) -> datetime | None:
        return max(
            (run.end for run in self.runs if run.end and run.status == "Completed"), default=None
        )

    @property
    def is_done_today(self) -> bool:
        return self.last is not None and self.status == "Completed" and self.last.is_today

    @property
    def managed(self) -> list[str]:
        return [name for name, is_etl in self.upstreams.items() if is_etl]


State: TypeAlias = Mapping[str, Table]


def tick(n: int) -> datetime:
    return _FIRST + n * _TICK


def run(status: str, begin: int, end: int) -> Run:
    return Run(status, tick(begin), None if status == "Running" else tick(end))


@st.composite
def histories(draw: st.DrawFn) -> tuple[Run, ...]:
    """Up to three runs of a table, of which a completed one is the last of its day (K08)."""
    size = 2 * draw(st.sampled_from([0, 1, 1, 2, 3]))
    ticks = st.integers(0, _TICKS - 1)
    bounds = sorted(draw(st.lists(ticks, min_size=size, max_size=size, unique=True)))
    found: list[Run] = []
    for begin, end in zip(bounds[::2], bounds[1::2], strict=True):
        made = run(draw(st.sampled_from(_STATUSES)), begin, end)
        done = [old.is_today for old in found if old.status == "Completed"]
        if made.is_today not in done:
            found.append(made)
        if made.status == "Running":
            break
    return tuple(found)


@st.composite
def states(draw: st.DrawFn) -> State:
    """Two to five tables; each depends on some of those before it."""
    found: dict[str, Table] = {}
    for n in range(draw(st.integers(2, 5))):
        names = draw(st.sets(st.sampled_from(list(found)), max_size=2)) if found else set()
        upstreams = {name: draw(_mostly()) for name in sorted(names)}
        if draw(st.booleans()):
            upstreams["source.s"] = False
        made = Table(upstreams, draw(histories()), draw(_mostly()), n == 0 or draw(_mostly()))
        if made.last and not draw(_mostly()):
            twin = run(draw(st.sampled_from(_STATUSES)), 0, _TICKS)
            made = replace(made, twins=(replace(twin, begin=made.last.begin),))
        found[f"ods.t{n}"] = made
    return found


def _mostly() -> st.SearchStrategy[bool]:
    return st.sampled_from([True] * 9 + [False])
