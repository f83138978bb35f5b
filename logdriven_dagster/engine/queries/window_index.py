"""Assignment of rows to the windows of one pass.

The numbers are those of the table's own windows, exact for every period, time zone and clock
change. Source: the grid of `model.periods`, applied to rows.
"""

import json
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.time_columns import TimeColumn, WindowColumn
from logdriven_dagster.engine.queries.instants import instant
from logdriven_dagster.engine.queries.window_values import window_values
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WINDOW_INDEX = "_window_index"
"""The column with a row's window in a pass, counted from 0; no file contains it."""

BINS = "bins"
"""The name of the result of `bins_by_window` in an `observe`."""

_MICROSECONDS = 1_000_000


def window_index(value: "Column", kind: str, windows: Sequence[TimeWindow]) -> "Column":
    """Return the number, among adjoining windows, of the one that contains the value.

    `kind` is the value's type. The value must lie in one of the windows; days and times without a
    zone are those of the session's zone, which is that of the windows.
    """
    days = _days(windows)
    lengths = {window.span[1] - window.span[0] for window in windows}
    time = value.cast("timestamp")
    if days and (kind == "date" or len(lengths) > 1):
        # A text may have an offset: its day is that of its instant, not the one that it shows.
        date_of_row = value if kind == "date" else time.cast("date")
        return _by_day(sf.datediff(date_of_row, sf.lit(windows[0].start_clock.date())), days)
    if len(lengths) == 1:
        start = int(windows[0].start.timestamp()) * _MICROSECONDS
        length = int(lengths.pop()) * _MICROSECONDS
        # Integers: a quotient of doubles may round up to the next window.
        since = sf.unix_micros(time) - sf.lit(start)
        return sf.call_function("div", since, sf.lit(length)).cast("int")
    return _search(time, windows, 0, len(windows))


def _days(windows: Sequence[TimeWindow]) -> list[int]:
    """Return the length of each window in days, if all begin and end at midnight; else empty."""
    bounds = [*(window.start_clock for window in windows), windows[-1].end_clock]
    if any(bound.hour or bound.minute or bound.second for bound in bounds):
        return []
    dates: list[date] = [bound.date() for bound in bounds]
    return [(later - one) // timedelta(days=1) for one, later in pairwise(dates)]


def _by_day(day: "Column", days: Sequence[int]) -> "Column":
    if len(set(days)) == 1:
        return sf.call_function("div", day, sf.lit(days[0])).cast("int")
    numbers = [number for number, length in enumerate(days) for _ in range(length)]
    return sf.element_at(sf.lit(numbers), day + 1)


def _search(time: "Column", windows: Sequence[TimeWindow], low: int, high: int) -> "Column":
    """Return a binary search, so that a year of days takes nine comparisons."""
    if high - low == 1:
        return sf.lit(low)
    middle = (low + high) // 2
    earlier = time < instant(windows[middle].start)
    return sf.when(earlier, _search(time, windows, low, middle)).otherwise(
        _search(time, windows, middle, high)
    )


def count_by_window(
    frame: "DataFrame", column: WindowColumn, windows: Sequence[TimeWindow]
) -> "tuple[DataFrame, Callable[[], list[int] | None]]":
    """Return the frame with a counter, and a function that returns the rows per window.

    `column` is the frame's window column. The function returns the counts after a query has read
    the frame; None if Spark does not report them.
    """
    from pyspark.sql import Observation

    observation, session = Observation(), frame.sparkSession
    observed = frame.observe(observation, bins_by_window(frame, column, windows).alias(BINS))

    def counts() -> list[int] | None:
        values = mode_of(session).read_observation(observation)
        return counts_of_bins(values[BINS], len(windows)) if BINS in values else None

    return observed, counts


def bins_by_window(
    frame: "DataFrame",
    column: WindowColumn,
    windows: Sequence[TimeWindow],
    where: "Column | None" = None,
) -> "Column":
    """Return an aggregate with the rows per window, to be decoded by `counts_of_bins`.

    `where` restricts the counted rows.
    """
    index = index_by(frame, column, windows)
    return bins_of(index if where is None else sf.when(where, index), len(windows))


def index_by(frame: "DataFrame", column: WindowColumn, windows: Sequence[TimeWindow]) -> "Column":
    """Return the number of each row's window, by the window column `column` of the frame."""
    if isinstance(column, TimeColumn):
        return window_values(column, frame, windows[0].zone).index(windows)
    value = sf.col(f"`{column}`")
    return window_index(value, frame.select(value).dtypes[0][1], windows)


def bins_of(index: "Column", number: int) -> "Column":
    """Return an aggregate with the rows per index below `number`, for `counts_of_bins`.

    A histogram with one bin per index is exact: rows with the same index share a bin.
    """
    return sf.to_json(sf.histogram_numeric(index, sf.lit(number)))


def counts_of_bins(bins: str | None, number: int) -> list[int]:
    """Decode the rows per window from the bins."""
    found = [0] * number
    # Merged partial histograms may have several bins of one index.
    for each in json.loads(bins or "[]"):
        found[round(each["x"])] += round(each["y"])
    return found
