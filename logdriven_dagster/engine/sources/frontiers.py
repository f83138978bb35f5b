"""How far a source goes at the moment: asked once by each attempt at a slice, before it reads.

Spark is only started where nothing else can ask.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.steps import JdbcSource, KafkaSource
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.sources import keys
from logdriven_dagster.engine.sources.readers import Reading, read_whole
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.windows import Slice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Frontier:
    """What an attempt at a slice will read."""

    window: Slice
    """With its end; empty if there is nothing new."""
    has_more: bool
    """Whether the source goes further than the window."""
    notes: str = ""
    """What whoever reads the log should know."""


def frontier(project: Project, run: WindowRun, spark: "Callable[[], SparkSession]") -> Frontier:
    """Where the run's slice ends; StepError, without secrets, if the source cannot say."""
    table = project.table(run.table)
    assert isinstance(run.window, Slice)
    with step_errors():
        if isinstance(table.sliced_step.source, KafkaSource):
            return _of_topics(project, table, table.sliced_step.source, run.window)
        return _of_keys(project, table, run, run.window, spark)


def _of_topics(
    project: Project, table: TableConfig, source: KafkaSource, window: Slice
) -> Frontier:
    from logdriven_dagster.engine.kafka.offsets import bound

    settings, limit = project.kafka(source.connection), table.max_offsets_per_window
    found = bound(settings, source.topics, window.low, limit, source.on_gap)
    return Frontier(window.up_to(found.high, found.low), found.has_more, found.notes)


def _of_keys(
    project: Project,
    table: TableConfig,
    run: WindowRun,
    window: Slice,
    spark: "Callable[[], SparkSession]",
) -> Frontier:
    source, low = table.sliced_step.source, int(window.low)
    assert source is not None
    if isinstance(source, JdbcSource):
        first, last = keys.keys_in_database(project, run, source, low)
    else:
        frame = read_whole(Reading(project, spark(), run), source)
        first, last = keys.keys_in_frame(frame, source, low)
    high, has_more = keys.cut(table, window, first, last)
    return Frontier(window.up_to(high), has_more)
