"""The op job `catch_up`, which runs pending windows of all tables."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

from dagster import (
    Config,
    DagsterInstance,
    DagsterRun,
    GraphDefinition,
    JobDefinition,
    OpDefinition,
    OpExecutionContext,
    in_process_executor,
    op,
)

from logdriven_dagster.config import Project
from logdriven_dagster.config.models.settings import Settings
from logdriven_dagster.execution.arguments import RunArguments, retry_version_of
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.model.job_runs import StartedBy
from logdriven_dagster.orchestration.assets.partitions import add_partitions, table_partitions
from logdriven_dagster.orchestration.assets.upstream_assets import UpstreamAssets
from logdriven_dagster.orchestration.clock import data_clock
from logdriven_dagster.orchestration.events.endings import interrupted_windows_forgotten
from logdriven_dagster.orchestration.events.reporting import Reporter, errors_as_failures
from logdriven_dagster.orchestration.location import CATCH_UP, Location
from logdriven_dagster.planning import Plan

PROJECT_TAG = "logdriven/project"
RETRY_VERSION_TAG = "logdriven/retry_version"
"""On a materialization: `recorded` or `latest`, which wins over the table's own."""
TRIGGER_TAG = "logdriven/trigger"
"""On runs started by a schedule or a sensor: the kind of starter."""
WORKER_GROUP_TAG = "logdriven/worker_group"
PRIORITY_TAG = "dagster/priority"
"""Dagster's own tag: runs with greater values leave the run queue first."""

_KEYS_AHEAD = 1000


class CatchUpConfig(Config):
    """Settings of one catch-up run; all are optional."""

    tables: list[str] | None = None
    """Tables or configured jobs; all tables by default."""
    now: str | None = None
    """Pins the data clock: a date or time of the project's time zone."""
    max_windows: int | None = None
    """The maximum number of windows that the run attempts."""
    max_parallel: int | None = None
    """The maximum number of concurrent windows; the default is in `logdriven.yaml`."""
    backoff_seconds: float | None = None
    """The first pause after a window's failure; windows that keep failing are no longer tried."""
    retry_version: str | None = None
    """`recorded` or `latest`: the version with which failed windows are retried."""


def catch_up_job(location: Location) -> JobDefinition:
    """Return the job that runs pending windows, oldest first, of some or all tables."""

    @op(name=location.name(CATCH_UP), required_resource_keys={location.spark})
    def catch_up(context: OpExecutionContext, config: CatchUpConfig) -> None:
        """Run the pending windows in order."""
        _catch_up(context, location, config)

    description = "Runs the pending windows of all or some tables, oldest first."
    return op_job(location, CATCH_UP, description, catch_up)


def op_job(
    location: Location,
    plain_name: str,
    description: str,
    of: OpDefinition,
    tags: Mapping[str, str] = MappingProxyType({}),
) -> JobDefinition:
    """Return a job of one op, which runs in this process.

    `plain_name` is its name without the prefix of the code location.
    """
    name = location.name(plain_name)
    # Dagster requires different names of graphs and ops; users type those of the job and the op.
    graph = GraphDefinition(name=f"{name}_graph", node_defs=[of], description=description)
    return graph.to_job(
        name=name,
        description=description,
        executor_def=in_process_executor,
        tags={PROJECT_TAG: location.project.name, **tags},
    )


def started_by(run: DagsterRun) -> StartedBy:
    """Return the starter of a run; schedules and sensors set a tag."""
    match run.tags.get(TRIGGER_TAG):
        case "schedule":
            return "schedule"
        case "sensor":
            return "sensor"
        case _:
            return "manual"


def online_tables(project: Project, names: Collection[str]) -> list[str]:
    """Return those of the tables that schedules and sensors may start."""
    return [name for name in names if project.tables[name].release_state == "online"]


def run_tags(settings: Settings) -> dict[str, str]:
    """Return run tags with the worker group and the priority of a run.

    Source: DolphinScheduler, worker group and priority.
    """
    tags = {PRIORITY_TAG: str(settings.priority)} if settings.priority else {}
    group = settings.worker_group
    return tags | ({WORKER_GROUP_TAG: group} if group else {})


def add_next_partitions(instance: DagsterInstance, location: Location, plan: Plan) -> None:
    """Add the next pending windows of tables with dynamic partitions to Dagster."""
    for table in plan.tables.values():
        partitions = table_partitions(table.table, location)
        if partitions.dynamic_name:
            windows = filter(partitions.holds, table.unfinished[:_KEYS_AHEAD])
            add_partitions(instance, location, [(table.table, window) for window in windows])


def add_first_partitions(
    instance: DagsterInstance,
    location: Location,
    runner: Runner,
    now: datetime,
    tables: Collection[str],
) -> None:
    """Add the next windows of those of some tables that have no dynamic partition yet.

    Dagster shows an asset without any partition as if all of them were materialized.
    """
    empty = [
        name
        for name in tables
        if (partitions := table_partitions(runner.project.table(name), location).dynamic_name)
        and not instance.get_paginated_dynamic_partitions(partitions, 1, ascending=True).results
    ]
    if empty:
        add_next_partitions(instance, location, runner.plan(now, empty))


def _catch_up(context: OpExecutionContext, location: Location, config: CatchUpConfig) -> None:
    reporter = Reporter(context, location)
    with errors_as_failures(), interrupted_windows_forgotten(reporter):
        runner = location.open_runner(context)
        UpstreamAssets(location.project).note(context, runner)
        now = data_clock(context.run, location.project, config.now)
        in_force, tables = runner.in_force(), location.select(config.tables or ())
        if started_by(context.run) != "manual":
            tables = online_tables(in_force, tables)
            if not tables:
                context.log.info("every table is offline; start runs manually")
                return
        seconds = config.backoff_seconds
        backoff = None if seconds is None else timedelta(seconds=seconds)
        work = runner.catching_up(
            now,
            tables,
            in_force=in_force,
            max_windows=config.max_windows,
            max_parallel=config.max_parallel,
            arguments=RunArguments(
                retry_version=retry_version_of(config.retry_version, "retry_version")
            ),
            backoff=backoff,
        )
        add_next_partitions(context.instance, location, work.plan)
        reporter.follow(work.events())
        context.log.info(summary(reporter))
        if not reporter.has_work:
            for first in runner.plan(now, tables).firsts():
                context.log.info("%s %s: %s", first.table, first.window, first.reason)
        reporter.raise_failures(summary(reporter))


def summary(reporter: Reporter) -> str:
    """Summarize the results of a run's windows in one line."""
    parts = {
        "succeeded": len(reporter.succeeded),
        "failed": len(reporter.failed),
        "lost": len(reporter.lost),
        "refused": len(reporter.refused),
        "skipped": reporter.skipped,
    }
    counted = ", ".join(f"{number} {name}" for name, number in parts.items() if number)
    return f"windows: {counted or 'none were ready'}"
