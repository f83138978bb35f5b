"""Periods and the grid of windows they cut a timeline into."""

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from zoneinfo import ZoneInfo

from logdriven_dagster.model.windows import TimeWindow, in_zone, on_clock


class Unit(Enum):
    """What a period counts, which decides how it meets daylight saving."""

    MINUTE = "minute"
    """Elapsed time: an hour is 60 minutes, also when the clocks change."""
    DAY = "day"
    """Wall-clock days: a day runs from midnight to midnight, 23 or 25 hours if need be."""
    MONTH = "month"
    """Calendar months."""


_MINUTES = {"minute": 1, "min": 1, "m": 1, "hour": 60, "h": 60, "day": 1440, "d": 1440}
_MINUTES |= {"week": 10080, "w": 10080}
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "y": 12}
_NOMINAL_MONTH = 43_200


@dataclass(frozen=True, slots=True)
class Period:
    """How much data time one window covers; calendar units follow the wall clock.

    Source: Sharp ETL's `period` in minutes; weeks, months and years are ours.
    """

    count: int
    unit: Unit

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError("a period is at least one minute")

    @classmethod
    def parse(cls, text: int | str) -> "Period":
        """`1440`, `"15 min"`, `"1 day"`, `"2 weeks"`, `"1 month"`, `"1 year"`; else ValueError."""
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
        """Nominal minutes, as `job_log.job_period` holds them; a month counts as 30 days."""
        scale = {Unit.MINUTE: 1, Unit.DAY: 1440, Unit.MONTH: _NOMINAL_MONTH}
        return self.count * scale[self.unit]

    def __str__(self) -> str:
        for unit, size in (("year", 12), ("month", 1)) if self.unit is Unit.MONTH else ():
            if self.count % size == 0:
                return _counted(self.count // size, unit)
        for unit, size in (("week", 10080), ("day", 1440), ("hour", 60)):
            if self.minutes % size == 0:
                return _counted(self.minutes // size, unit)
        return _counted(self.minutes, "minute")


def _counted(count: int, unit: str) -> str:
    return f"{count} {unit}" + ("s" if count != 1 else "")


@dataclass(frozen=True, slots=True)
class Grid:
    """The windows of a period, counted from an origin: window `n` is `[bound(n), bound(n+1))`."""

    origin: datetime
    period: Period
    end: datetime | None = None
    """No window of the table ends later; arithmetic goes on all the same."""
    origin_seconds: float = field(init=False, repr=False, compare=False)
    """The origin in seconds of the epoch, which are dear to ask a time with a zone for."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "origin_seconds", self.origin.timestamp())

    @property
    def zone(self) -> ZoneInfo:
        """The zone whose wall clock the grid follows."""
        assert isinstance(self.origin.tzinfo, ZoneInfo)
        return self.origin.tzinfo

    def bound(self, n: int) -> datetime:
        """The start of window `n`, which is the end of window `n − 1`."""
        count = n * self.period.count
        if self.period.unit is Unit.MINUTE:
            return in_zone(self.origin_seconds + 60 * count, self.zone)
        clock = self.origin.replace(tzinfo=None)
        if self.period.unit is Unit.DAY:
            return on_clock(clock + timedelta(days=count), self.zone)
        years, month = divmod(clock.month - 1 + count, 12)
        return on_clock(clock.replace(year=clock.year + years, month=month + 1), self.zone)

    def window(self, n: int) -> TimeWindow:
        """Window `n`; negative numbers lie before the origin."""
        return TimeWindow(self.bound(n), self.bound(n + 1))

    def index(self, moment: datetime) -> int:
        """The number of the window that holds `moment`: floor((moment − origin) / period)."""
        n = self._estimate(moment)
        if self.period.unit is Unit.MINUTE:
            return n  # elapsed time; only a wall clock makes days longer or shorter
        while self.bound(n).timestamp() > moment.timestamp():
            n -= 1
        while self.bound(n + 1).timestamp() <= moment.timestamp():
            n += 1
        return n

    def _estimate(self, moment: datetime) -> int:
        if self.period.unit is Unit.MINUTE:
            return int((moment.timestamp() - self.origin_seconds) // (60 * self.period.count))
        clock = moment.astimezone(self.zone)
        if self.period.unit is Unit.DAY:
            return (clock.date() - self.origin.date()).days // self.period.count
        months = 12 * (clock.year - self.origin.year) + clock.month - self.origin.month
        return months // self.period.count

    def covering(self, window: TimeWindow) -> TimeWindow:
        """The smallest run of whole grid windows that holds `window`."""
        first, last = self.index(window.start), self.index(window.end)
        end = self.bound(last)
        if end.timestamp() < window.span[1]:
            end = self.bound(last + 1)
        return TimeWindow(self.bound(first), end)
