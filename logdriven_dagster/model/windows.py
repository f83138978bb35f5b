"""Windows: ranges of data time, and slices of sources that have none; their text in the run log."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import TypeAlias
from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True, order=True)
class TimeWindow:
    """The data range `[start, end)` of one attempt; both ends are aware, in the project's zone."""

    start: datetime
    end: datetime
    span: tuple[float, float] = field(init=False, repr=False, compare=False)
    """The bounds in seconds of the epoch: a window may be compared with thousands."""

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError(f"a window needs aware bounds: {self.start} – {self.end}")
        span = (self.start.timestamp(), self.end.timestamp())
        if span[0] >= span[1]:
            raise ValueError(f"a window must not be empty: {self.start} – {self.end}")
        object.__setattr__(self, "span", span)

    @property
    def range_start(self) -> str:
        """The start of the window as `job_log.data_range_start` holds it."""
        return range_text(self.start)

    @property
    def range_end(self) -> str | None:
        """`job_log.data_range_end`; None while nobody knows it."""
        return range_text(self.end)

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing new to read, which only slices can find."""
        return False

    @property
    def key(self) -> str:
        """What names the window among those of its table."""
        return range_text(self.start)

    @property
    def bounds(self) -> "tuple[datetime | str, datetime | str | None]":
        """What it covers, for people and programs that ask."""
        return self.start, self.end

    def overlaps(self, other: "TimeWindow") -> bool:
        """Whether the two ranges share an instant."""
        (start, end), (low, high) = self.span, other.span
        return start < high and low < end

    def contains(self, other: "TimeWindow") -> bool:
        """Whether `other` lies within this range, bounds included."""
        (start, end), (low, high) = self.span, other.span
        return start <= low and high <= end

    def __str__(self) -> str:
        return f"[{_brief(self.start)}, {_brief(self.end)})"


Reads: TypeAlias = tuple[TimeWindow, ...] | None
"""Ranges of the windows of an upstream table, none of which may be; None for all of its rows."""


class Along(Enum):
    """The thing along which slices are cut: keys, offsets or batches."""

    KEYS = "keys"
    """After `low`, up to and including `high`: whole numbers of any length."""
    OFFSETS = "offsets"
    """From `low` up to `high`: offsets of partitions as JSON."""
    BATCHES = "batches"
    """From batch `low` to batch `high`, both included; both are empty without a batch."""


_FIRST = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, order=True)
class Slice(TimeWindow):
    """The n-th part of a source that is read along keys, offsets or batches instead of time.

    Slices of a table follow each other. On the axis of all windows number n is the n-th second of
    1970, so that leases, targets and upserts order slices as they order windows of time.
    """

    low: str
    """Where it begins; see `along`."""
    high: str | None
    """Where it ends; None until its attempt has looked how far the source goes."""
    along: Along = field(default=Along.BATCHES, compare=False)

    @classmethod
    def nth(
        cls,
        number: int,
        low: str,
        high: str | None,
        zone: ZoneInfo,
        along: Along = Along.BATCHES,
    ) -> "Slice":
        """The slice of this number, from 0 on."""
        start, end = (in_zone(number + n, zone) for n in (0, 1))
        return cls(start, end, low, high, along)

    @property
    def number(self) -> int:
        return (self.start - _FIRST) // timedelta(seconds=1)

    @property
    def range_start(self) -> str:
        return self.low

    @property
    def range_end(self) -> str | None:
        return self.high

    @property
    def key(self) -> str:
        return self.low if self.along is Along.KEYS else str(self.number)

    @property
    def bounds(self) -> tuple[str, str | None]:
        return self.low, self.high

    @property
    def is_empty(self) -> bool:
        return self.high == ("" if self.along is Along.BATCHES else self.low)

    def up_to(self, high: str, low: str | None = None) -> "Slice":
        """The slice with its end, and where it really begins if that was only a word."""
        return replace(self, high=high, low=self.low if low is None else low)

    def __str__(self) -> str:
        if self.along is Along.KEYS:
            return f"({self.low}, {self.high or '…'}]"
        if self.along is Along.BATCHES and self.high:
            return f"#{self.number}, batches {self.low} – {self.high}"
        return f"#{self.number}"  # offsets of many partitions fill no line


def _brief(moment: datetime) -> str:
    if moment.hour == moment.minute == moment.second == 0:
        return f"{moment:%Y-%m-%d}"
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment.second else f"{moment:%Y-%m-%d %H:%M}"


def range_text(moment: datetime) -> str:
    """A bound as `job_log.data_range_*` holds it: `yyyyMMddHHmmss` of the project's wall clock.

    When clocks go back an hour exists twice; the second one carries its UTC offset
    (`20261025020000+0100`), so that a text always names one instant.
    Source: Sharp ETL, `data_range_start`.
    """
    text = f"{moment:%Y%m%d%H%M%S}"
    if moment.fold and moment.utcoffset() != moment.replace(fold=0).utcoffset():
        text += f"{moment:%z}"
    return text


def parse_range_text(text: str, zone: ZoneInfo) -> datetime:
    """The instant that `range_text` wrote; raises ValueError for anything else."""
    if len(text) > 14:
        return in_zone(datetime.strptime(text, "%Y%m%d%H%M%S%z").timestamp(), zone)
    return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=zone)


def in_zone(epoch_seconds: float, zone: ZoneInfo) -> datetime:
    """The instant on the wall clock of `zone`."""
    return datetime.fromtimestamp(epoch_seconds, tz=timezone.utc).astimezone(zone)


def on_clock(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return a moment on the wall clock of `zone`; one without an offset is a time of that clock.

    A time that the clocks skip moves forward by the gap.
    """
    return in_zone(moment.replace(tzinfo=moment.tzinfo or zone).timestamp(), zone)
