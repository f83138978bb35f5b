"""The op job `catch_up`, and one job of the same kind per configured job."""

from datetime import timedelta

from dagster import (
    Config,
    DagsterInstance,
    GraphDefinition,
    JobDefinition,
    OpDefinition,
    OpExecutionContext,
    ScheduleDefinition,
    in_process_executor,
    op,
)

from logdriven_dagster.config import Project
from logdriven_dagster.config.jobs import StandardJob
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.orchestration.clock import data_clock
from logdriven_dagster.orchestration.endings import interrupted_window_shown
from logdriven_dagster.orchestration.partitions import table_partitions
from logdriven_dagster.orchestration.reporting import Reporter, errors_as_failures
from logdriven_dagster.orchestration.resources import RUN_LOG, SPARK
from logdriven_dagster.planning import Plan

CATCH_UP = "catch_up"
"""The name of the job and of its op."""

PROJECT_TAG = "logdriven/project"

_KEYS_AHEAD = 1000


class CatchUpConfig(Config):
    """What one run catches up on; everything is optional."""

    tables: list[str] | None = None
    """Tables or configured jobs; all tables by default."""
    now: str | None = None
    """Pins the data clock: a date or time of the project's time zone."""
    max_windows: int | None = None
    """The most windows that the run attempts."""
    backoff_seconds: float | None = None
    """The first pause after a window's failure; windows that keep failing are left alone."""


class JobRunConfig(Config):
    """What one run of a configured job may set; its tables are configured."""

    now: str | None = None
    max_windows: int | None = None


def catch_up_job(project: Project) -> JobDefinition:
    """The job that runs pending windows, oldest first, of some or all tables."""

    @op(name=CATCH_UP, required_resource_keys={RUN_LOG, SPARK})
    def catch_up(context: OpExecutionContext, config: CatchUpConfig) -> None:
        """Run the pending windows in order."""
        _catch_up(context, project, config)

    description = "Runs the pending windows of all or some tables, oldest first."
    return _job(project, CATCH_UP, description, catch_up)


def configured_job(project: Project, config: StandardJob) -> JobDefinition:
    """The Dagster job of one file in `jobs/`."""
    if config.job == CATCH_UP:
        raise UsageError(f"jobs: the name {CATCH_UP} is taken by the job of all tables")

    @op(name=config.job, required_resource_keys={RUN_LOG, SPARK})
    def run_tables(context: OpExecutionContext, config: JobRunConfig) -> None:
        limit = config.max_windows or default_limit
        _catch_up(context, project, CatchUpConfig(tables=tables, now=config.now, max_windows=limit))

    tables, default_limit = list(config.tables), config.max_windows

    description = config.description or f"Runs the pending windows of {', '.join(tables)}."
    return _job(project, config.job, description, run_tables)


def _job(project: Project, name: str, description: str, of: OpDefinition) -> JobDefinition:
    # Dagster wants graphs and ops to have different names; what users type are job and op.
    graph = GraphDefinition(name=f"{name}_graph", node_defs=[of], description=description)
    return graph.to_job(
        name=name,
        description=description,
        executor_def=in_process_executor,
        tags={PROJECT_TAG: project.name},
    )


def schedules(project: Project, jobs: list[JobDefinition]) -> list[ScheduleDefinition]:
    """The schedules of the configured jobs that have one, in the project's time zone."""
    return [
        ScheduleDefinition(
            job=job_definition,
            cron_schedule=project.jobs[job_definition.name].schedule,
            execution_timezone=project.zone.key,
        )
        for job_definition in jobs
        if job_definition.name in project.jobs and project.jobs[job_definition.name].schedule
    ]


def add_partitions(instance: DagsterInstance, plan: Plan) -> None:
    """Make the next pending windows of tables with dynamic partitions known to Dagster."""
    for table in plan.tables.values():
        partitions = table_partitions(table.table)
        windows = filter(partitions.holds, table.unfinished[:_KEYS_AHEAD])
        keys = list(map(partitions.key, windows)) if partitions.dynamic_name else []
        if partitions.dynamic_name and keys:
            instance.add_dynamic_partitions(partitions.dynamic_name, keys)


def _catch_up(context: OpExecutionContext, project: Project, config: CatchUpConfig) -> None:
    reporter = Reporter(context, project)
    with errors_as_failures(), interrupted_window_shown(reporter):
        runner: Runner = context.resources.run_log.open_runner(
            project, context.run, context.resources.spark
        )
        now = data_clock(context.run, project, config.now)
        tables = config.tables or []
        add_partitions(context.instance, runner.plan(now, tables))
        seconds = config.backoff_seconds
        backoff = None if seconds is None else timedelta(seconds=seconds)
        limit = config.max_windows
        reporter.follow(runner.catch_up(now, tables, max_windows=limit, backoff=backoff))
        context.log.info(_summary(reporter))
        reporter.raise_failures(_summary(reporter))


def _summary(reporter: Reporter) -> str:
    parts = {
        "succeeded": len(reporter.succeeded),
        "failed": len(reporter.failed),
        "lost": len(reporter.lost),
        "refused": len(reporter.refused),
        "skipped": reporter.skipped,
    }
    told = ", ".join(f"{number} {name}" for name, number in parts.items() if number)
    return f"windows: {told or 'none were ready'}"
