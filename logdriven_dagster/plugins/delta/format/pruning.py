"""Selection of the files of a Delta table that can contain a window's rows, by their statistics.

Other engines truncate timestamps in statistics to milliseconds, which is finer than any bound of a
window.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from logdriven_dagster.config.models.types.time_columns import TimeColumn
from logdriven_dagster.engine.queries.instants import lies_within
from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.plugins.delta.format.tables import DataFile, Snapshot

_WHOLE_NUMBERS = ("byte", "short", "integer", "long")
_OF_TIME = ("timestamp", "timestamp_ntz", "date")


class Selection:
    """The rows of a table whose column lies in one of several windows."""

    def __init__(self, snapshot: Snapshot, column: str, windows: Sequence[TimeWindow]) -> None:
        self._snapshot, self.column, self._windows = snapshot, column, windows
        self._ranges = [_range(snapshot, column, each) for each in windows]

    @property
    def condition(self) -> str:
        """SQL condition that is true for these rows only."""
        return " OR ".join(f"({lies_within(quote_name(self.column), w)})" for w in self._windows)

    def possible(self) -> list[DataFile]:
        """Return the files that may contain such a row."""
        return files_within(self._snapshot, self.column, self._ranges)

    def unknown(self, files: Sequence[DataFile]) -> list[DataFile]:
        """Return the files whose statistics in the log lack the column's bounds."""
        bounds = self._snapshot.bounds(self.column)
        return [file for file in files if None in bounds[file.number]]

    def holds_all_of(self, files: Sequence[DataFile]) -> bool:
        """Return whether, by statistics, every row of the files is such a row."""
        by_clock = _kind(self._snapshot, self.column) == "timestamp_ntz"
        if by_clock and any(map(_clocks_change, self._windows)):
            return not files
        bounds, nulls = self._snapshot.bounds(self.column), self._snapshot.nulls(self.column)
        return all(
            None not in bounds[file.number]
            and nulls[file.number] == 0
            and self._hold(*bounds[file.number])
            for file in files
        )

    def _hold(self, least: Any, most: Any) -> bool:
        return any(low <= least and most < end for low, end in self._ranges)


def files_within(
    snapshot: Snapshot, column: str, ranges: Sequence[tuple[Any, Any]]
) -> list[DataFile]:
    """Return the files that may contain a value of the column in one of the ranges `[low, end)`."""
    bounds, nulls = snapshot.bounds(column), snapshot.nulls(column)
    return [
        file
        for file, (least, most), count in zip(snapshot.files, bounds, nulls, strict=True)
        if (file.rows is None or count != file.rows)
        and any(
            (most is None or most >= low) and (least is None or least < end) for low, end in ranges
        )
    ]


def files_meeting(snapshot: Snapshot, column: str, meets: Callable[[Any, Any], bool]) -> set[int]:
    """Return the numbers of the files whose bounds of a column fulfil a condition.

    `meets` takes the lower and the upper bound; None is an unknown one.
    """
    bounds = snapshot.bounds(column)
    return {file.number for file in snapshot.files if meets(*bounds[file.number])}


def files_before(snapshot: Snapshot, column: str, time: datetime) -> set[int]:
    """Return the numbers of the files whose values of a column are all known and before a time.

    None are found for a column of another type than TIMESTAMP.
    """
    if _kind(snapshot, column) != "timestamp":
        return set()
    bounds, nulls = snapshot.bounds(column), snapshot.nulls(column)
    return {
        file.number
        for file, (_, most), count in zip(snapshot.files, bounds, nulls, strict=True)
        if count == 0 and most is not None and most < time
    }


def holds_times(snapshot: Snapshot, column: str) -> bool:
    """Return whether the values of a column can be compared with the bounds of windows."""
    return _kind(snapshot, column) in _OF_TIME


def range_of_values(
    snapshot: Snapshot, column: str, values: TimeColumn, window: TimeWindow
) -> tuple[Any, Any] | None:
    """Return a window's bounds as values of an integer or text column; None for other types.

    `values` is the configured format of the column. Statistics of other numeric types cannot be
    compared with a bound.
    """
    kind = _kind(snapshot, column)
    if kind not in (*_WHOLE_NUMBERS, "string"):
        return None
    return values.range_of(window, as_text=kind == "string")


def _range(snapshot: Snapshot, column: str, window: TimeWindow) -> tuple[Any, Any]:
    """Return a window's bounds as values of the column's type.

    A day counts as its first instant, so a bound within a day is that of the next day. Raises
    TerminalStepError if the column is neither a timestamp nor a date.
    """
    match _kind(snapshot, column):
        case "timestamp":
            return window.start, window.end
        case "timestamp_ntz":
            start = window.start_clock.replace(tzinfo=None)
            # Longer than the wall clock shows if clocks go back within the window.
            lasts = timedelta(seconds=window.span[1] - window.span[0])
            return start, max(window.end_clock.replace(tzinfo=None), start + lasts)
        case "date":
            return _first_day(window.start_clock), _first_day(window.end_clock)
        case other:
            raise TerminalStepError(
                f"window_column {column} is {other}; it must be a timestamp or a date"
            )


def _kind(snapshot: Snapshot, column: str) -> Any:
    return next(field["type"] for field in snapshot.fields if field["name"] == column)


def _first_day(instant: datetime) -> date:
    midnight = instant.replace(hour=0, minute=0, second=0, microsecond=0)
    return instant.date() + timedelta(days=instant != midnight)


def _clocks_change(window: TimeWindow) -> bool:
    return window.start_clock.utcoffset() != window.end_clock.utcoffset()
