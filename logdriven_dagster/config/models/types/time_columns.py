"""Source columns that store times as numbers or as plain text."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Annotated, Any, Final, Literal, TypeAlias
from zoneinfo import ZoneInfo

from pydantic import Discriminator, Field, Tag, model_validator

from logdriven_dagster.config.models.frozen import Model
from logdriven_dagster.model.periods import Grid, Unit
from logdriven_dagster.model.windows import TimeWindow, find_wall_bound

PER_SECOND: Final[Mapping[str, int]] = {
    "epoch_s": 1,
    "epoch_ms": 1_000,
    "epoch_us": 1_000_000,
    "epoch_ns": 1_000_000_000,
}
"""Number of each unit per second."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_SECOND = timedelta(seconds=1)
_FIRST_SECOND, _END_SECOND = -62_135_596_800, 253_402_300_800
"""Years 1 to 9999 in seconds of the epoch."""

_SEPARATOR = "[-/._: ]|'T'|"
_PARTS = (
    ("yyyy", 4, "%Y"),
    ("MM", 2, "%m"),
    ("dd", 2, "%d"),
    ("HH", 2, "%H"),
    ("mm", 2, "%M"),
    ("ss", 2, "%S"),
    ("S{1,6}", 0, "%f"),
)
"""Pattern, number of digits and `strftime` directive of each part, from the year on."""
_YEAR, _MONTH, _DAY, _HOUR, _MINUTE = range(1, 6)
_WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint", "byte", "short", "integer", "long")
_NUMBERS = (*_WHOLE_NUMBERS, "double", "decimal")


class TimeColumn(Model):
    """The `window_column` of a source whose values are numbers or texts that represent times."""

    name: str = Field(description="the column", examples=["ts"])
    unit: Literal["epoch_s", "epoch_ms", "epoch_us", "epoch_ns"] | None = Field(
        None,
        description="for numbers: seconds, milli-, micro- or nanoseconds since 1970 in UTC",
        examples=["epoch_ms"],
    )
    format: str | None = Field(
        None,
        description="for texts, and for numbers such as 20220131: times in the project's zone, "
        "beginning with the year, each part with leading zeros: `yyyy`, `MM`, "
        "`dd`, `HH`, `mm`, `ss` and fractions `S`, with or without one of `-/._: ` "
        "or `'T'` between them",
        examples=["yyyyMMdd"],
    )

    @model_validator(mode="after")
    def _check_one_meaning(self) -> "TimeColumn":
        if (self.unit is None) == (self.format is None):
            raise ValueError(
                "give either unit or format; for timestamps and dates, write only the name"
            )
        if self.format is not None and not _parse_parts(self.format):
            raise ValueError(
                f"format: {self.format} does not sort by time, or has other parts than "
                "yyyy, MM, dd, HH, mm, ss and S, in this order from the year on; convert "
                "it to a timestamp first, in a view of the database or in an upstream table"
            )
        return self

    @property
    def shown(self) -> str:
        """The unit or the format, for messages."""
        return f"unit: {self.unit}" if self.unit else f"format: {self.format}"

    @cached_property
    def parts(self) -> "Parts":
        """The parts of the format, each with its preceding separator; empty with a unit."""
        return _parse_parts(self.format) if self.format else ()

    @property
    def width(self) -> int:
        """The number of characters of each value of the format."""
        return sum(len(between) + digits for between, digits in self.parts)

    def format_bound(self, instant: datetime, zone: ZoneInfo, *, as_text: bool) -> int | str:
        """Return the least value that represents this instant or a later one.

        `zone` is that of the wall clock that a format shows, and `as_text` selects text over
        numbers. A window holds the values in `[bound(start), bound(end))`, without gaps between
        adjoining windows.
        """
        if self.unit is not None:
            passed, one = instant - _EPOCH, timedelta(microseconds=1)
            return -((-(passed // one) * PER_SECOND[self.unit]) // (_SECOND // one))
        clock = _find_ceiling(find_wall_bound(instant.astimezone(zone)), len(self.parts))
        texts = [clock.strftime(name).zfill(digits) for _, digits, name in _PARTS]
        found = "".join(
            f"{between}{text[:digits]}"
            for (between, digits), text in zip(self.parts, texts, strict=False)
        )
        return found if as_text else int(found)

    def find_second(self, value: int | str, zone: ZoneInfo) -> int:
        """Return the second, since 1970, of the time that a value represents.

        It is the inverse of `format_bound`. Of two equal local times it is the first one.
        """
        if self.unit is not None:
            return int(value) // PER_SECOND[self.unit]
        text, at, numbers = str(value).zfill(self.width), 0, list[int]()
        for between, digits in self.parts:
            at += len(between)
            numbers.append(int(text[at : at + digits]))
            at += digits
        year, month, day = [*numbers[:_DAY], 1, 1][:_DAY]
        hour, minute, second = [*numbers[_DAY : _MINUTE + 1], 0, 0, 0][:_DAY]
        return int(datetime(year, month, day, hour, minute, second, tzinfo=zone).timestamp())

    def range_of(self, window: TimeWindow, *, as_text: bool) -> tuple[Any, Any]:
        """Return the bounds `[first, end)` of a window as values of the column."""
        bounds = (window.start, window.end)
        first, end = (self.format_bound(each, window.zone, as_text=as_text) for each in bounds)
        return first, end

    @property
    def span(self) -> tuple[int, int]:
        """The numbers of a unit that lie in the years 1 to 9999, as `[first, end)`."""
        per_second = PER_SECOND[str(self.unit)]
        return _FIRST_SECOND * per_second, _END_SECOND * per_second

    @property
    def has_hours(self) -> bool:
        """True if values of the format contain a time of day."""
        return len(self.parts) >= _HOUR

    def refusal(self, kind: str) -> str | None:
        """Return why a column of this Spark type cannot be the window column, or None."""
        head = kind.partition("(")[0].lower()
        has_separators = any(between for between, _ in self.parts)
        if head in _NUMBERS and not has_separators:
            return None
        if self.format is not None and head in ("string", "varchar", "char"):
            return None
        wanted = "numbers" if self.unit else "texts" if has_separators else "numbers and texts"
        how = f"{self.shown} is only for {wanted}"
        if head in ("timestamp", "timestamp_ntz", "timestamp_ltz", "timestamptz", "date"):
            return f"window_column {self.name} is {kind}; {how}: write window_column: {self.name}"
        if head in ("string", "varchar", "char"):
            how += ": read the column as BIGINT, or give the format of its texts"
        return f"window_column {self.name} is {kind}; {how}"

    def coarseness(self, grid: Grid) -> str | None:
        """Return the reason why the format is too coarse for the windows of a grid, or None."""
        if self.unit is not None:
            return None
        unit, count, clock = grid.period.unit, grid.period.count, grid.clock
        depth, smallest = len(self.parts), _MINUTE
        if unit is Unit.MONTH:
            smallest = _YEAR if count % 12 == 0 and clock.month == 1 else _MONTH
            smallest = smallest if clock.day == 1 else _DAY
        elif unit is Unit.DAY:
            smallest = _DAY
        elif count % 60 == 0:
            smallest = _HOUR
        needed = [clock.hour, clock.minute]
        if any(needed):
            smallest = max(smallest, _MINUTE if clock.minute else _HOUR)
        if clock.second:
            smallest = _MINUTE + 1
        if depth >= smallest:
            return None
        last = ("years", "months", "days", "hours", "minutes", "seconds")
        return (
            f"values of {self.format} show {last[depth - 1]}, but windows begin at "
            f"{last[smallest - 1]}: period {grid.period} from {clock}; make the period longer, or "
            "name a column with finer times"
        )


Parts: TypeAlias = tuple[tuple[str, int], ...]
"""Separator before each part of a format, and the number of its digits."""


def _get_form(value: object) -> str:
    """Return the union member of a value, so that mistakes in it are reported for this form."""
    return "TimeColumn" if isinstance(value, (dict, TimeColumn)) else "str"


WindowColumn: TypeAlias = Annotated[
    Annotated[str, Tag("str")] | Annotated[TimeColumn, Tag("TimeColumn")], Discriminator(_get_form)
]
"""Column that assigns rows to windows; a plain name means a timestamp or date column."""


def find_second(column: WindowColumn | None, position: int | str, zone: ZoneInfo) -> int:
    """Return the second, since 1970, of a position among the values of a window column.

    Positions of timestamps and dates, and without a column, are microseconds since 1970; others are
    values.
    """
    if isinstance(column, TimeColumn):
        return column.find_second(position, zone)
    return int(position) // (_SECOND // timedelta(microseconds=1))


def get_column_name(column: WindowColumn | None) -> str | None:
    """Return the name of a window column."""
    return column.name if isinstance(column, TimeColumn) else column


def explain_not_a_time(name: str, kind: str) -> str | None:
    """Return problem and fix if a column of this Spark type does not represent a time, or None."""
    head = kind.partition("(")[0].partition("<")[0].lower()
    if head.startswith(("timestamp", "date", "string", "varchar", "char", "void", "datetime")):
        return None
    problem = f"window_column {name} is {kind}, which is not a time"
    if head not in _NUMBERS:
        return f"{problem}; it must be a timestamp, a date, or a number or text for a time"
    return (
        f"{problem}; write window_column: {{name: {name}, unit: epoch_s}} (or epoch_ms, epoch_us, "
        f"epoch_ns), or {{name: {name}, format: yyyyMMdd}} for numbers such as 20220131"
    )


def _parse_parts(text: str) -> Parts:
    """Parse a format into its parts; empty if its values do not sort chronologically."""
    found: list[tuple[str, int]] = []
    for pattern, _, _ in _PARTS:
        between = _SEPARATOR if found else ""
        match: re.Match[str] | Any = re.match(f"({between})({pattern})", text)
        if match is None:
            break
        found.append((match[1].strip("'"), len(match[2])))
        text = text[match.end() :]
    return () if text else tuple(found)


def _find_ceiling(clock: datetime, parts: int) -> datetime:
    """Return the first time, from `clock` on, that a format with so many parts can represent."""
    cut = {_YEAR: ("month", "day"), _MONTH: ("day",)}.get(parts, ())
    small = ("hour", "minute", "second", "microsecond")[max(parts - _DAY, 0) :]
    floor = clock.replace(**dict.fromkeys(cut, 1), **dict.fromkeys(small, 0))  # type: ignore[arg-type]
    if floor == clock:
        return clock
    if parts == _YEAR:
        return floor.replace(year=floor.year + 1)
    if parts == _MONTH:
        return (floor + timedelta(days=31)).replace(day=1)
    step = {_DAY: "days", _HOUR: "hours", _MINUTE: "minutes"}.get(parts, "seconds")
    return floor + timedelta(**{step: 1})
