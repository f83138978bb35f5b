"""What places the rows of a result in the window that they belong to."""

from typing import TYPE_CHECKING

from logdriven_dagster.config.steps import Target
from logdriven_dagster.engine.instants import instant, lies_within
from logdriven_dagster.engine.quoting import plain, quoted
from logdriven_dagster.engine.schemas import WINDOW_START, window_column
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def placed(frame: "DataFrame", target: Target, window: TimeWindow) -> "DataFrame":
    """The frame with what places its rows in the window, refusing rows that lie outside."""
    from pyspark.sql import functions as sf

    name = target.window_column
    if name is not None:
        if name.lower() not in (column.lower() for column in frame.columns):
            raise TerminalStepError(f"the result has no column {name}, the window_column")
        value = quoted(name)
        inside = lies_within(value, window)
        shown = f"coalesce(cast({value} AS STRING), 'NULL')"
        outside = f"concat('{plain(name)} = ', {shown}, ' lies outside the window {window}')"
        checked = f"CASE WHEN {inside} THEN {value} ELSE raise_error({outside}) END"
        frame = frame.withColumn(name, sf.expr(checked))
    if window_column(target) == WINDOW_START:
        frame = frame.withColumn(WINDOW_START, instant(window.start))
    return frame
