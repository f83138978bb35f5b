"""Check that the rows of a result lie in their window."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.config.sql.window_keys import find_source_keys
from logdriven_dagster.engine.queries.instants import instant, lies_within
from logdriven_dagster.engine.queries.quoting import plain, quote_name
from logdriven_dagster.engine.queries.schemas import WINDOW_START, window_column
from logdriven_dagster.engine.queries.window_index import WINDOW_INDEX, window_index
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_TIME_TYPES = ("timestamp", "timestamp_ntz", "date")


def chosen_by_source(
    table: TableConfig,
    step: StepConfig,
    sql: str | None,
    source: "DataFrame | None",
    window: TimeWindow,
) -> bool:
    """Return whether the source's filter excludes all rows that could lie outside the window.

    `sql` is the step's query; its text determines the origin of the target's `window_column`.
    """
    asked = step.source.window_name if step.source else None
    name = step.target.window_column if step.target else None
    if source is None or asked is None or name is None or step.python:
        return False
    if table.is_sliced or table.grid.covering(window) != window:
        return False
    kind = {column.lower(): kind for column, kind in source.dtypes}.get(asked.lower())
    if kind not in _TIME_TYPES:
        return False  # a text may be the day in another zone
    keys = {asked.lower()} if sql is None else find_source_keys(sql, table.grid, asked)
    return name.lower() in keys


def refuse_texts(source: Source, frame: "DataFrame") -> None:
    """Raise TerminalStepError for a `window_column` of text in a batch of windows.

    The date that a text shows may be another one than that of its instant.
    """
    name = source.window_column
    if isinstance(name, str):
        kind = frame.select(quote_name(name)).dtypes[0][1]
        if kind not in _TIME_TYPES:
            raise TerminalStepError(
                f"window_column {name} is {kind}, so each window is read by itself; read it as "
                "TIMESTAMP for batches of windows"
            )


def assign_windows(
    frame: "DataFrame",
    target: Target,
    windows: Sequence[TimeWindow],
    *,
    key: str | None = None,
    chosen: bool = False,
) -> "DataFrame":
    """Add the window of each row, and refuse rows outside of all windows.

    Rows of several adjoining windows get their window's number as WINDOW_INDEX, unless they have
    it; `key` identifies their window if the target has no `window_column`. `chosen` means that no
    row can lie outside, by `chosen_by_source`. Raises TerminalStepError if the result lacks the
    window column.
    """
    name, several = target.window_column, len(windows) > 1
    if name is not None and not (chosen and name in frame.columns):
        frame = frame.withColumn(name, _build_window_check(frame, name, windows))
    if several and WINDOW_INDEX not in frame.columns:
        if name is not None:
            frame = _with_number(frame, name, windows)
        else:
            assert key is not None  # `config.sql.stretching` refuses other tables
            frame = add_window_index(frame, key, windows)
    if window_column(target) == WINDOW_START:
        starts = [instant(window.start) for window in windows]
        if several:
            start = sf.element_at(sf.array(*starts), sf.col(WINDOW_INDEX) + 1)
        else:
            (start,) = starts
        frame = frame.withColumn(WINDOW_START, start)
    return frame


def refuse_own_name(frame: "DataFrame") -> None:
    """Raise TerminalStepError if the result has a column with the reserved name WINDOW_INDEX."""
    for name in frame.columns:
        if name.lower() == WINDOW_INDEX:
            raise TerminalStepError(
                f"the result has a column {name}, which batches of windows use for row "
                "numbers; give it another name"
            )


def add_window_index(frame: "DataFrame", key: str, windows: Sequence[TimeWindow]) -> "DataFrame":
    """Add the window's number to rows of several windows, as WINDOW_INDEX; no column changes.

    The column `key` determines the window. A row outside of all windows fails the query.
    """
    checked = frame.withColumn(WINDOW_INDEX, _build_window_check(frame, key, windows))
    return _with_number(checked, WINDOW_INDEX, windows)


def _with_number(frame: "DataFrame", name: str, windows: Sequence[TimeWindow]) -> "DataFrame":
    """Add WINDOW_INDEX, by the values of a column that lie in the windows."""
    value = sf.col(quote_name(name))
    kind = frame.select(value).dtypes[0][1]
    return frame.withColumn(WINDOW_INDEX, window_index(value, kind, windows))


def _build_window_check(frame: "DataFrame", name: str, windows: Sequence[TimeWindow]) -> "Column":
    """Return the column's values; a value outside the windows fails the query."""
    if name.lower() not in (column.lower() for column in frame.columns):
        raise TerminalStepError(f"the result has no column {name}, the window_column")
    window = windows[0] if len(windows) == 1 else windows[0].up_to_end_of(windows[-1])
    value = quote_name(name)
    shown = f"coalesce(cast({value} AS STRING), 'NULL')"
    outside = f"concat('{plain(name)} = ', {shown}, ' lies outside the window {window}')"
    inside = lies_within(value, window)
    return sf.expr(f"CASE WHEN {inside} THEN {value} ELSE raise_error({outside}) END")
