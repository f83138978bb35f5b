"""The op job `catch_up`, which runs pending windows of all tables."""

from datetime import timedelta

from dagster import (
    Config,
    JobDefinition,
    OpExecutionContext,
    op,
)

from logdriven_dagster.execution.arguments import RunArguments, retry_version_of
from logdriven_dagster.execution.catching_up.expected_work import expect_work
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.orchestration.assets.next_partitions import add_next_partitions
from logdriven_dagster.orchestration.assets.upstream_assets import UpstreamAssets
from logdriven_dagster.orchestration.clock import data_clock
from logdriven_dagster.orchestration.events.endings import (
    forget_interrupted_windows,
    plot_at_end,
)
from logdriven_dagster.orchestration.events.reporting import Reporter, errors_as_failures
from logdriven_dagster.orchestration.jobs.op_jobs import online_tables, op_job, summary
from logdriven_dagster.orchestration.jobs.run_tags import find_starter
from logdriven_dagster.orchestration.jobs.runners import open_runner_of_run
from logdriven_dagster.orchestration.location import CATCH_UP, Location
from logdriven_dagster.planning.plan import Plan


class CatchUpConfig(Config):
    """Settings of one catch-up run; all are optional."""

    tables: list[str] | None = None
    """Tables, configured jobs or selections such as `ods.*`; all tables by default."""
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


def _catch_up(context: OpExecutionContext, location: Location, config: CatchUpConfig) -> None:
    reporter = Reporter(context, location)
    with errors_as_failures(), forget_interrupted_windows(reporter), plot_at_end(reporter):
        runner = open_runner_of_run(context, location)
        UpstreamAssets(location.project).note(context, runner)
        now = data_clock(context.run, location.project, config.now)
        in_force, tables = runner.in_force(), location.select(config.tables or ())
        if find_starter(context.run) != "manual":
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
        _expect(getattr(context.resources, location.spark), runner, work.plan)
        reporter.follow(work.events())
        context.log.info(summary(reporter))
        if not reporter.has_work:
            for first in runner.plan(now, tables).firsts():
                context.log.info("%s %s: %s", first.table, first.window, first.reason)
        reporter.raise_failures(summary(reporter))


def _expect(spark: object, runner: Runner, plan: Plan) -> None:
    """Set the work of the process, by which the project's own Spark resource starts its session."""
    from logdriven_dagster.orchestration.spark import ProjectSparkResource  # imports PySpark

    if isinstance(spark, ProjectSparkResource):
        spark.expect(expect_work(runner.run_log, plan))
