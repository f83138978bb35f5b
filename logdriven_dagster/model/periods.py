"""Periods, and the grid of windows into which they divide time."""

import re
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from enum import Enum
from functools import cache
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from logdriven_dagster.model.windows import (
    TimeWindow,
    convert_to_instant,
    convert_to_zone,
    normalize_instant,
)


class Unit(Enum):
    """Unit of a period; determines the effect of daylight saving time."""

    MINUTE = "minute"
    """Elapsed time: an hour is 60 minutes, also when the clocks change."""
    DAY = "day"
    """Wall-clock days: from midnight to midnight, which may be 23 or 25 hours."""
    MONTH = "month"
    """Calendar months."""


_MINUTES = {"minute": 1, "min": 1, "m": 1, "hour": 60, "h": 60, "day": 1440, "d": 1440}
_MINUTES |= {"week": 10080, "w": 10080}
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "y": 12}
_NOMINAL_MONTH = 43_200
_HALF_A_DAY = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class Period:
    """The length of a window in data time; calendar units follow the wall clock.

    Source: Sharp ETL's `period` in minutes; weeks, months and years are additions.
    """

    count: int
    unit: Unit

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError("a period must be at least one minute")

    @classmethod
    def parse(cls, text: int | str) -> "Period":
        """Parse `1440`, `"15 min"`, `"1 day"`, `"2 weeks"`, `"1 month"`, `"1 year"`.

        Raises ValueError for anything else.
        """
        match = re.fullmatch(r"\s*(\d+)\s*([a-z]*?)s?\s*", str(text).lower())
        if not match:
            raise ValueError(f"{text!r} is not a period, such as 1 day or 15 min")
        count, word = int(match[1]), match[2] or "minute"
        if word in _MONTHS:
            return cls(count * _MONTHS[word], Unit.MONTH)
        if word not in _MINUTES:
            units = "use min, hours, days, weeks, months or years"
            raise ValueError(f"{text!r} is not a period: unknown unit {match[2]!r}; {units}")
        minutes = count * _MINUTES[word]
        if minutes and minutes % 1440 == 0:
            return cls(minutes // 1440, Unit.DAY)
        return cls(minutes, Unit.MINUTE)

    @property
    def minutes(self) -> int:
        """Nominal minutes, as in `job_log.job_period`; a month counts as 30 days."""
        scale = {Unit.MINUTE: 1, Unit.DAY: 1440, Unit.MONTH: _NOMINAL_MONTH}
        return self.count * scale[self.unit]

    def __str__(self) -> str:
        for unit, size in (("year", 12), ("month", 1)) if self.unit is Unit.MONTH else ():
            if self.count % size == 0:
                return _format_count(self.count // size, unit)
        for unit, size in (("week", 10080), ("day", 1440), ("hour", 60)):
            if self.minutes % size == 0:
                return _format_count(self.minutes // size, unit)
        return _format_count(self.minutes, "minute")


def _format_count(count: int, unit: str) -> str:
    return f"{count} {unit}" + ("s" if count != 1 else "")


@dataclass(frozen=True, slots=True)
class Grid:
    """The windows of a period, counted from an origin: window `n` is `[bound(n), bound(n+1))`.

    This is the only place for wall-clock arithmetic: arguments and results are instants. `origin`
    is given on the wall clock that the grid follows, as a table's `default_start` is.
    """

    origin: datetime
    """The instant at which window 0 begins."""
    period: Period
    end: datetime | None = None
    """End of the table's last window; the grid itself continues beyond it."""
    clock: datetime = field(init=False)
    """The origin as naive wall-clock time; days are counted from it, even if the clocks skip it."""
    zone: ZoneInfo = field(init=False)
    """Time zone whose wall clock the grid follows."""
    origin_seconds: float = field(init=False, repr=False, compare=False)
    """The origin in seconds of the epoch."""
    skipped: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Positions, in days after the origin, of days that the zone's calendar skips."""

    def __post_init__(self) -> None:
        zone, origin = self.origin.tzinfo, normalize_instant(self.origin)
        if not isinstance(zone, ZoneInfo):
            raise ValueError(
                f"a grid follows the wall clock of a time zone, but {self.origin} has no time zone"
            )
        values: dict[str, Any] = {"zone": zone, "clock": self.origin.replace(tzinfo=None, fold=0)}
        values |= {"origin": origin, "origin_seconds": origin.timestamp()}
        values["end"] = None if self.end is None else normalize_instant(self.end)
        daily = self.period == Period(1, Unit.DAY)
        first = values["clock"].date()
        values["skipped"] = (
            tuple((day - first).days for day in _find_skipped_days(zone)) if daily else ()
        )
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def get_bound(self, n: int) -> datetime:
        """Return the start of window `n`, which is the end of window `n − 1`."""
        if n == 0:
            return self.origin  # for a repeated time, the origin may be the second one
        count = n * self.period.count
        if self.period.unit is Unit.MINUTE:
            return convert_to_instant(self.origin_seconds + 60 * count)
        if self.period.unit is Unit.DAY:
            return self._convert_to_instant(self.clock + timedelta(days=self._count_days(count)))
        years, month = divmod(self.clock.month - 1 + count, 12)
        return self._convert_to_instant(
            self.clock.replace(year=self.clock.year + years, month=month + 1)
        )

    def _convert_to_instant(self, clock: datetime) -> datetime:
        """Convert wall-clock time. A skipped time moves by the gap; a repeated one is the first."""
        return clock.replace(tzinfo=self.zone).astimezone(timezone.utc)

    def _count_days(self, count: int) -> int:
        """Return the calendar days for `count` windows of one day; skipped days have none."""
        for skipped in self.skipped:
            if skipped >= 0 and count >= max(skipped, 1):
                count += 1
        for skipped in reversed(self.skipped):
            if count <= skipped < 0:
                count -= 1
        return count

    def window(self, n: int) -> TimeWindow:
        """Return window `n`; negative numbers lie before the origin."""
        return TimeWindow(self.get_bound(n), self.get_bound(n + 1), zone=self.zone)

    def index(self, instant: datetime) -> int:
        """Return the number of the window that contains an instant, negative before the origin."""
        instant = normalize_instant(instant)
        n = self._estimate(instant)
        if self.period.unit is Unit.MINUTE:
            return n  # elapsed time; only wall-clock days vary in length
        while self.get_bound(n) > instant:
            n -= 1
        while self.get_bound(n + 1) <= instant:
            n += 1
        return n

    def _estimate(self, instant: datetime) -> int:
        if self.period.unit is Unit.MINUTE:
            return int((instant.timestamp() - self.origin_seconds) // (60 * self.period.count))
        clock = instant.astimezone(self.zone)
        if self.period.unit is Unit.DAY:
            return (clock.date() - self.clock.date()).days // self.period.count
        months = 12 * (clock.year - self.clock.year) + clock.month - self.clock.month
        return months // self.period.count

    def holds(self, window: TimeWindow) -> bool:
        """Return True if the window is one of the grid; those of an earlier period may not be."""
        return self.window(self.index(window.start)) == window

    def covering(self, window: TimeWindow) -> TimeWindow:
        """Return the smallest range of whole grid windows that contains `window`."""
        first, last = self.index(window.start), self.index(window.end)
        end = self.get_bound(last)
        if end < window.end:
            end = self.get_bound(last + 1)
        return TimeWindow(self.get_bound(first), end, zone=self.zone)


@cache
def _find_skipped_days(zone: ZoneInfo) -> tuple[date, ...]:
    """Return the days that a zone's calendar skips, such as December 30, 2011, in Apia."""
    halves = [datetime(year, month, 1, 12) for year in range(1800, 2101) for month in (1, 7)]
    offsets = [(noon, noon.replace(tzinfo=zone).utcoffset() or timedelta(0)) for noon in halves]
    return tuple(
        noon.date()
        for (first, before), (last, after) in pairwise(offsets)
        if after - before >= _HALF_A_DAY
        for noon in (first + timedelta(days=n) for n in range((last - first).days))
        if convert_to_zone(noon.replace(tzinfo=zone).timestamp(), zone).replace(tzinfo=None) != noon
    )
