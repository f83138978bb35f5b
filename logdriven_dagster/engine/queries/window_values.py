"""Values of a source's window column, and their windows.

Bounds of windows are converted to the column's own type, so that file statistics, database indexes
and partition folders prune the read; values are never converted for a comparison.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from logdriven_dagster.config.models.types.time_columns import (
    TimeColumn,
    WindowColumn,
    explain_not_a_time,
    get_column_name,
)
from logdriven_dagster.engine.queries.instants import instant_text, number_text
from logdriven_dagster.engine.queries.quoting import reference, text_literal
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_TEXTS = ("string", "varchar", "char")
_CLOCK = ("-", "-", " ", ":", ":", ".")
"""The separators between the parts of a time in Spark's SQL."""
_HOUR_PARTS = 4
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class WindowValues:
    """The values of one column, in Spark's SQL."""

    value: str
    """The column as it is read."""
    zone: ZoneInfo
    """The zone of values without a zone."""
    column: TimeColumn | None = None
    """The configured time column; None if Spark reads the values as timestamps, dates or texts."""
    kind: str = ""
    """Spark's type of a TimeColumn."""

    @property
    def placed(self) -> str:
        """SQL of the value, which is NULL if it is not a time."""
        return (
            self.value
            if self.column is None
            else f"CASE WHEN {self._is_time} THEN {self.value} END"
        )

    @property
    def position(self) -> str:
        """SQL of a number or text that orders times as windows do; NULL for other values.

        `find_position` returns that of an instant.
        """
        if self.column is not None:
            return self.placed
        return f"unix_micros(CAST({self.value} AS TIMESTAMP))"

    def format_bound(self, instant: datetime) -> str:
        """Return the smallest value at or after this instant, as a literal."""
        if self.column is None:
            return instant_text(instant)
        found = self.column.format_bound(instant, self.zone, as_text=self._is_text)
        return number_text(found) if isinstance(found, int) else text_literal(found)

    def lies_within(self, window: TimeWindow) -> str:
        """Return SQL that tests whether the value is a time in `[start, end)`.

        The comparisons are separate terms, so that they are pushed down to the source.
        """
        start, end = self.format_bound(window.start), self.format_bound(window.end)
        within = f"{self.value} >= {start} AND {self.value} < {end}"
        is_exact = self.column is None or self.column.unit is not None
        return within if is_exact else f"{within} AND {self._is_time}"

    def index(self, windows: Sequence[TimeWindow]) -> "Column":
        """Return the number, among adjoining windows, of the one that contains the value."""
        return sf.expr(self._search(windows, 0, len(windows)))

    def _search(self, windows: Sequence[TimeWindow], low: int, high: int) -> str:
        if high - low == 1:
            return str(low)
        middle = (low + high) // 2
        earlier = f"{self.value} < {self.format_bound(windows[middle].start)}"
        left, right = self._search(windows, low, middle), self._search(windows, middle, high)
        return f"CASE WHEN {earlier} THEN {left} ELSE {right} END"

    @property
    def _is_text(self) -> bool:
        return self.kind.startswith(_TEXTS)

    @property
    def _is_time(self) -> str:
        """Condition that a value of a TimeColumn is a time."""
        assert self.column is not None
        if self.column.unit is not None:
            first, end = map(number_text, self.column.span)
            return f"({self.value} >= {first} AND {self.value} < {end})"
        return self._is_shown(self.column)

    def _is_shown(self, column: TimeColumn) -> str:
        """Return the condition that a value has the column's format and its time exists."""
        text, conditions = self.value, []
        if not self._is_text:
            whole = f"try_cast({self.value} AS BIGINT)"
            conditions.append(f"{whole} = {self.value}")
            text = f"CAST({whole} AS STRING)"
        pattern, clock, at = "", [], 1
        for number, (between, digits) in enumerate(column.parts):
            pattern += f"{between.replace('.', '[.]')}[0-9]{{{digits}}}"
            at += len(between)
            clock += [f"'{_CLOCK[number - 1]}'"] if number else []
            clock.append(f"substring({text}, {at}, {digits})")
            at += digits
        missing = ("-01", "-01")[len(column.parts) - 1 :]
        clock += [f"'{''.join(missing)}'"] if missing else []
        clock += ["':00'"] if column.has_hours and len(column.parts) == _HOUR_PARTS else []
        shown = f"try_cast(concat({', '.join(clock)}) AS TIMESTAMP_NTZ)"
        # The end of a pattern also matches before a line break.
        conditions += [f"length({text}) = {column.width}", f"{text} RLIKE '^{pattern}$'"]
        if column.has_hours:
            conditions.append(f"CAST(CAST({shown} AS TIMESTAMP) AS TIMESTAMP_NTZ) = {shown}")
        else:
            conditions.append(f"{shown} IS NOT NULL")
        return f"coalesce({' AND '.join(conditions)}, false)"


def window_values(
    column: WindowColumn, frame: "DataFrame", zone: ZoneInfo, name: str | None = None
) -> WindowValues:
    """Describe the values of a frame's window column; a TimeColumn's type is looked up.

    `name` is the column's name in the frame, if it differs. Raises TerminalStepError if a column of
    its type cannot be such a TimeColumn.
    """
    value = reference(name or str(get_column_name(column)))
    if not isinstance(column, TimeColumn):
        return WindowValues(value, zone)
    if problem := column.refusal(kind := frame.selectExpr(value).dtypes[0][1]):
        raise TerminalStepError(problem)
    return WindowValues(value, zone, column, kind)


def find_position(
    column: WindowColumn, instant: datetime, zone: ZoneInfo, *, as_text: bool
) -> int | str:
    """Return the least position of a value at or after this instant; see `WindowValues.position`.

    `as_text` selects the text of a TimeColumn over its number.
    """
    if isinstance(column, TimeColumn):
        return column.format_bound(instant, zone, as_text=as_text)
    return (instant - _EPOCH) // timedelta(microseconds=1)


def refuse_type(column: WindowColumn, frame: "DataFrame") -> None:
    """Raise TerminalStepError if the column's type cannot determine a row's window."""
    name = str(get_column_name(column))
    kind = frame.selectExpr(reference(name)).dtypes[0][1]
    problem = explain_not_a_time(name, kind) if isinstance(column, str) else column.refusal(kind)
    if problem:
        raise TerminalStepError(problem)
