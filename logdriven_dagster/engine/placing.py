"""What places the rows of a result in the window that they belong to."""

from typing import TYPE_CHECKING

from logdriven_dagster.config.steps import Target
from logdriven_dagster.engine.instants import instant, lies_within
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
        value = sf.col(f"`{name}`")
        outside = sf.concat(
            sf.lit(f"{name} = "),
            sf.coalesce(value.cast("string"), sf.lit("NULL")),
            sf.lit(f" lies outside the window {window}"),
        )
        inside = lies_within(value, window)
        frame = frame.withColumn(name, sf.when(inside, value).otherwise(sf.raise_error(outside)))
    if window_column(target) == WINDOW_START:
        frame = frame.withColumn(WINDOW_START, instant(window.start))
    return frame
