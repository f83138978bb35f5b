"""The op jobs `skip_windows` and `unskip_windows`, with which operators decide about windows."""

from collections.abc import Sequence

from dagster import AssetObservation, Config, JobDefinition, OpExecutionContext, op

from logdriven_dagster.config.models.fields import read_instant
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.catching_up.skipping import (
    find_skippable_table,
    find_windows_to_skip,
)
from logdriven_dagster.execution.definitions.registering import author
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.orchestration.assets.partitions import table_partitions
from logdriven_dagster.orchestration.clock import data_clock
from logdriven_dagster.orchestration.events.reporting import errors_as_failures
from logdriven_dagster.orchestration.jobs.op_jobs import op_job
from logdriven_dagster.orchestration.jobs.runners import open_runner_of_run
from logdriven_dagster.orchestration.location import SKIP, UNSKIP, Location


class SkipConfig(Config):
    """The windows of a table that an operator skips or makes pending again, and the reason."""

    table: str
    """The table."""
    window: str
    """The date or time at which the window begins, in the project's time zone."""
    to: str | None = None
    """The end of the last window; by default it is one window."""
    reason: str
    """The reason, which is shown with the window everywhere."""
    operator: str | None = None
    """The operator; by default LOGDRIVEN_OPERATOR, or the user of the process."""


def skipping_jobs(location: Location) -> list[JobDefinition]:
    """Return the two jobs, which users start in the launchpad with their configuration."""

    @op(name=location.name(SKIP), required_resource_keys={location.spark})
    def skip_windows(context: OpExecutionContext, config: SkipConfig) -> None:
        """Skip windows permanently; downstream tables use the existing rows."""
        _decide(context, location, config, SKIP)

    @op(name=location.name(UNSKIP), required_resource_keys={location.spark})
    def unskip_windows(context: OpExecutionContext, config: SkipConfig) -> None:
        """Make skipped windows pending again."""
        _decide(context, location, config, UNSKIP)

    return [
        op_job(
            location, SKIP, "Skips windows of a table permanently, with a reason.", skip_windows
        ),
        op_job(location, UNSKIP, "Makes skipped windows pending again.", unskip_windows),
    ]


def _decide(
    context: OpExecutionContext, location: Location, config: SkipConfig, action: str
) -> None:
    with errors_as_failures():
        runner = open_runner_of_run(context, location)
        (name,) = location.select([config.table])
        windows = _windows(runner, name, config)
        now, by = data_clock(context.run, location.project), author("", config.operator).operator
        decide = runner.skip if action == SKIP else runner.unskip
        decide(name, windows, now, config.reason, by)
        _observe(context, location, name, windows, f"{action} by {by}: {config.reason}")


def _windows(runner: Runner, name: str, config: SkipConfig) -> Sequence[TimeWindow]:
    project, zone = runner.project, runner.project.zone
    find_skippable_table(project, name)
    start = read_instant(config.window, zone)
    end = None if config.to is None else read_instant(config.to, zone)
    if end is not None and start.timestamp() >= end.timestamp():
        raise UsageError(f"to: {config.to} must be later than window: {config.window}")
    return find_windows_to_skip(project, runner.run_log, name, start, end)


def _observe(
    context: OpExecutionContext,
    location: Location,
    name: str,
    windows: Sequence[TimeWindow],
    decision: str,
) -> None:
    """Show the decision with each partition of the asset."""
    partitions = table_partitions(location.project.tables[name], location)
    for window in windows:
        context.log.info("%s %s: %s", name, window, decision)
        context.log_event(
            AssetObservation(
                asset_key=location.key(name),
                partition=partitions.key(window) if partitions.holds(window) else None,
                metadata={"decision": decision},
            )
        )
