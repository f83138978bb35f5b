"""Windows: ranges of data time, keys, offsets or batches, and their text in the run log.

All code except the edges works with instants: datetimes in UTC. Python compares two datetimes of
one zone by wall clock, so that the two repeated hours of an autumn night would be equal. Time zones
are used only to divide grids (`model.periods`) and to print. `convert_to_zone` and `on_clock` are
the edge.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import TypeAlias
from zoneinfo import ZoneInfo

_OF_START = ZoneInfo.no_cache("UTC")
"""Placeholder for a zone that is not given."""
_UTC = ZoneInfo("UTC")


@dataclass(frozen=True, slots=True, order=True)
class TimeWindow:
    """The data range `[start, end)` of one attempt: two instants, and the zone that prints them.

    Bounds in another zone become instants. The default of `zone` is that of `start`; the package
    itself always passes it (a test enforces this). Raises ValueError for naive or empty bounds.
    """

    start: datetime
    end: datetime
    zone: ZoneInfo = field(default=_OF_START, repr=False, compare=False, kw_only=True)
    """Time zone of the window's texts; ignored when windows are compared."""
    span: tuple[float, float] = field(init=False, repr=False, compare=False)
    """The bounds in seconds of the epoch, for fast comparison with thousands of windows."""

    def __post_init__(self) -> None:
        start, end = self.start, self.end
        if start.tzinfo is None or end.tzinfo is None:
            raise ValueError(f"the bounds of a window must have a time zone: {start} – {end}")
        span = (start.timestamp(), end.timestamp())
        if span[0] >= span[1]:
            raise ValueError(f"a window must not be empty: {start} – {end}")
        if self.zone is _OF_START:
            zone = start.tzinfo if isinstance(start.tzinfo, ZoneInfo) else _UTC
            object.__setattr__(self, "zone", zone)
        if start.tzinfo is not timezone.utc or end.tzinfo is not timezone.utc:
            object.__setattr__(self, "start", normalize_instant(start))
            object.__setattr__(self, "end", normalize_instant(end))
        object.__setattr__(self, "span", span)

    @classmethod
    def from_seconds(cls, start: float, end: float, zone: ZoneInfo) -> "TimeWindow":
        """Return the range between two instants in seconds of the epoch."""
        return TimeWindow(convert_to_instant(start), convert_to_instant(end), zone=zone)

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
        """The start as wall-clock text, also of key ranges; identifies windows in targets."""
        return format_range_text(self.start_clock)

    @property
    def end_text(self) -> str:
        """The end as wall-clock text, also of key, offset and batch ranges."""
        return format_range_text(self.end_clock)

    @property
    def exact_start_text(self) -> str:
        """The start as text with its offset, which identifies one instant in every zone."""
        return f"{self.start_clock:%Y%m%d%H%M%S%z}"

    @property
    def exact_end_text(self) -> str:
        """The end as text with its offset, which identifies one instant in every zone."""
        return f"{self.end_clock:%Y%m%d%H%M%S%z}"

    @property
    def range_start(self) -> str:
        """The start of the window, as in `job_log.data_range_start`."""
        return self.start_text

    @property
    def range_end(self) -> str | None:
        """The end of the window, as in `job_log.data_range_end`; None while unknown."""
        return self.end_text

    @property
    def is_empty(self) -> bool:
        """True if there was no new data to read; always False for time windows."""
        return False

    @property
    def key(self) -> str:
        """Identifier of the window within its table."""
        return self.start_text

    @property
    def bounds(self) -> "tuple[datetime | str, datetime | str | None]":
        """The start and end, for output."""
        return self.start_clock, self.end_clock

    def up_to_end_of(self, other: "TimeWindow") -> "TimeWindow":
        """Return the range from the start of this one to the end of `other`."""
        return TimeWindow(self.start, other.end, zone=self.zone)

    def overlaps(self, other: "TimeWindow") -> bool:
        """Return True if the two ranges share an instant."""
        (start, end), (low, high) = self.span, other.span
        return start < high and low < end

    def contains(self, other: "TimeWindow") -> bool:
        """Return True if `other` lies within this range, bounds included."""
        (start, end), (low, high) = self.span, other.span
        return start <= low and high <= end

    def __str__(self) -> str:
        return f"[{format_brief(self.start_clock)}, {format_brief(self.end_clock)})"


Reads: TypeAlias = tuple[TimeWindow, ...] | None
"""Ranges of an upstream table's windows, possibly empty; None for all of its rows."""


class Along(Enum):
    """Dimension of ranges without data time: keys, offsets or batches."""

    KEYS = "keys"
    """After `low`, up to and including `high`: whole numbers of any length."""
    OFFSETS = "offsets"
    """From `low` up to `high`: offsets of partitions as JSON."""
    BATCHES = "batches"
    """From batch `low` to batch `high`, both included; both are empty without a batch."""


ALONG: Mapping[str, Along] = {
    "auto_inc_id": Along.KEYS,
    "kafka_offset": Along.OFFSETS,
    "files": Along.BATCHES,
    "upstream": Along.BATCHES,
}
"""Dimension of the windows of each sliced incremental type, by its name in `job_log`."""


_FIRST = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True, order=True)
class Slice(TimeWindow):
    """The n-th range of a source that is read along keys, offsets or batches instead of time.

    Ranges of a table are consecutive. On the time axis, number n is the n-th second of 1970, so
    that leases, targets and upserts order them like time windows.
    """

    low: str
    """Lower bound; see `along`."""
    high: str | None
    """Upper bound; None until the attempt has determined the end of the source."""
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
        """Return the range with this number, counted from 0.

        `low` and `high` are its bounds along `along`; `high` is None while unknown. `zone` is that
        of the window's texts.
        """
        return cls(
            convert_to_instant(number), convert_to_instant(number + 1), low, high, along, zone=zone
        )

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
        """Return the range with its upper bound; `low` replaces a keyword as lower bound."""
        return replace(self, high=high, low=self.low if low is None else low)

    def __str__(self) -> str:
        if self.along is Along.KEYS:
            return f"({self.low}, {self.high or '…'}]"
        if self.along is Along.BATCHES and self.high:
            return f"#{self.number}, batches {self.low} – {self.high}"
        return f"#{self.number}"  # offsets of many partitions are too long for a line


def format_brief(clock: datetime) -> str:
    """Format wall-clock time for people; with its offset if the clock shows that time twice."""
    if clock.hour == clock.minute == clock.second == 0:
        text = f"{clock:%Y-%m-%d}"
    else:
        text = f"{clock:%Y-%m-%d %H:%M:%S}" if clock.second else f"{clock:%Y-%m-%d %H:%M}"
    if not is_repeated(clock):
        return text
    return f"{clock.isoformat(sep=' ', timespec='seconds' if clock.second else 'minutes')}"


def refresh_command(table: str, span: TimeWindow) -> str:
    """Return the command that reruns the windows of a range, in backticks."""
    start, end = (format_brief(at).replace(" ", "T") for at in (span.start_clock, span.end_clock))
    return f"`logdriven refresh {table} --from {start} --to {end}`"


def format_range_text(clock: datetime) -> str:
    """Format a bound as in `job_log.data_range_*`: `yyyyMMddHHmmss` on the project's wall clock.

    When clocks are set back, an hour repeats; the second one carries its UTC offset
    (`20261025020000+0100`), so that a text always identifies one instant. Source: Sharp ETL,
    `data_range_start`.
    """
    text = f"{clock:%Y%m%d%H%M%S}"
    if clock.fold and is_repeated(clock):
        text += f"{clock:%z}"
    return text


def parse_range_text(text: str, zone: ZoneInfo) -> datetime:
    """Parse text written by `format_range_text`. Raises ValueError for anything else."""
    if len(text) > 14:
        return normalize_instant(datetime.strptime(text, "%Y%m%d%H%M%S%z"))
    return normalize_instant(datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=zone))


def convert_to_instant(epoch_seconds: float) -> datetime:
    """Return the datetime in UTC for seconds of the epoch."""
    return datetime.fromtimestamp(epoch_seconds, tz=timezone.utc)


def normalize_instant(instant: datetime) -> datetime:
    """Convert an aware datetime to UTC. Raises ValueError for a naive one."""
    if instant.tzinfo is timezone.utc:
        return instant
    if instant.tzinfo is None:
        raise ValueError(f"{instant} has no time zone, so it is not an instant")
    return instant.astimezone(timezone.utc)


def is_repeated(clock: datetime) -> bool:
    """Return True if the wall clock shows this time twice, because it is set back."""
    first, second = (clock.replace(fold=fold).utcoffset() for fold in (0, 1))
    return first is not None and second is not None and first > second


def find_wall_bound(instant: datetime) -> datetime:
    """Return the least naive wall-clock time that represents this instant or a later one."""
    first = instant.replace(fold=0)
    if instant.utcoffset() == first.utcoffset() or not is_repeated(instant):
        return instant.replace(tzinfo=None, fold=0)
    before, after = first.astimezone(timezone.utc), instant.astimezone(timezone.utc)
    while after - before > timedelta(seconds=1):
        middle = (before + (after - before) / 2).replace(microsecond=0)
        is_before = middle.astimezone(instant.tzinfo).utcoffset() == first.utcoffset()
        before, after = (middle, after) if is_before else (before, middle)
    offset = first.utcoffset()
    assert offset is not None
    return (after + offset).replace(tzinfo=None)


def convert_to_zone(epoch_seconds: float, zone: ZoneInfo) -> datetime:
    """Return the instant on the wall clock of `zone`: for texts and user input."""
    return convert_to_instant(epoch_seconds).astimezone(zone)


def on_clock(instant: datetime, zone: ZoneInfo) -> datetime:
    """Return a time on the wall clock of `zone`; one without an offset is a time of that clock.

    A skipped time moves forward by the gap; for a repeated time, `fold` selects which one.
    """
    return convert_to_zone(instant.replace(tzinfo=instant.tzinfo or zone).timestamp(), zone)
