"""Windows of data time, and their text in the run log."""

from dataclasses import dataclass
from datetime import datetime, timezone
from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True, order=True)
class TimeWindow:
    """The data range `[start, end)` of one attempt; both ends are aware, in the project's zone."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError(f"a window needs aware bounds: {self.start} – {self.end}")
        if self.start.timestamp() >= self.end.timestamp():
            raise ValueError(f"a window must not be empty: {self.start} – {self.end}")

    def overlaps(self, other: "TimeWindow") -> bool:
        """Whether the two ranges share an instant."""
        return (
            self.start.timestamp() < other.end.timestamp()
            and other.start.timestamp() < self.end.timestamp()
        )

    def contains(self, other: "TimeWindow") -> bool:
        """Whether `other` lies within this range, bounds included."""
        return (
            self.start.timestamp() <= other.start.timestamp()
            and other.end.timestamp() <= self.end.timestamp()
        )

    def __str__(self) -> str:
        return f"[{_brief(self.start)}, {_brief(self.end)})"


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


def on_clock(naive: datetime, zone: ZoneInfo) -> datetime:
    """A wall-clock time as an instant; one that the clocks skip moves forward by the gap."""
    return in_zone(naive.replace(tzinfo=zone).timestamp(), zone)
