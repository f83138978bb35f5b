"""The steps of one attempt: stage all, check, publish all, finish. Every transition is logged.

Source: Kettle, transformation template (pre-SQL, read, write, metrics); Sharp ETL, step_log;
Kylin, chained executables.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from sqlalchemy.engine import Connection

from logdriven_dagster.config.models import TableConfig
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.config.steps import StepConfig
from logdriven_dagster.engine import Engine, WindowSession
from logdriven_dagster.errors import AttemptLostError, LogdrivenError, TransientStepError
from logdriven_dagster.execution.events import WindowFailed, WindowSucceeded
from logdriven_dagster.model.attempts import (
    Attempt,
    AttemptOutcome,
    Counts,
    Status,
    StepOutcome,
)
from logdriven_dagster.model.runs import Published, Staged, WindowRun
from logdriven_dagster.runlog import RunLog, attempts


@dataclass(frozen=True, slots=True)
class Work:
    """What one attempt does: the chosen steps of a table, and how each of them is staged."""

    table: TableConfig
    steps: tuple[StepConfig, ...]
    run: WindowRun
    stage: Callable[[WindowSession, StepConfig], Staged]


@dataclass
class Chain:
    """One attempt on its way through its steps. `execute` never raises for a failed step."""

    run_log: RunLog
    attempt: Attempt
    work: Work
    started: float = field(default_factory=time.monotonic)
    current_step: str = ""
    staged: dict[str, Staged] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    """Steps whose end the log holds already: views, and what was skipped."""
    published: list[Published] = field(default_factory=list)
    error_count: int = 0
    application_id: str | None = None

    def __post_init__(self) -> None:
        self.current_step = self.work.steps[0].step

    def execute(self, engine: Callable[[], Engine]) -> WindowSucceeded | WindowFailed:
        """Run the steps, with the retries of the table; the log holds how it ended."""
        try:
            spark_engine = engine()
            self.application_id = spark_engine.application_id
            with spark_engine.window(self.work.run) as session:
                self._run_with_retries(session)
        except AttemptLostError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a step raises is how it failed
            return self._failed(error)
        self._finish()
        return WindowSucceeded(
            self.attempt,
            tuple(self.staged.values()),
            tuple(self.published),
            time.monotonic() - self.started,
            self.error_count,
        )

    def interrupted(self, cause: BaseException) -> None:
        """Log the attempt as FAILURE because its runner is being stopped."""
        self._log_failure(f"interrupted: {type(cause).__name__}")

    def _run_with_retries(self, session: WindowSession) -> None:
        while True:
            try:
                self._stage(session)
                self._publish(session)
                return
            except Exception as error:
                self.error_count += 1
                retries = self.work.table.retries
                if not isinstance(error, TransientStepError) or self.error_count > retries:
                    raise
                session.discard()
                time.sleep(self.work.table.retry_interval.total_seconds())

    def _stage(self, session: WindowSession) -> None:
        self.staged.clear()
        steps = iter(self.work.steps)
        for step in steps:
            self._start(step)
            staged = self.work.stage(session, step)
            self.staged[step.step] = staged
            if step.target is None:
                self._record(step.step, _succeeded(staged))
            elif staged.counts.target == 0 and step.on_empty == "skip_following_steps":
                break
        self._skip(steps, "the step before found no rows")
        if not self._skipped():
            self._check(session)

    def _check(self, session: WindowSession) -> None:
        written = [step.step for step in self.work.steps if step.target]
        self.current_step = written[-1]  # a violation is a failure of what it keeps from readers
        for check in self.work.table.checks:
            session.check(check)

    def _skipped(self) -> bool:
        return len(self.staged) < len(self.work.steps)

    def _skip(self, steps: Iterator[StepConfig], reason: str) -> None:
        for step in steps:
            self._start(step)
            self._record(step.step, StepOutcome(Status.SKIPPED, output=reason))

    def _publish(self, session: WindowSession) -> None:
        self.published.clear()
        for step in self.work.steps:
            if step.target is not None and step.step in self.staged:
                self.current_step = step.step
                self.published.append(session.publish(step.step))

    def _finish(self) -> None:
        """One transaction: the published steps and the attempt succeed together."""
        files = [name for staged in self.staged.values() for name in staged.current_files]
        ended = AttemptOutcome(
            Status.SUCCESS, self.application_id, ",".join(files) or None, self.error_count
        )

        def work(conn: Connection) -> None:
            for done in self.published:
                outcome = _succeeded(self.staged[done.step_id])
                attempts.finish_step(conn, self.attempt, done.step_id, outcome)
            attempts.finish(conn, self.attempt, ended)

        self.run_log.write(work)

    def _failed(self, error: Exception) -> WindowFailed:
        text = redact(str(error) or type(error).__name__)
        if not isinstance(error, LogdrivenError):
            text = f"{type(error).__name__}: {text}"
        self._log_failure(text)
        return WindowFailed(self.attempt, self.current_step, text, time.monotonic() - self.started)

    def _log_failure(self, error: str) -> None:
        outcome = StepOutcome(Status.FAILURE, Counts(success=0), error=error)
        if staged := self.staged.get(self.current_step):
            # Written, but no reader will ever see it. Source: Sharp ETL.
            counts = Counts(staged.counts.source, 0, success=0, failure=staged.counts.target)
            outcome = replace(_succeeded(staged), status=Status.FAILURE, counts=counts, error=error)
        ended = AttemptOutcome(
            Status.FAILURE, self.application_id, error_count=max(self.error_count, 1)
        )

        def work(conn: Connection) -> None:
            if self.current_step not in self.ended:
                attempts.finish_step(conn, self.attempt, self.current_step, outcome)
            attempts.finish(conn, self.attempt, ended)

        self.run_log.write(work)

    def _start(self, step: StepConfig) -> None:
        self.current_step = step.step
        if step is self.work.steps[0] and not self.error_count:
            return  # the claim's transaction started it
        self.run_log.write(lambda conn: attempts.start_step(conn, self.attempt, step.step))
        self.ended.discard(step.step)

    def _record(self, step_id: str, outcome: StepOutcome) -> None:
        self.run_log.write(lambda conn: attempts.finish_step(conn, self.attempt, step_id, outcome))
        self.ended.add(step_id)


def _succeeded(staged: Staged) -> StepOutcome:
    return StepOutcome(
        Status.SUCCESS,
        staged.counts,
        staged.source_type,
        staged.target_type,
        redact(staged.output),
    )


@contextmanager
def logged_interruption(chain: Chain) -> Iterator[None]:
    """Whatever ends the runner in mid-window is logged before it goes on its way."""
    try:
        yield
    except AttemptLostError:
        raise
    except BaseException as cause:
        chain.interrupted(cause)
        raise
