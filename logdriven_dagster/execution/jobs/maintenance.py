"""The steps of a maintenance job, run in sequence; a failed step ends the run.

Source: Kettle, maintenance workflow: ascending `exec_order`, retries, Abort.
"""

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from logdriven_dagster.config.models.jobs import MaintenanceJob, MaintenanceStep, Upkeep
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.engine.spark.actions import watch_actions
from logdriven_dagster.errors import (
    AttemptLostError,
    LogdrivenError,
    RunLogError,
    UsageError,
)
from logdriven_dagster.execution import upkeep
from logdriven_dagster.execution.arguments import JobArguments
from logdriven_dagster.execution.jobs.events import (
    StepEnded,
    StepEvent,
    StepStarted,
    StepTriedAgain,
)
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.execution.window.engines import spark_engine
from logdriven_dagster.execution.window.leases import HeldLease
from logdriven_dagster.execution.window.timeouts import Timeout, pause
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.job_runs import JobRun, JobStepResult, RunStep
from logdriven_dagster.model.upkeep import Compaction, Expiry, Upkept
from logdriven_dagster.runlog.jobs import runs as job_runs

_EXPIRY = timedelta(days=7)
_GARBAGE = timedelta(hours=1)
_MEGABYTE = 1_000_000


def steps_to_run(
    job: MaintenanceJob, arguments: JobArguments, *, stopped: RunStep | None
) -> tuple[RunStep, ...]:
    """Return the enabled steps by ascending order, from the first step to run.

    That is the requested step; else, unless the run starts over, the step at which the previous run
    stopped; else the lowest. Raises UsageError for a step that the job does not have, or that is
    disabled. Source: Kettle, `MIN(exec_order)`; it always restarts at the lowest.
    """
    enabled = [
        RunStep(step.exec_order, step.step)
        for step in sorted(job.steps, key=lambda step: step.exec_order)
        if step.enabled
    ]
    first = _first(job, enabled, arguments, stopped)
    return tuple(step for step in enabled if first is None or step.exec_order >= first)


def _first(
    job: MaintenanceJob,
    enabled: list[RunStep],
    arguments: JobArguments,
    stopped: RunStep | None,
) -> int | None:
    orders = {step.step: step.exec_order for step in enabled}
    if (wanted := arguments.from_step) is not None:
        if wanted not in orders:
            known = ", ".join(orders) or "none"
            raise UsageError(f"{job.job} has no enabled step {wanted}; its steps are {known}")
        return orders[wanted]
    if arguments.from_start or stopped is None:
        return None
    # A step keeps its name when its number changes; a removed step leaves its position.
    return orders.get(stopped.step, stopped.exec_order)


@dataclass
class Maintenance:
    """The execution of the steps of a maintenance job, in one run of it."""

    runner: Runner
    project: Project
    job: MaintenanceJob
    run: JobRun
    lease: HeldLease
    timeout: Timeout
    arguments: JobArguments

    def events(self) -> Generator[StepEvent, None, str | None]:
        """Run the steps; return the error of the failed one, or None."""
        configured = {step.step: step for step in self.job.steps}
        for step in self.run.request.steps:
            yield StepStarted(step)
            began = time.monotonic()
            result = yield from self._try_step(step, configured[step.step])
            self._end(step, result)
            yield StepEnded(step, result, time.monotonic() - began)
            if result.status is Status.FAILURE:
                return f"step {step.step}: {result.error}"
        return None

    def _observe_step(self, step: RunStep) -> AbstractContextManager[object]:
        return self.runner.listeners.observe_part(f"step {step.step}", self.runner.owner)

    def _try_step(
        self, step: RunStep, config: MaintenanceStep
    ) -> Generator[StepEvent, None, JobStepResult]:
        """Run a step with the retries of the job, for any error. Source: Kettle."""
        failed = 0
        while True:
            self._begin(step, failed)
            try:
                with watch_actions(self._check), self._observe_step(step):
                    self._check()
                    done = self._work(config)
                self._check()
                return JobStepResult(Status.SUCCESS, done.rows, redact(done.text), None, failed)
            except (AttemptLostError, RunLogError):
                raise
            except Exception as error:  # noqa: BLE001 - any error is a failure of the step
                failed += 1
                text = _text(error)
                if failed > self.job.retries or self.timeout.is_over:
                    return JobStepResult(Status.FAILURE, error=text, error_count=failed)
            yield StepTriedAgain(step, text, failed)
            pause(self.job.retry_interval.total_seconds(), self.lease.check)

    def _begin(self, step: RunStep, failed: int) -> None:
        self.runner.run_log.write(lambda conn: job_runs.start_step(conn, self.run, step, failed))

    def _end(self, step: RunStep, result: JobStepResult) -> None:
        self.runner.run_log.write(lambda conn: job_runs.end_step(conn, self.run, step, result))

    def _check(self) -> None:
        self.lease.check()
        self.timeout.check()

    def _work(self, step: MaintenanceStep) -> Upkept:
        """Run the body of a step, which is loaded only now.

        Source: DolphinScheduler, task definitions are split.
        """
        if step.sql is not None:
            return self._sql(step, step.sql)
        if step.python is not None:
            return self._python(step, step.python)
        assert step.upkeep is not None  # the configuration refuses a step that does nothing
        return _UPKEEP[step.upkeep](self.runner, self.project, step)

    def _sql(self, step: MaintenanceStep, sql: str | tuple[str, ...]) -> Upkept:
        from logdriven_dagster.engine.maintenance.statements import run_in_spark, run_on_connection

        statements = (sql,) if isinstance(sql, str) else sql
        if step.connection is None:
            label, engine = f"{self.job.job} {step.step}", spark_engine(self.runner.engine)
            return run_in_spark(engine, self.project, statements, self._values(), label)
        connection = self.project.connection(step.connection)
        return run_on_connection(
            connection, statements, self._values(), transaction=step.transaction
        )

    def _python(self, step: MaintenanceStep, reference: str) -> Upkept:
        from logdriven_dagster.engine.maintenance.functions import run_function

        known: dict[str, Callable[[], Any]] = {
            "project": lambda: self.project,
            "run_log": lambda: self.runner.run_log,
            "options": lambda: self.project.resolve_options(step.options),
            "variables": self._values,
            "job_run_id": lambda: self.run.job_run_id,
        }
        folder = self.project.job_files[self.job.job].parent
        label = f"{self.job.job} {step.step}"
        return run_function(
            reference, folder, known, lambda: spark_engine(self.runner.engine).spark, label
        )

    def _values(self) -> dict[str, str | int | float | bool]:
        """Return the variables of statements, from the run, the job and the project."""
        values = {**self.project.values(self.job.parameters), **self.arguments.overrides}
        return {**values, "job_run_id": self.run.job_run_id, "job_name": self.job.job}


def _text(error: Exception) -> str:
    text = redact(str(error) or type(error).__name__)
    return text if isinstance(error, LogdrivenError) else f"{type(error).__name__}: {text}"


def _expire_snapshots(runner: Runner, project: Project, step: MaintenanceStep) -> Upkept:
    age, options = step.older_than or _EXPIRY, Expiry(**_options(step))
    names = list(step.tables)
    return _sum(upkeep.expire_snapshots(project, runner.run_log, names, age, options))


def _compact_files(runner: Runner, project: Project, step: MaintenanceStep) -> Upkept:
    options = Compaction(**_options(step))
    names = list(step.tables)
    return _sum(
        upkeep.compact_files(project, names, options, lambda: spark_engine(runner.engine).spark)
    )


def _archive_log(runner: Runner, project: Project, step: MaintenanceStep) -> Upkept:
    assert step.older_than is not None  # the configuration requires it
    moved = sum(upkeep.archive_log(project, runner.run_log, step.older_than))
    return Upkept(f"{moved:,} attempts moved to the archive tables", moved)


def _clean(runner: Runner, project: Project, step: MaintenanceStep) -> Upkept:
    upkeep.bury_expired(runner.run_log, runner.owner)
    files = size = 0
    for item in upkeep.garbage(project, runner.run_log, step.older_than or _GARBAGE):
        if step.tables and item.table not in step.tables:
            continue
        item.remove()
        files, size = files + 1, size + (item.bytes or 0)
    return Upkept(f"{files:,} unused files removed, {size / _MEGABYTE:.1f} MB", 0, files, size)


_UPKEEP: Mapping[Upkeep, Callable[[Runner, Project, MaintenanceStep], Upkept]] = {
    "expire_snapshots": _expire_snapshots,
    "compact_files": _compact_files,
    "archive_log": _archive_log,
    "clean": _clean,
}


def _options(step: MaintenanceStep) -> dict[str, Any]:
    return dict(step.options)


def _sum(parts: Iterable[Upkept]) -> Upkept:
    done = list(parts)
    return Upkept(
        "\n".join(f"{part.table}: {part.text}" for part in done),
        sum(part.rows for part in done),
        sum(part.files for part in done),
        sum(part.bytes for part in done),
    )
