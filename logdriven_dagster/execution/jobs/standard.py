"""Job runs: validated or refused, with one row in the job log that ends in SUCCESS or FAILURE.

Sources: Kettle, standard and maintenance workflows; DolphinScheduler, workflow instance.
"""

import time
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy.engine import Connection

from logdriven_dagster.config.derived.relations import apply_job
from logdriven_dagster.config.models.jobs import JobConfig, MaintenanceJob, StandardJob
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact, redact_values
from logdriven_dagster.engine.spark.actions import watch_actions
from logdriven_dagster.errors import (
    AttemptLostError,
    DisabledError,
    JobTypeError,
    LogdrivenError,
    RunLogError,
    TimeoutStepError,
    UsageError,
    in_brief,
)
from logdriven_dagster.execution.arguments import JobArguments, RunArguments
from logdriven_dagster.execution.events import (
    NeedUnmet,
    WindowEvent,
    WindowFailed,
    WindowLost,
    WindowRefused,
    WindowSetBack,
    WindowSkipped,
    WindowStarted,
    WindowSucceeded,
)
from logdriven_dagster.execution.jobs.events import JobEnded, JobEvent, JobStarted
from logdriven_dagster.execution.jobs.maintenance import Maintenance, steps_to_run
from logdriven_dagster.execution.notifications.rules import of_job_run
from logdriven_dagster.execution.owners import is_dead
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.execution.window.leases import HeldLease
from logdriven_dagster.execution.window.timeouts import Timeout
from logdriven_dagster.model.attempts import Owner, Status
from logdriven_dagster.model.definitions import Kind, build_code
from logdriven_dagster.model.job_runs import JobRequest, JobRun, RunStep
from logdriven_dagster.planning.plan import State
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.jobs import runs as job_runs

_MOST_NAMED = 5
"""The maximum number of failures in the error of a run."""


def run_job(
    runner: Runner, name: str, now: datetime, arguments: JobArguments = JobArguments()
) -> Generator[JobEvent]:
    """Run a job once; the last event has its outcome.

    A job that `valid_job` refuses leaves no row, nor does a job that is running already
    (AlreadyRunningError). Closing the generator, or any other interruption, logs the run as
    DISCARDED. Raises AttemptLostError if another process ended it.
    """
    project = runner.in_force()
    job = valid_job(project, name, arguments)
    began = time.monotonic()
    run = runner.run_log.write(lambda conn: _start(conn, project, job, arguments, runner.owner))
    with (
        runner.outbox.gather(),
        HeldLease(runner.run_log, job_runs.RUNS, [run], began).keep() as lease,
    ):
        yield from _Execution(runner, project, job, run, lease, now, arguments).events()


def valid_job(project: Project, name: str, arguments: JobArguments = JobArguments()) -> JobConfig:
    """Return a job if it may run with these arguments.

    Raises UsageError if there is no such job, or an argument does not apply to its type;
    JobTypeError if it is of another type than requested; DisabledError if it is disabled. Source:
    Kettle, `kjb_is_valid`, `kjb_is_enabled`.
    """
    job = project.job(name)
    if arguments.type not in (None, job.type):
        raise JobTypeError(
            f"{name} is a {job.type} job, not a {arguments.type} job; nothing was run"
        )
    if not job.enabled:
        fix = f"enable it with `logdriven enable {name}`"
        raise DisabledError(f"{name} is disabled; {fix}")
    if foreign := arguments.foreign_to(job.type):
        raise UsageError(
            f"{name} is a {job.type} job, for which {', '.join(foreign)} is not allowed"
        )
    if isinstance(job, MaintenanceJob):
        steps_to_run(job, arguments, stopped=None)
    return job


def bury_dead_runs(run_log: RunLog, by: Owner) -> int:
    """End the job runs whose processes are gone or whose leases are over; return their number."""

    def work(conn: Connection) -> int:
        return _bury_dead(conn) + len(job_runs.RUNS.bury_expired(conn, by))

    return run_log.write(work)


def _bury_dead(conn: Connection, code: str | None = None) -> int:
    """End the runs of this machine's dead processes now, without waiting for their leases."""
    dead = [(n, owner) for n, owner in job_runs.find_living_owners(conn, code) if is_dead(owner)]
    return sum(job_runs.RUNS.bury(conn, job_run_id, owner) for job_run_id, owner in dead)


def _start(
    conn: Connection, project: Project, job: JobConfig, arguments: JobArguments, owner: Owner
) -> JobRun:
    """Insert the row of the run before anything else happens. Source: Kettle, `kjb_log_initial`."""
    code = build_code(project.name, Kind.JOB, job.job)
    _bury_dead(conn, code)
    steps: tuple[RunStep, ...] = ()
    if isinstance(job, MaintenanceJob):
        stopped = job_runs.find_stopped_step(conn, code)
        steps = steps_to_run(job, arguments, stopped=stopped)
    given = {**project.config.variables, **job.parameters, **arguments.overrides}
    request = JobRequest(
        job=job.job,
        code=code,
        type=job.type,
        project=project.name,
        owner=owner,
        trigger=arguments.trigger,
        parameters=redact_values(given),
        steps=steps,
        lease=project.config.lease,
    )
    return job_runs.start(conn, request)


@dataclass
class _Execution:
    """The execution of one job run, up to its end."""

    runner: Runner
    project: Project
    job: JobConfig
    run: JobRun
    lease: HeldLease
    now: datetime
    arguments: JobArguments
    started: float = field(default_factory=time.monotonic)
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.timeout = Timeout(self.job, f"job {self.job.job}")

    def events(self) -> Generator[JobEvent]:
        """Yield all events, and end the row in any case."""
        try:
            if isinstance(self.job, StandardJob):
                yield from self._tables(self.job)
            else:
                yield from self._steps(self.job)
        except (AttemptLostError, RunLogError):
            raise  # the row is not ours any more, or cannot be reached
        except TimeoutStepError as error:
            self.failures.append(str(error))
        except Exception as error:
            text = redact(str(error) or type(error).__name__)
            ours = isinstance(error, LogdrivenError)
            self._finish(Status.FAILURE, text if ours else f"{type(error).__name__}: {text}")
            raise
        except BaseException as cause:
            with suppress(AttemptLostError, RunLogError):
                self._finish(Status.DISCARDED, f"interrupted: {type(cause).__name__}")
            raise
        status, failure = self._outcome()
        blocked = self._find_blocked(self.job) if isinstance(self.job, StandardJob) else ()
        self._finish(status, failure, blocked)
        yield JobEnded(self.run, status, failure, time.monotonic() - self.started, blocked)

    def _find_blocked(self, job: StandardJob) -> tuple[str, ...]:
        """Return the blocked tables, each with its first pending window and the reason."""
        left_out = self._find_left_out(job)
        tables = [name for name in job.tables if name not in left_out]
        if not tables:
            return ()
        plan = self.runner.plan(self.now, tables, job=job.job)
        first = (next(plan.queue(name), None) for name in plan.tables)
        return tuple(
            redact(f"{item.table} {item.window} {in_brief(item.reason)}")
            for item in first
            if item is not None and item.state is State.BLOCKED
        )

    def _tables(self, job: StandardJob) -> Generator[JobEvent]:
        """Catch up on the tables; a finally failed one does not stop the unrelated ones."""
        left_out = self._find_left_out(job)
        notes = tuple(f"{name} is left out: {why}" for name, why in left_out.items())
        tables = [name for name in job.tables if name not in left_out]
        if not tables:
            yield JobStarted(self.run, notes)
            return
        work = self.runner.catching_up(
            self.now,
            tables,
            in_force=apply_job(self.project, job.job),
            max_windows=self.arguments.max_windows or job.max_windows,
            arguments=RunArguments(
                self.arguments.overrides,
                retry_version=self.arguments.retry_version,
                job_run=self.run,
            ),
            job=job.job,
            max_parallel=self.arguments.max_parallel or job.max_parallel,
        )
        yield JobStarted(self.run, notes, work.plan)
        with closing(work.events()) as events:
            while True:
                with watch_actions(self.timeout.check):
                    event = next(events, None)
                if event is None:
                    return
                self._note(event)
                yield event
                self._go_on()

    def _find_left_out(self, job: StandardJob) -> dict[str, str]:
        """Return the tables that this run does not start, with reasons."""
        found = {}
        for name in job.tables:
            table = self.project.tables[name]
            if not table.enabled:
                found[name] = "it is disabled"
            elif table.release_state == "offline" and self.arguments.trigger != "manual":
                found[name] = "it is offline: start it manually"
        return found

    def _note(self, event: WindowEvent) -> None:
        match event:
            case WindowFailed(attempt=attempt, step_id=step, error=error):
                text = f"{attempt.table} {attempt.window}: step {step} failed: {error}"
                self.failures.append(text)
            case WindowLost(reason=reason):
                self.failures.append(redact(str(reason)))
            case NeedUnmet(reason=unmet, tables=tables):
                self.failures.append(f"{unmet}; not started: {', '.join(tables)}")
            case WindowStarted() | WindowSucceeded() | WindowSetBack():
                pass
            case WindowRefused() | WindowSkipped():
                pass

    def _go_on(self) -> None:
        """Raise if the run has lost its lease, or its time is up, between two windows."""
        self.lease.check()
        self.timeout.check()
        if self.timeout.is_over:
            raise TimeoutStepError(self.timeout.problem)

    def _steps(self, job: MaintenanceJob) -> Generator[JobEvent]:
        steps = self.run.request.steps
        yield JobStarted(self.run, () if steps else ("it has no steps to run",))
        work = Maintenance(
            self.runner, self.project, job, self.run, self.lease, self.timeout, self.arguments
        )
        failure = yield from work.events()
        if failure is not None:
            self.failures.append(failure)

    def _outcome(self) -> tuple[Status, str | None]:
        if not self.failures:
            return Status.SUCCESS, None
        more = len(self.failures) - _MOST_NAMED
        texts = [*self.failures[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])]
        return Status.FAILURE, "\n".join(texts)

    def _finish(self, status: Status, error: str | None, blocked: Sequence[str] = ()) -> None:
        def work(conn: Connection) -> None:
            job_runs.finish(conn, self.run, status, error, blocked)
            of_job_run(conn, self.project, self.run, status)

        self.runner.run_log.write(work)
