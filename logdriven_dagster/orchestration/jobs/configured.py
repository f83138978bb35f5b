"""One Dagster job for each configured job, of both types, and its schedule.

A maintenance job is one op: the log decides at the start of a run which of its steps run, not a
graph; every step is reported in the op's events and in its metadata.
"""

from collections.abc import Generator, Mapping
from typing import Any

from dagster import (
    Config,
    Failure,
    JobDefinition,
    MetadataValue,
    OpExecutionContext,
    RunRequest,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SkipReason,
    op,
)

from logdriven_dagster.config.models.jobs import JobConfig, StandardJob
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import UsageError, in_brief
from logdriven_dagster.execution.arguments import JobArguments, retry_version_of
from logdriven_dagster.execution.jobs.events import (
    JobEnded,
    JobEvent,
    JobStarted,
    StepEnded,
    StepStarted,
    StepTriedAgain,
)
from logdriven_dagster.execution.jobs.standard import run_job
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.orchestration.assets.next_partitions import add_next_partitions
from logdriven_dagster.orchestration.assets.upstream_assets import UpstreamAssets
from logdriven_dagster.orchestration.clock import data_clock
from logdriven_dagster.orchestration.events.endings import (
    forget_interrupted_windows,
    plot_at_end,
)
from logdriven_dagster.orchestration.events.reporting import Reporter, errors_as_failures
from logdriven_dagster.orchestration.jobs.op_jobs import op_job, summary
from logdriven_dagster.orchestration.jobs.run_tags import (
    PROJECT_TAG,
    TRIGGER_TAG,
    find_starter,
    run_tags,
)
from logdriven_dagster.orchestration.jobs.runners import open_runner_of_run
from logdriven_dagster.orchestration.location import CATCH_UP, SKIP, UNSKIP, Location


class JobRunConfig(Config):
    """Settings of one run of a configured job; all are optional."""

    now: str | None = None
    """Pins the data clock: a date or time of the project's time zone."""
    max_windows: int | None = None
    """The maximum number of windows that a standard job attempts."""
    max_parallel: int | None = None
    """The maximum number of concurrent windows of a standard job."""
    from_start: bool = False
    """True to begin a maintenance job at its lowest step, not where the last run stopped."""
    from_step: str | None = None
    """The step at which a maintenance job begins."""
    retry_version: str | None = None
    """The version with which a standard job retries failed windows: `recorded` or `latest`."""
    overrides: dict[str, str] | None = None
    """Variables that win over all others."""


def build_configured_job(location: Location, config: JobConfig) -> JobDefinition:
    """Return the Dagster job of one file in `jobs/`."""
    if config.job in (CATCH_UP, SKIP, UNSKIP):
        raise UsageError(f"jobs: {config.job} is the name of a built-in job; choose another name")
    name = config.job

    @op(name=location.name(name), required_resource_keys={location.spark})
    def run(context: OpExecutionContext, config: JobRunConfig) -> None:
        _run(context, location, name, config)

    return op_job(location, name, _description(config), run, run_tags(config))


def job_schedules(
    location: Location, jobs: Mapping[str, JobDefinition]
) -> list[ScheduleDefinition]:
    """Return the schedules of the configured jobs that have one, in the project's time zone."""
    configured = ((job, location.project.jobs[name]) for name, job in jobs.items())
    return [
        _schedule(location.project, config, config.schedule, job)
        for job, config in configured
        if config.schedule
    ]


def _schedule(
    project: Project, config: JobConfig, cron: str, job: JobDefinition
) -> ScheduleDefinition:
    def evaluate(_context: ScheduleEvaluationContext) -> RunRequest | SkipReason:
        """Start the job, unless it is offline or disabled now. Source: DolphinScheduler."""
        current = open_runner(project).in_force().jobs[config.job]
        if not current.enabled:
            return SkipReason(f"{config.job} is disabled")
        if current.release_state == "offline":
            return SkipReason(f"{config.job} is offline; start it manually")
        tags = {PROJECT_TAG: project.name, TRIGGER_TAG: "schedule", **run_tags(current)}
        return RunRequest(tags=tags)

    return ScheduleDefinition(
        job=job,
        cron_schedule=cron,
        execution_timezone=project.zone.key,
        execution_fn=evaluate,
        description=config.description,
    )


def _description(config: JobConfig) -> str:
    """Return a job's description as Markdown: its tables and relations, or its steps."""
    parts = [config.description or f"A {config.type} job."]
    if isinstance(config, StandardJob):
        parts.append("Tables: " + ", ".join(f"`{name}`" for name in config.tables))
        relations = [
            f"- `{relation.to}` waits for {', '.join(f'`{name}`' for name in relation.upstream)}"
            f" ({relation.condition}" + (f", {relation.delay} later)" if relation.delay else ")")
            for relation in config.relations
        ]
        parts += ["\n".join(["Relations:", "", *relations])] if relations else []
    else:
        steps = sorted(config.steps, key=lambda step: step.exec_order)
        step_lines = [
            f"- {step.exec_order} `{step.step}`" + ("" if step.enabled else " (disabled)")
            for step in steps
        ]
        parts.append("\n".join(["Steps:", "", *step_lines]) if step_lines else "It has no steps.")
    return "\n\n".join(parts)


def _run(context: OpExecutionContext, location: Location, name: str, config: JobRunConfig) -> None:
    reporter = Reporter(context, location)
    with errors_as_failures(), forget_interrupted_windows(reporter), plot_at_end(reporter):
        runner = open_runner_of_run(context, location)
        UpstreamAssets(location.project).note(context, runner)
        now = data_clock(context.run, location.project, config.now)
        arguments = JobArguments(
            trigger=find_starter(context.run),
            overrides=config.overrides or {},
            max_windows=config.max_windows,
            max_parallel=config.max_parallel,
            from_start=config.from_start,
            from_step=config.from_step,
            retry_version=retry_version_of(config.retry_version, "retry_version"),
        )
        _follow(context, reporter, run_job(runner, name, now, arguments))


def _follow(context: OpExecutionContext, reporter: Reporter, events: Generator[JobEvent]) -> None:
    """Report events to Dagster. Raises Failure if the run failed."""
    steps: list[StepEnded] = []
    ended: JobEnded | None = None
    with reporter.following(events):
        for event in events:
            match event:
                case StepEnded():
                    steps.append(event)
                    _report_step(context, event)
                case JobEnded():
                    ended = event
                case JobStarted() | StepStarted() | StepTriedAgain():
                    _report_progress(context, reporter.location, event)
                case _:
                    reporter.report(event)
    assert ended is not None  # any other end of a run raises
    number = MetadataValue.text(str(ended.run.job_run_id))
    metadata: dict[str, MetadataValue[Any]] = {"job_run_id": number}
    for line in ended.blocked:
        context.log.warning("blocked: %s", line)
    if ended.blocked:
        metadata["blocked"] = MetadataValue.md("\n".join(f"- {line}" for line in ended.blocked))
    if steps:
        metadata["steps"] = MetadataValue.md(_table(steps))
    if ended.status is not Status.SUCCESS:
        heading = f"{ended.run.job}: {summary(reporter)}" if not steps else ended.run.job
        message = redact(f"{heading}\n{in_brief(ended.error or '')}")
        raise Failure(message, metadata=metadata, allow_retries=False)
    if not steps:
        context.log.info(summary(reporter))
    context.add_output_metadata(metadata)


def _report_progress(
    context: OpExecutionContext,
    location: Location,
    event: JobStarted | StepStarted | StepTriedAgain,
) -> None:
    match event:
        case JobStarted(run=run, notes=notes, plan=plan):
            if plan is not None:
                add_next_partitions(context.instance, location, plan)
            context.log.info("run %s of %s", run.job_run_id, run.job)
            for note in notes:
                context.log.warning(note)
        case StepStarted(step=step):
            context.log.info("step %s %s starts", step.exec_order, step.step)
        case StepTriedAgain(step=step, error=error, error_count=number):
            context.log.warning(
                "step %s: attempt %s failed: %s", step.step, number, in_brief(error)
            )


def _report_step(context: OpExecutionContext, event: StepEnded) -> None:
    step, result = event.step, event.result
    detail = in_brief(result.error or "") or result.output
    text = f"step {step.exec_order} {step.step}: {result.status.value}, {result.row_count} rows"
    log = context.log.error if result.status is Status.FAILURE else context.log.info
    log(text + (f": {detail}" if detail else ""))


def _table(steps: list[StepEnded]) -> str:
    head = "| order | step | status | rows | seconds |\n| --- | --- | --- | ---: | ---: |"
    rows = [
        f"| {e.step.exec_order} | {e.step.step} | {e.result.status.value} | {e.result.row_count} "
        f"| {e.seconds:.1f} |"
        for e in steps
    ]
    return "\n".join([head, *rows])
