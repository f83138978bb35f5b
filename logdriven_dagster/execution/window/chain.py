"""The steps of one pass: stage all, check, publish all, finish. Every transition is logged.

A pass has one window, or several adjoining ones of a table, each with its own attempt, lease, steps
and counts in the log. Whatever goes wrong with several, their attempts end as DISCARDED and the
windows run one by one, so that the log names the bad one.

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

from logdriven_dagster.config.models.incremental.batches import file_source
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.engine import Engine, WindowSession
from logdriven_dagster.engine.spark.actions import watched_by
from logdriven_dagster.errors import (
    AttemptLostError,
    LogdrivenError,
    RunLogError,
    SparkDiedError,
    StepError,
    UnmetNeedError,
)
from logdriven_dagster.execution.events import (
    WindowEvent,
    WindowFailed,
    WindowLost,
    WindowSetBack,
    WindowSucceeded,
)
from logdriven_dagster.execution.window.journal import Journal, Lost, succeeded, unsuccessful
from logdriven_dagster.execution.window.leases import HeldLease
from logdriven_dagster.execution.window.looking import Lookout, must_look
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.execution.window.timeouts import Timeout
from logdriven_dagster.execution.window.tries import Tries
from logdriven_dagster.execution.window.verdicts import refuse, refuse_replacement
from logdriven_dagster.model.attempts import Attempt, AttemptOutcome, Status, StepOutcome
from logdriven_dagster.model.runs import Published, Staged, WindowRun
from logdriven_dagster.model.windows import Slice
from logdriven_dagster.planning.resuming import resumable_steps
from logdriven_dagster.runlog.attempts import steps

logger = logging.getLogger(__name__)


@dataclass
class Chain:
    """The attempts of one pass on their way through the steps; mostly a single one.

    `execute` never raises for a failed step. A single attempt that is lost leaves what is staged
    alone: somebody else may go on with it.
    """

    order: Order
    journal: Journal
    runs: Sequence[WindowRun]
    """The attempts as the engine sees them."""
    lookout: Lookout
    lease: HeldLease
    started: float = field(default_factory=time.monotonic)
    current_step: str = ""
    staged: dict[str, tuple[Staged, ...]] = field(default_factory=dict)
    published: dict[str, tuple[Published, ...]] = field(default_factory=dict)
    checks: dict[str, bool] = field(default_factory=dict)
    """Check → whether what is staged passes it; those that were not asked are missing."""
    notes: str = ""
    """What the source said that whoever reads the log should know."""
    application_id: str | None = None
    session: WindowSession | None = None
    fenced: bool = False
    """Whether older attempts are shut out and what they left is taken over."""
    touched: bool = False
    """Whether readers may see something of it: it has begun to publish, or to change a database."""

    def __post_init__(self) -> None:
        self.steps, self.table = self.order.steps, self.order.table
        self.current_step = self.steps[0].step
        self.timeout = Timeout.of_pass(self.table, [run.window for run in self.runs])
        self.tries = Tries(self.table, self.journal, self._check)

    @property
    def attempts(self) -> Sequence[Attempt]:
        return self.journal.attempts

    @property
    def _is_single(self) -> bool:
        return len(self.attempts) == 1

    def execute(self, engine: Callable[[], Engine]) -> list[WindowEvent]:
        """Run the steps, with the retries of the table; how each window ended, as the log says."""
        try:
            if must_look(self.runs[0]):
                self.tries.until_done(self._look)
                if self._has_nothing_to_do():
                    return self._nothing_new()
            try:
                self._run_in(engine())
            except SparkDiedError as died:
                if self.touched or not self._is_single:
                    raise
                self._begin_anew(died)
                self._run_in(engine())
        except (RunLogError, UnmetNeedError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever a step raises is how it failed
            return self._failed(error)
        return self._finish()

    def interrupted(self, cause: BaseException) -> None:
        """Log the attempts as DISCARDED, because their runner is being stopped, and clean up.

        They may have ended a moment before, or the log may be away: the interruption goes on.
        """
        with suppress(AttemptLostError, RunLogError):
            why = str(cause) if isinstance(cause, UnmetNeedError) else type(cause).__name__
            self._end(Status.DISCARDED, f"interrupted: {why}", self.tries.failed)

    def _run_in(self, engine: Engine) -> None:
        self.application_id = engine.application_id
        with (
            watched_by(self._check),
            engine.window(self.runs, self.order.project) as self.session,
        ):
            self.tries.until_done(self._run)

    def _begin_anew(self, died: SparkDiedError) -> None:
        """Another Spark does the steps from the first on: the views of the last one are gone."""
        logger.warning("spark_died: %s: %s", self.attempts[0], died)
        self._forget_staged()
        self.fenced = False
        self.tries.begin_anew()

    def _forget_staged(self) -> None:
        self._session.discard()
        self.staged.clear()
        self.journal.durable.clear()

    def _check(self) -> None:
        self.lease.check()
        self.timeout.check()

    def _take_over(self) -> None:
        """After attempts that did not end well: shut them out, and go on where one stopped."""
        older = [
            run
            for run, attempt in zip(self.runs, self.attempts, strict=True)
            if attempt.previous not in (None, Status.SUCCESS)
        ]
        if not older or self.fenced:
            return
        session, left = self._session, self.attempts[0].staged
        session.fence(older)
        for step in resumable_steps(self.steps, left):  # only a single window has something left
            if step.step in self.staged:
                continue
            if step.target is None:
                self._stage_step(step)
                continue
            restored = session.restore(step, [left[step.step]])
            if restored is None:
                break
            self._advance(step)
            note = "taken over from an earlier attempt"
            self.staged[step.step] = tuple(each.noted(note) for each in restored)
        self.fenced = True

    def _look(self) -> None:
        """Ask the source how far it goes, and log the answer before anything is read."""
        looked = self.lookout.look(self.attempts[0], self.runs[0])
        self.journal.attempts, self.runs = [looked.attempt], [looked.run]
        self.notes = looked.notes

    def _has_nothing_to_do(self) -> bool:
        """Whether a slice is empty; steps behind one that found no file may run all the same."""
        window = self.attempts[0].window
        if not (isinstance(window, Slice) and window.is_empty):
            return False
        table = self.table
        return not table.incremental.registers_files or file_source(table).on_empty != "succeed"

    def _nothing_new(self) -> list[WindowEvent]:
        """Nothing was read and nothing is written, which is a success. Source: Sharp ETL."""
        start = self.attempts[0].window.range_start
        output = self.notes or (f"nothing new after {start}" if start else "nothing new")
        ended = AttemptOutcome(Status.SUCCESS, error_count=self.tries.failed)
        self.journal.pass_over([step.step for step in self.steps], output, ended)
        return self._succeeded({})

    def _succeeded(self, lost: Lost) -> list[WindowEvent]:
        seconds = (time.monotonic() - self.started) / len(self.attempts)
        return [
            WindowLost(attempt, lost[attempt.job_id])
            if attempt.job_id in lost
            else WindowSucceeded(
                attempt,
                tuple(each[n] for each in self.staged.values()),
                tuple(each[n] for each in self.published.values()),
                seconds,
                self.tries.failed,
                self.timeout.overdue,
                self.checks,
            )
            for n, attempt in enumerate(self.attempts)
        ]

    def _run(self) -> None:
        if self.runs[0].files:
            self._recheck_files()
        self._take_over()
        self._stage()
        self._publish()

    def _recheck_files(self) -> None:
        """Read files as they are now; what a dead attempt staged of others is worth nothing."""
        known = self.runs[0].files
        current = self.lookout.recheck(self.runs[0])
        if {file.hash for file in current} - {file.hash for file in known}:
            self.journal.attempts = [replace(self.attempts[0], staged={})]
        self._session.read_files(current)

    def _stage(self) -> None:
        """Stage what is not staged yet; a retry goes on at the step that failed."""
        for number, step in enumerate(self.steps):
            if step.step not in self.staged:
                self._stage_step(step)
            self.current_step = step.step
            for each in self.staged[step.step]:
                refuse(step, each)
                refuse_replacement(step, each, partial(self._session.replaced_rows, step))
            if self._is_empty(step):
                self._skip(self.steps[number + 1 :], "the step before found no rows")
                break
        self._refuse_changed_files()
        self._persist_staged()
        if len(self.staged) == len(self.steps):
            self._check_rows()

    def _refuse_changed_files(self) -> None:
        """What was read of a file that is replaced meanwhile is worth nothing."""
        try:
            self._session.refuse_changed_files()
        except StepError:
            self._forget_staged()
            raise

    def _stage_step(self, step: StepConfig) -> None:
        self._advance(step)
        if step.commit_before_read:
            self._touch()
        first, *others = self.order.stage(self._session, step)
        first, self.notes = first.noted(self.notes), ""  # the first step reads the source as a rule
        self.staged[step.step] = (first, *others)
        if step.target is None and step.step not in self.journal.ended:
            self.journal.halt({step.step: [succeeded(each) for each in (first, *others)]})

    def _is_empty(self, step: StepConfig) -> bool:
        nothing = all(each.counts.target == 0 for each in self.staged[step.step])
        return nothing and step.target is not None and step.on_empty == "skip_following_steps"

    def _check_rows(self) -> None:
        written = [step.step for step in self.steps if step.target]
        self.current_step = written[-1]  # a violation is a failure of what it keeps from readers
        for check in self.table.checks:
            self.checks[check.check] = False
            self._session.check(check)
            self.checks[check.check] = True

    def _skip(self, following: Sequence[StepConfig], reason: str) -> None:
        skipped = [StepOutcome(Status.SKIPPED, output=reason)] * len(self.attempts)
        ends = {step.step: skipped for step in following if step.step not in self.journal.ended}
        if ends:
            self.journal.halt(ends)

    def _touch(self) -> None:
        """Readers may see something from here on; of refreshes the log must know that before."""
        if not self.touched:
            self.journal.note_change()
        self.touched = True

    def _publish(self) -> None:
        self.published.clear()
        self._touch()
        for step in self.steps:
            if step.target is not None and step.step in self.staged:
                self.current_step = step.step
                done = self._session.publish(step.step, self.lease.verify)
                pairs = zip(done, self.staged[step.step], strict=True)
                self.staged[step.step] = tuple(each.counted(staged) for each, staged in pairs)
                self.published[step.step] = done

    def _finish(self) -> list[WindowEvent]:
        """One transaction: the published steps and the attempts succeed together."""
        # All windows of a pass have read the same files.
        files = [name for staged in self.staged.values() for name in staged[0].current_files]
        ended = AttemptOutcome(
            Status.SUCCESS, self.application_id, ",".join(files) or None, self.tries.failed
        )
        lost = self.journal.succeed(self.published, self.staged, ended)
        if self.runs[0].files and not lost:
            self.lookout.settle(self.runs[0])
        return self._succeeded(lost)

    def _failed(self, error: Exception) -> list[WindowEvent]:
        """How the windows ended after an error; several run one by one next (WindowSetBack)."""
        attempt = self.attempts[0]
        if self._is_single and isinstance(error, AttemptLostError):
            self._leave_staged()
            return [WindowLost(attempt, error)]
        text = redact(str(error) or type(error).__name__)
        if self._is_single and not isinstance(error, LogdrivenError):
            text = f"{type(error).__name__}: {text}"
        status = Status.FAILURE
        if not self._is_single:
            status, others = Status.DISCARDED, len(self.attempts) - 1
            text = (
                f"runs again by itself: in one pass with {others} others, "
                f"step {self.current_step} failed: {text}"
            )
        lost = self._end(status, text, max(self.tries.failed, 1))
        return [
            WindowLost(each, lost[each.job_id])
            if each.job_id in lost
            else self._as_failed(each, text)
            for each in self.attempts
        ]

    def _as_failed(self, attempt: Attempt, text: str) -> WindowFailed | WindowSetBack:
        if not self._is_single:
            return WindowSetBack(attempt, text)
        seconds = time.monotonic() - self.started
        staged = tuple(each[0] for each in self.staged.values())
        stands = attempt.was_finished and not self.touched
        return WindowFailed(attempt, self.current_step, text, seconds, staged, self.checks, stands)

    def _leave_staged(self) -> None:
        """Clean up after an attempt that somebody else ended, unless they go on with its steps."""
        if self.session is None:
            return
        with suppress(RunLogError), self.journal.run_log.read() as conn:
            if not steps.staged(conn, self.attempts[0].job_id):
                self.session.discard()

    def _end(self, status: Status, error: str, errors: int) -> Lost:
        """Log an end without success, then remove what was staged: a zombie never gets there."""
        staged = self.staged.get(self.current_step, (None,))[0]
        outcome = (
            unsuccessful(staged, status, error)
            if self._is_single
            else StepOutcome(status, error=error)
        )
        ended = AttemptOutcome(
            status,
            self.application_id,
            error_count=errors,
            published_nothing=not self.touched,
        )
        lost = self.journal.fail(self.current_step, outcome, self.staged, ended)
        if lost and self._is_single:
            self._leave_staged()
        elif self.session is not None:
            self.session.discard()
        return lost

    def _advance(self, step: StepConfig) -> None:
        """Log in one transaction that the steps before are durable and that this one runs."""
        self.current_step = step.step
        if step is self.steps[0] and not self.tries.failed:
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
    """Whatever ends the runner in the middle of a pass is logged before it goes on its way."""
    try:
        yield
    except RunLogError:
        raise  # nothing can be logged: whoever takes the lease over says how it ended
    except BaseException as cause:
        chain.interrupted(cause)
        raise
