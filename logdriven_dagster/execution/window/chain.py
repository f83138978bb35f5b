"""The steps of one attempt: stage all, check, publish all, finish. Every transition is logged.

Source: Kettle, transformation template (pre-SQL, read, write, metrics); Sharp ETL, step_log;
Kylin, chained executables: each transition is persisted before the next action, and a chain goes on
at its first unfinished step.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from logdriven_dagster.config import Project
from logdriven_dagster.config.models.slicing import file_source
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.engine import Engine, WindowSession
from logdriven_dagster.engine.spark.actions import run_checks, watched_by
from logdriven_dagster.errors import (
    AttemptLostError,
    LogdrivenError,
    RunLogError,
    SparkDiedError,
    StepError,
    TransientStepError,
    UnmetNeedError,
)
from logdriven_dagster.execution.events import WindowFailed, WindowSucceeded
from logdriven_dagster.execution.window.journal import Journal, succeeded, unsuccessful
from logdriven_dagster.execution.window.leases import HeldLease
from logdriven_dagster.execution.window.looking import Lookout, must_look
from logdriven_dagster.execution.window.timeouts import Timeout
from logdriven_dagster.execution.window.verdicts import refuse, refuse_replacement
from logdriven_dagster.model.attempts import (
    Attempt,
    AttemptOutcome,
    Status,
    StepOutcome,
)
from logdriven_dagster.model.runs import Published, Staged, WindowRun
from logdriven_dagster.model.windows import Slice
from logdriven_dagster.planning.resuming import resumable_steps
from logdriven_dagster.runlog.attempts import steps

_LOOKS_SECONDS = 0.2
logger = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Work:
    """What one attempt does: the chosen steps of a table, and how each of them is staged."""

    project: Project
    table: TableConfig
    steps: tuple[StepConfig, ...]
    run: WindowRun
    stage: Callable[[WindowSession, StepConfig], tuple[Staged, ...]]
    lookout: Lookout


@dataclass
class Chain:
    """One attempt on its way through its steps. `execute` never raises for a failed step.

    AttemptLostError and RunLogError leave what is staged alone: somebody else may go on with it.
    """

    journal: Journal
    work: Work
    lease: HeldLease
    started: float = field(default_factory=time.monotonic)
    current_step: str = ""
    staged: dict[str, Staged] = field(default_factory=dict)
    published: list[Published] = field(default_factory=list)
    checks: dict[str, bool] = field(default_factory=dict)
    """Check → whether what is staged passes it; those that were not asked are missing."""
    notes: str = ""
    """What the source said that whoever reads the log should know."""
    error_count: int = 0
    deaths: int = 0
    """How often Spark died on the way; that costs no retry."""
    application_id: str | None = None
    session: WindowSession | None = None
    fenced: bool = False
    """Whether older attempts are shut out and what they left is taken over."""
    touched: bool = False
    """Whether readers may see something of it: it has begun to publish, or to change a database."""

    def __post_init__(self) -> None:
        self.current_step = self.work.steps[0].step
        what = f"{self.attempt.table} {self.attempt.window}"
        self.timeout = Timeout(self.work.table, what)

    @property
    def attempt(self) -> Attempt:
        return self.journal.attempt

    def execute(self, engine: Callable[[], Engine]) -> WindowSucceeded | WindowFailed:
        """Run the steps, with the retries of the table; the log holds how it ended."""
        try:
            if must_look(self.work.run):
                self._with_retries(self._look)
                if self._has_nothing_to_do():
                    return self._nothing_new()
            try:
                self._run_in(engine())
            except SparkDiedError as died:
                if self.touched:
                    raise
                self._begin_anew(died)
                self._run_in(engine())
        except (AttemptLostError, RunLogError, UnmetNeedError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever a step raises is how it failed
            return self._failed(error)
        self._finish()
        if self.work.run.files:
            self.work.lookout.settle(self.work.run)
        return self._succeeded()

    def _run_in(self, engine: Engine) -> None:
        self.application_id = engine.application_id
        with (
            watched_by(self._check),
            engine.window([self.work.run], self.work.project) as self.session,
        ):
            self._with_retries(self._run)

    def _begin_anew(self, died: SparkDiedError) -> None:
        """Another Spark does the steps from the first on: the views of the last one are gone."""
        logger.warning("spark_died: %s %s: %s", self.attempt.table, self.attempt.window, died)
        self._session.discard()
        self.staged.clear()
        self.journal.durable.clear()
        self.fenced = False
        self.deaths += 1
        self.journal.note_errors(self.error_count)

    def interrupted(self, cause: BaseException) -> None:
        """Log the attempt as DISCARDED, because its runner is being stopped, and clean up.

        It may have ended a moment before, or the log may be away: the interruption goes on anyhow.
        """
        with suppress(AttemptLostError, RunLogError):
            why = str(cause) if isinstance(cause, UnmetNeedError) else type(cause).__name__
            self._end(Status.DISCARDED, f"interrupted: {why}")

    def lost(self) -> None:
        """Clean up after an attempt that somebody else ended, unless they go on with its steps."""
        if self.session is None:
            return
        with suppress(RunLogError), self.journal.run_log.read() as conn:
            if not steps.staged(conn, self.attempt.job_id):
                self.session.discard()

    def _check(self) -> None:
        self.lease.check()
        self.timeout.check()

    def _take_over(self) -> None:
        """After an attempt that did not end well: shut it out, and go on where it stopped."""
        if self.attempt.previous in (None, Status.SUCCESS) or self.fenced:
            return
        session = self._session
        session.fence()
        for step in resumable_steps(self.work.steps, self.attempt.staged):
            if step.step in self.staged:
                continue
            if step.target is None:
                self._stage_step(step)
                continue
            found = session.restore(step, [self.attempt.staged[step.step]])
            if found is None:
                break
            (restored,) = found
            note = f"taken over from an earlier attempt; {restored.output}"
            self._advance(step)
            self.staged[step.step] = replace(restored, output=note)
        self.fenced = True

    def _look(self) -> None:
        """Ask the source how far it goes, and log the answer before anything is read."""
        looked = self.work.lookout.look(self.attempt, self.work.run)
        self.journal.attempt, self.work = looked.attempt, replace(self.work, run=looked.run)
        self.notes = looked.notes

    def _has_nothing_to_do(self) -> bool:
        """Whether a slice is empty; steps behind one that found no file may run all the same."""
        window, table = self.attempt.window, self.work.table
        if not (isinstance(window, Slice) and window.is_empty):
            return False
        return table.incremental_type != "files" or file_source(table).on_empty != "succeed"

    def _nothing_new(self) -> WindowSucceeded:
        """Nothing was read and nothing is written, which is a success. Source: Sharp ETL."""
        start = self.attempt.window.range_start
        output = self.notes or (f"nothing new after {start}" if start else "nothing new")
        ended = AttemptOutcome(Status.SUCCESS, error_count=self.error_count)
        self.journal.pass_over([step.step for step in self.work.steps], output, ended)
        return self._succeeded()

    def _succeeded(self) -> WindowSucceeded:
        return WindowSucceeded(
            self.attempt,
            tuple(self.staged.values()),
            tuple(self.published),
            time.monotonic() - self.started,
            self.error_count,
            self.timeout.overdue,
            self.checks,
        )

    def _run(self) -> None:
        if self.work.run.files:
            self._recheck_files()
        self._take_over()
        self._stage()
        self._publish()

    def _recheck_files(self) -> None:
        """Read files as they are now; what a dead attempt staged of others is worth nothing."""
        current = self.work.lookout.recheck(self.work.run)
        if {file.hash for file in current} - {file.hash for file in self.work.run.files}:
            self.journal.attempt = replace(self.attempt, staged={})
        self._session.read_files(current)

    def _with_retries(self, work: Callable[[], T]) -> T:
        while True:
            try:
                return work()
            except Exception as error:
                retries = self.work.table.retries
                self.error_count += 1
                died = isinstance(error, SparkDiedError)
                failures = self.error_count - self.deaths
                if died or not isinstance(error, TransientStepError) or failures > retries:
                    raise
                self.journal.note_errors(self.error_count)
                self._pause(self.work.table.retry_interval.total_seconds())

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._check()
            run_checks()
            time.sleep(min(left, _LOOKS_SECONDS))

    def _stage(self) -> None:
        """Stage what is not staged yet; a retry goes on at the step that failed."""
        for number, step in enumerate(self.work.steps):
            if step.step not in self.staged:
                self._stage_step(step)
            self.current_step = step.step
            refuse(step, self.staged[step.step])
            replaced = partial(self._session.replaced_rows, step)
            refuse_replacement(step, self.staged[step.step], replaced)
            if self._is_empty(step):
                self._skip(self.work.steps[number + 1 :], "the step before found no rows")
                break
        self._refuse_changed_files()
        self._persist_staged()
        if len(self.staged) == len(self.work.steps):
            self._check_rows()

    def _refuse_changed_files(self) -> None:
        """What was read of a file that is replaced meanwhile is worth nothing."""
        try:
            self._session.refuse_changed_files()
        except StepError:
            self._session.discard()
            self.staged.clear()
            self.journal.durable.clear()
            raise

    def _stage_step(self, step: StepConfig) -> None:
        self._advance(step)
        if step.commit_before_read:
            self._touch()
        (staged,) = self.work.stage(self._session, step)
        if self.notes:  # once, and with the first step, which reads the source as a rule
            staged = replace(staged, output="; ".join(filter(None, [self.notes, staged.output])))
            self.notes = ""
        self.staged[step.step] = staged
        if step.target is None and step.step not in self.journal.ended:
            self.journal.halt(step.step, succeeded(staged))

    def _is_empty(self, step: StepConfig) -> bool:
        nothing = self.staged[step.step].counts.target == 0
        return nothing and step.target is not None and step.on_empty == "skip_following_steps"

    def _check_rows(self) -> None:
        written = [step.step for step in self.work.steps if step.target]
        self.current_step = written[-1]  # a violation is a failure of what it keeps from readers
        for check in self.work.table.checks:
            self.checks[check.check] = False
            self._session.check(check)
            self.checks[check.check] = True

    def _skip(self, following: Sequence[StepConfig], reason: str) -> None:
        for step in following:
            if step.step not in self.journal.ended:
                self.journal.halt(step.step, StepOutcome(Status.SKIPPED, output=reason))

    def _touch(self) -> None:
        """Readers may see something from here on; of a refresh the log must know that before."""
        if self.attempt.was_finished and not self.touched:
            self.journal.note_change()
        self.touched = True

    def _publish(self) -> None:
        self.published.clear()
        self._touch()
        for step in self.work.steps:
            if step.target is not None and step.step in self.staged:
                self.current_step = step.step
                (done,) = self._session.publish(step.step, self.lease.verify)
                self.staged[step.step] = done.counted(self.staged[step.step])
                self.published.append(done)

    def _finish(self) -> None:
        """One transaction: the published steps and the attempt succeed together."""
        files = [name for staged in self.staged.values() for name in staged.current_files]
        ended = AttemptOutcome(
            Status.SUCCESS, self.application_id, ",".join(files) or None, self.error_count
        )
        self.journal.succeed(self.published, self.staged, ended)

    def _failed(self, error: Exception) -> WindowFailed:
        text = redact(str(error) or type(error).__name__)
        if not isinstance(error, LogdrivenError):
            text = f"{type(error).__name__}: {text}"
        self._end(Status.FAILURE, text)
        seconds, steps = time.monotonic() - self.started, tuple(self.staged.values())
        stands = self.attempt.was_finished and not self.touched
        return WindowFailed(
            self.attempt, self.current_step, text, seconds, steps, self.checks, stands
        )

    def _end(self, status: Status, error: str) -> None:
        """Log an end without success, then remove what was staged: a zombie never gets there."""
        outcome = unsuccessful(self.staged.get(self.current_step), status, error)
        failed = status is Status.FAILURE
        errors = max(self.error_count, 1) if failed else self.error_count
        ended = AttemptOutcome(
            status,
            self.application_id,
            error_count=errors,
            published_nothing=not self.touched,
        )
        self.journal.fail(self.current_step, outcome, self.staged, ended)
        if self.session is not None:
            self.session.discard()

    def _advance(self, step: StepConfig) -> None:
        """Log in one transaction that the steps before are durable and that this one runs."""
        self.current_step = step.step
        if step is self.work.steps[0] and not self.error_count:
            return  # the claim's transaction started it
        if step.step in self.journal.ended:
            return  # a view whose end is logged is made once more
        self.journal.begin(step.step, self.staged)

    def _persist_staged(self) -> None:
        """The last steps are durable, and the lease is as fresh as can be, before publication."""
        self.journal.persist(self.staged)

    @property
    def _session(self) -> WindowSession:
        assert self.session is not None
        return self.session


@contextmanager
def logged_interruption(chain: Chain) -> Iterator[None]:
    """Whatever ends the runner in mid-window is logged before it goes on its way."""
    try:
        yield
    except AttemptLostError:
        chain.lost()
        raise
    except RunLogError:
        raise  # nothing can be logged: whoever takes the lease over says how it ended
    except BaseException as cause:
        chain.interrupted(cause)
        raise
