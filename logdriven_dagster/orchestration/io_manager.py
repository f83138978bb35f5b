"""The IO manager by which hand-written assets read and write tables as Spark DataFrames."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dagster import (
    Failure,
    InitResourceContext,
    InputContext,
    IOManager,
    IOManagerDefinition,
    OutputContext,
)

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine import Engine
from logdriven_dagster.errors import RefusedError, UsageError
from logdriven_dagster.execution.events import (
    WindowEvent,
    WindowFailed,
    WindowLost,
    WindowSucceeded,
)
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.orchestration.assets.partitions import partitions_of
from logdriven_dagster.orchestration.assets.whole_tables import Looks
from logdriven_dagster.orchestration.clock import data_clock
from logdriven_dagster.orchestration.events.records import report_planned
from logdriven_dagster.orchestration.events.reporting import (
    describe_attempt,
    errors_as_failures,
    failure_text,
)
from logdriven_dagster.orchestration.hand_written import hand_written_table
from logdriven_dagster.orchestration.location import Location


class TableIOManager(IOManager):
    """An IO manager that reads tables as DataFrames and writes DataFrames as windows.

    Input is restricted to the mapped partitions. A DataFrame that a hand-written asset returns is
    claimed, staged, published and logged like a window of a configured table; see `hand_written`
    for the supported metadata.
    """

    def __init__(self, location: Location, spark: Any) -> None:
        self._location, self._project, self._spark = location, location.project, spark

    def load_input(self, context: InputContext) -> Any:
        """Return the rows of the upstream windows; all rows where the reader has no partitions."""
        with errors_as_failures():
            name = self._location.table(context.asset_key)
            table = self._project.tables.get(name) or self._hand_written(context)
            engine = Engine(self._knowing(table), self._spark.spark_session)
            return engine.read(name, _find_mapped_window(context, table))

    def handle_output(self, context: OutputContext, obj: Any) -> None:
        """Publish a DataFrame as the window of the run's partition.

        Raises Failure with the reason.
        """
        with errors_as_failures():
            table = self._hand_written(context)
            run = context.step_context.dagster_run
            project = self._knowing(table)
            runner = open_runner(
                project, dagster_run_id=run.run_id, spark=lambda: self._spark.spark_session
            )
            now, window = data_clock(run, project), _window(context, table)
            for event in self._events(context, runner.write_frame(table, window, obj, now)):
                if isinstance(event, WindowFailed):
                    shown = describe_attempt(project, runner.run_log, event.attempt)
                    raise Failure(failure_text(event), metadata=shown)
                if isinstance(event, WindowLost):
                    raise event.reason
                if isinstance(event, WindowSucceeded):
                    shown = describe_attempt(project, runner.run_log, event.attempt)
                    columns = event.steps[-1].columns if event.steps else ()
                    whole = Looks(project).describe(table, window, columns)
                    context.add_output_metadata(shown | whole)

    def _events(
        self, context: OutputContext, events: Iterator[WindowEvent]
    ) -> Iterator[WindowEvent]:
        """Yield the events of the window; take back the plan of a refused one in Dagster."""
        try:
            yield from events
        except RefusedError:
            for partition in context.asset_partition_keys:
                instance = context.step_context.instance
                report_planned(instance, context.asset_key, partition, None)
            raise

    def _hand_written(self, context: InputContext | OutputContext) -> TableConfig:
        node = context.step_context.job_def.asset_layer.get(context.asset_key)
        name = self._location.table(node.key)
        return hand_written_table(self._project, name, node.partitions_def, node.metadata)

    def _knowing(self, table: TableConfig) -> Project:
        return replace(self._project, tables={**self._project.tables, table.table: table})


def table_io_manager(location: Location) -> IOManagerDefinition:
    """Return the IO manager of a project, which uses the Spark of the code location."""

    def open_io_manager(context: InitResourceContext) -> TableIOManager:
        return TableIOManager(location, getattr(context.resources, location.spark))

    return IOManagerDefinition(
        open_io_manager,
        required_resource_keys={location.spark},
        description="Tables as Spark DataFrames.",
    )


def _find_mapped_window(context: InputContext, table: TableConfig) -> TimeWindow | None:
    """Return the range of upstream windows that the reader's partitions map to; None for all.

    A key or offset range may hold rows of any time, so such a table is read as a whole.
    """
    step = context.step_context
    if table.is_sliced or not (step.has_partition_key or step.has_partition_key_range):
        return None
    return partitions_of(table.grid).range(context.asset_partition_keys)


def _window(context: OutputContext, table: TableConfig) -> TimeWindow:
    windows = partitions_of(table.grid).windows(context.asset_partition_keys)
    if len(windows) > 1:
        fix = "use BackfillPolicy.multi_run(), the default"
        raise UsageError(f"{table.table}: one DataFrame cannot fill {len(windows)} windows; {fix}")
    return windows[0]
