"""Windows: ranges of data time, and slices of sources that have none; their text in the run log.

Everything below the edge holds instants: datetimes in UTC. Two datetimes of one zone compare by
wall clock in Python, so the two hours of an autumn night would be equal. A zone cuts grids
(`model.periods`) and prints, nothing else. `in_zone` and `on_clock` are the edge.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import TypeAlias
from zoneinfo import ZoneInfo

_OF_START = ZoneInfo.no_cache("UTC")
"""Stands for a zone that is not given."""
_UTC = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True, order=True)
class TimeWindow:
    """The data range `[start, end)` of one attempt: two instants, and the zone that prints them.

    Bounds in another zone become instants. Without `zone` it is that of `start`; the package itself
    always names it (a test reads the code). ValueError for naive or empty bounds.
    """

    start: datetime
    end: datetime
    zone: ZoneInfo = field(default=_OF_START, repr=False, compare=False, kw_only=True)
    """The zone whose wall clock the texts of the window show; windows are equal without it."""
    span: tuple[float, float] = field(init=False, repr=False, compare=False)
    """The bounds in seconds of the epoch: a window may be compared with thousands."""

    def __post_init__(self) -> None:
        start, end = self.start, self.end
        if start.tzinfo is None or end.tzinfo is None:
            raise ValueError(f"a window needs aware bounds: {start} – {end}")
        span = (start.timestamp(), end.timestamp())
        if span[0] >= span[1]:
            raise ValueError(f"a window must not be empty: {start} – {end}")
        if self.zone is _OF_START:
            zone = start.tzinfo if isinstance(start.tzinfo, ZoneInfo) else _UTC
            object.__setattr__(self, "zone", zone)
        if start.tzinfo is not timezone.utc or end.tzinfo is not timezone.utc:
            object.__setattr__(self, "start", as_instant(start))
            object.__setattr__(self, "end", as_instant(end))
        object.__setattr__(self, "span", span)

    @classmethod
    def from_seconds(cls, start: float, end: float, zone: ZoneInfo) -> "TimeWindow":
        """The range between two instants in seconds of the epoch, as the run log holds them."""
        return TimeWindow(instant(start), instant(end), zone=zone)

    @property
    def start_clock(self) -> datetime:
        """The start on the wall clock of the window's zone, for texts and for SQL."""
        return self.start.astimezone(self.zone)

    @property
    def end_clock(self) -> datetime:
        """The end on the wall clock of the window's zone, for texts and for SQL."""
        return self.end.astimezone(self.zone)

    @property
    def start_text(self) -> str:
        """The start as a text of the wall clock, of slices as well; targets name windows by it."""
        return range_text(self.start_clock)

    @property
    def end_text(self) -> str:
        """The end as a text of the wall clock, of slices as well."""
        return range_text(self.end_clock)

    @property
    def exact_start_text(self) -> str:
        """The start as a text with its offset, which names one instant in every zone."""
        return f"{self.start_clock:%Y%m%d%H%M%S%z}"

    @property
    def exact_end_text(self) -> str:
        """The end as a text with its offset."""
        return f"{self.end_clock:%Y%m%d%H%M%S%z}"

    @property
    def range_start(self) -> str:
        """The start of the window as `job_log.data_range_start` holds it."""
        return self.start_text

    @property
    def range_end(self) -> str | None:
        """`job_log.data_range_end`; None while it is not known."""
        return self.end_text

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing new to read, which only slices can find."""
        return False

    @property
    def key(self) -> str:
        """What names the window among those of its table."""
        return self.start_text

    @property
    def bounds(self) -> "tuple[datetime | str, datetime | str | None]":
        """What it covers, for people and programs that ask."""
        return self.start_clock, self.end_clock

    def up_to_end_of(self, other: "TimeWindow") -> "TimeWindow":
        """The range from the start of this one to the end of `other`."""
        return TimeWindow(self.start, other.end, zone=self.zone)

    def overlaps(self, other: "TimeWindow") -> bool:
        """Whether the two ranges share an instant."""
        (start, end), (low, high) = self.span, other.span
        return start < high and low < end

    def contains(self, other: "TimeWindow") -> bool:
        """Whether `other` lies within this range, bounds included."""
        (start, end), (low, high) = self.span, other.span
        return start <= low and high <= end

    def __str__(self) -> str:
        return f"[{brief(self.start_clock)}, {brief(self.end_clock)})"


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
        return cls(instant(number), instant(number + 1), low, high, along, zone=zone)

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


def brief(clock: datetime) -> str:
    """A time of a wall clock for people; with its offset where that time comes twice."""
    if clock.hour == clock.minute == clock.second == 0:
        text = f"{clock:%Y-%m-%d}"
    else:
        text = f"{clock:%Y-%m-%d %H:%M:%S}" if clock.second else f"{clock:%Y-%m-%d %H:%M}"
    if not comes_twice(clock):
        return text
    return f"{clock.isoformat(sep=' ', timespec='seconds' if clock.second else 'minutes')}"


def refresh_command(table: str, span: TimeWindow) -> str:
    """Return the command that runs the windows of a range again, in backticks."""
    start, end = (brief(at).replace(" ", "T") for at in (span.start_clock, span.end_clock))
    return f"`logdriven refresh {table} --from {start} --to {end}`"


def range_text(clock: datetime) -> str:
    """A bound as `job_log.data_range_*` holds it: `yyyyMMddHHmmss` of the project's wall clock.

    When clocks go back an hour exists twice; the second one carries its UTC offset
    (`20261025020000+0100`), so that a text always names one instant.
    Source: Sharp ETL, `data_range_start`.
    """
    text = f"{clock:%Y%m%d%H%M%S}"
    if clock.fold and comes_twice(clock):
        text += f"{clock:%z}"
    return text


def parse_range_text(text: str, zone: ZoneInfo) -> datetime:
    """The instant that `range_text` wrote; raises ValueError for anything else."""
    if len(text) > 14:
        return as_instant(datetime.strptime(text, "%Y%m%d%H%M%S%z"))
    return as_instant(datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=zone))


def instant(epoch_seconds: float) -> datetime:
    """The datetime in UTC of so many seconds since 1970."""
    return datetime.fromtimestamp(epoch_seconds, tz=timezone.utc)


def as_instant(moment: datetime) -> datetime:
    """An aware datetime in UTC; ValueError for a naive one."""
    if moment.tzinfo is timezone.utc:
        return moment
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no zone, so it names no instant")
    return moment.astimezone(timezone.utc)


def comes_twice(clock: datetime) -> bool:
    """Whether the wall clock shows this time twice, since it is set back afterwards."""
    first, second = (clock.replace(fold=fold).utcoffset() for fold in (0, 1))
    return first is not None and second is not None and first > second


def wall_bound(moment: datetime) -> datetime:
    """Return the least wall time, without a zone, that means this moment or a later one."""
    first = moment.replace(fold=0)
    if moment.utcoffset() == first.utcoffset() or not comes_twice(moment):
        return moment.replace(tzinfo=None, fold=0)
    before, after = first.astimezone(timezone.utc), moment.astimezone(timezone.utc)
    while after - before > timedelta(seconds=1):
        middle = (before + (after - before) / 2).replace(microsecond=0)
        is_before = middle.astimezone(moment.tzinfo).utcoffset() == first.utcoffset()
        before, after = (middle, after) if is_before else (before, middle)
    offset = first.utcoffset()
    assert offset is not None
    return (after + offset).replace(tzinfo=None)


def in_zone(epoch_seconds: float, zone: ZoneInfo) -> datetime:
    """The instant on the wall clock of `zone`: for texts, and for what people wrote."""
    return instant(epoch_seconds).astimezone(zone)


def on_clock(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return a moment on the wall clock of `zone`; one without an offset is a time of that clock.

    A time that the clocks skip moves forward by the gap; of one that comes twice `fold` says which.
    """
    return in_zone(moment.replace(tzinfo=moment.tzinfo or zone).timestamp(), zone)
