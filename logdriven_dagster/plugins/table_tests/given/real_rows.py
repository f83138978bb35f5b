"""Real rows of a source, for the creation of a test."""

from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.sources.readers import read_source, reader_of
from logdriven_dagster.engine.spark.actions import run_action
from logdriven_dagster.model.runs import WindowRun

if TYPE_CHECKING:
    import pyarrow as pa


def read_source_rows(engine: Any, step: StepConfig, run: WindowRun, most: int) -> "pa.Table":
    """Return the first rows of a window in the source of a step, at most `most`.

    Raises StepError if the source cannot be read.
    """
    reading, source = engine.reading(run), step.source
    assert source is not None
    with step_errors():
        existing = reader_of(source).select_existing(reading, source)
        if existing is None:
            frame = reader_of(source).without_rows(reading, source)
        else:
            frame = read_source(reading, existing)
        label = f"{run.table}: rows for a test"
        found: pa.Table = run_action(reading.spark, label, frame.limit(most).toArrow)
        return found
