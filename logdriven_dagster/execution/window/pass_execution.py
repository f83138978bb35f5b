"""The execution of one pass: its chain of steps, with retries and a time limit.

A pass has one window, or several adjoining ones of a table, each with its own attempt, lease, steps
and counts in the log. If a pass of several fails, for any reason, its attempts end as DISCARDED and
the windows run one by one, so that the log names the bad one.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import InitVar, dataclass, field

from logdriven_dagster.config.models.incremental.batches import get_file_source
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.engine.spark.actions import watched_by
from logdriven_dagster.errors import (
    AttemptLostError,
    BadQualityError,
    LogdrivenError,
    RunLogError,
    SparkDiedError,
    TerminalStepError,
    TimeoutStepError,
    TooMuchDataError,
    UnmetNeedError,
)
from logdriven_dagster.execution.events import (
    WindowEvent,
    WindowFailed,
    WindowLost,
    WindowSetBack,
    WindowSucceeded,
)
from logdriven_dagster.execution.window.chain import Chain
from logdriven_dagster.execution.window.discovery import SourceDiscovery, needs_discovery
from logdriven_dagster.execution.window.engines import Engine
from logdriven_dagster.execution.window.journal import Journal, Lost, unsuccessful
from logdriven_dagster.execution.window.leases import HeldLease
from logdriven_dagster.execution.window.listeners import Interruption, Listeners
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.execution.window.timeouts import Timeout
from logdriven_dagster.execution.window.tries import Tries
from logdriven_dagster.model.attempts import Attempt, AttemptOutcome, Status, StepOutcome
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.windows import Slice
from logdriven_dagster.runlog.attempts import steps

_VERDICTS = (BadQualityError, TimeoutStepError, TooMuchDataError)
"""Errors about rows or time, which another engine would raise again."""

logger = logging.getLogger(__name__)


@dataclass
class PassExecution:
    """The execution of the chain of one pass, with the retries of the table and logged outcomes.

    `execute` never raises for a failed step. A single attempt that is lost leaves its staged
    results: another runner may continue with them.
    """

    order: Order
    journal: Journal
    runs: InitVar[Sequence[WindowRun]]
    discovery: SourceDiscovery
    lease: HeldLease
    listeners: Listeners
    started: float = field(default_factory=time.monotonic)
    application_id: str | None = None

    def __post_init__(self, runs: Sequence[WindowRun]) -> None:
        self.timeout = Timeout.of_pass(self.order.table, [run.window for run in runs])
        self.tries = Tries(self.order.table, self.journal, self._check)
        self.chain = Chain(
            self.order, self.journal, runs, self.discovery, self.lease, self.tries, self.listeners
        )

    @property
    def attempts(self) -> Sequence[Attempt]:
        return self.journal.attempts

    @property
    def _is_single(self) -> bool:
        return len(self.attempts) == 1

    def execute(
        self, engine: Callable[[], Engine], other: Callable[[], Engine] | None = None
    ) -> list[WindowEvent]:
        """Run the steps, with the retries of the table; return the outcome of each window.

        If `engine` cannot run a step, `other` runs the pass, if there is another engine.
        """
        try:
            if needs_discovery(self.chain.runs[0]):
                self.tries.until_done(self._look)
                if self._has_nothing_to_do():
                    return self._nothing_new()
            try:
                self._run(engine)
            except TerminalStepError as error:
                if other is None or not self._may_begin_anew or isinstance(error, _VERDICTS):
                    raise
                self._leave_to(other, error)
        except (RunLogError, UnmetNeedError):
            raise
        except Exception as error:  # noqa: BLE001 - any step error is the failure
            return self._failed(error)
        return self._finish()

    def interrupted(self, cause: BaseException) -> None:
        """Log the attempts as DISCARDED, because their runner is being stopped, and clean up.

        They may have just ended, or the log may be unreachable: the interruption goes on.
        """
        with suppress(AttemptLostError, RunLogError):
            why = str(cause) if isinstance(cause, UnmetNeedError) else type(cause).__name__
            self._end(Status.DISCARDED, f"interrupted: {why}", self.tries.failed)
            self.listeners.on_interruption(
                self.attempts,
                Interruption(self.chain.current_step, self.application_id, f"interrupted: {why}"),
            )

    @property
    def _may_begin_anew(self) -> bool:
        """True if readers have seen no changes of it; several windows run one by one next."""
        return self._is_single and not self.chain.touched

    def _leave_to(self, other: Callable[[], Engine], error: TerminalStepError) -> None:
        """Run the steps on another engine, from the first one, and log the reason."""
        why = str(error).partition("\n")[0]
        logger.warning("engine_changed: %s: %s", self.attempts[0], why)
        self.chain.notes = f"{self.application_id} could not run it: {why}"
        self._begin_anew()
        try:
            self._run(other)
        except UnmetNeedError as unmet:  # only this window lacks it, not the others
            raise TerminalStepError(
                f"{error}; the fallback engine failed as well: {unmet}"
            ) from error

    def _run(self, engine: Callable[[], Engine]) -> None:
        """Run the chain, in a second Spark if the first one dies."""
        try:
            self._run_in(engine())
        except SparkDiedError as died:
            if not self._may_begin_anew:
                raise
            logger.warning("spark_died: %s: %s", self.attempts[0], died)
            self._begin_anew()
            self._run_in(engine())

    def _run_in(self, engine: Engine) -> None:
        self.application_id = engine.application_id
        with (
            watched_by(self._check),
            engine.open_session(self.chain.runs, self.order.project) as self.chain.session,
        ):
            self.tries.until_done(self.chain.run)

    def _begin_anew(self) -> None:
        """Reset the chain to its first step for the next engine: the old views are gone."""
        self.chain.forget_staged()
        self.chain.fenced = False
        self.tries.begin_anew()

    def _check(self) -> None:
        self.lease.check()
        self.timeout.check()

    def _look(self) -> None:
        """Determine the end of the slice by its source, and log it before anything is read."""
        found = self.discovery.discover(self.attempts[0], self.chain.runs[0])
        self.journal.attempts, self.chain.runs = [found.attempt], [found.run]
        self.chain.notes, self.chain.source_rows = found.notes, found.source_rows

    def _has_nothing_to_do(self) -> bool:
        """Return True if a slice is empty, and no step may run without files."""
        window = self.attempts[0].window
        if not (isinstance(window, Slice) and window.is_empty):
            return False
        table = self.order.table
        return not table.incremental.registers_files or get_file_source(table).on_empty != "succeed"

    def _nothing_new(self) -> list[WindowEvent]:
        """Log a success of windows for which there was nothing to read. Source: Sharp ETL."""
        start = self.attempts[0].window.range_start
        rows = self.chain.source_rows
        output = "; ".join(filter(None, [self.chain.notes, rows.message if rows else ""]))
        output = output or (f"nothing new after {start}" if start else "nothing new")
        ended = AttemptOutcome(Status.SUCCESS, error_count=self.tries.failed)
        self.journal.pass_over([step.step for step in self.order.steps], output, ended, rows)
        return self._succeeded({})

    def _finish(self) -> list[WindowEvent]:
        """Log that the published steps and the attempts succeed together, in one transaction."""
        # All windows of a pass have read the same files.
        files = [name for staged in self.chain.staged.values() for name in staged[0].current_files]
        ended = AttemptOutcome(
            Status.SUCCESS, self.application_id, ",".join(files) or None, self.tries.failed
        )
        lost = self.journal.succeed(self.chain.published, self.chain.staged, ended)
        if self.chain.runs[0].files and not lost:
            self.discovery.apply_after_success(self.chain.runs[0])
        return self._succeeded(lost)

    def _succeeded(self, lost: Lost) -> list[WindowEvent]:
        seconds = (time.monotonic() - self.started) / len(self.attempts)
        return [
            WindowLost(attempt, lost[attempt.job_id])
            if attempt.job_id in lost
            else WindowSucceeded(
                attempt,
                tuple(each[n] for each in self.chain.staged.values()),
                tuple(each[n] for each in self.chain.published.values()),
                seconds,
                self.tries.failed,
                self.timeout.overdue,
                self.chain.checks,
                source_rows=self.chain.source_rows,
            )
            for n, attempt in enumerate(self.attempts)
        ]

    def _failed(self, error: Exception) -> list[WindowEvent]:
        """Log the failure of the windows; several run one by one next (WindowSetBack)."""
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
                f"runs again by itself: in a batch with {others} other windows, step "
                f"{self.chain.current_step} failed: {text}"
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
        staged = tuple(each[0] for each in self.chain.staged.values())
        stands = attempt.was_finished and not self.chain.touched
        return WindowFailed(
            attempt, self.chain.current_step, text, seconds, staged, self.chain.checks, stands
        )

    def _end(self, status: Status, error: str, errors: int) -> Lost:
        """Log an end without success, then remove staged results; a stale runner fails before."""
        staged = self.chain.staged.get(self.chain.current_step, (None,))[0]
        outcome = (
            unsuccessful(staged, status, error)
            if self._is_single
            else StepOutcome(status, error=error)
        )
        ended = AttemptOutcome(
            status,
            self.application_id,
            error_count=errors,
            published_nothing=not self.chain.touched,
        )
        lost = self.journal.fail(self.chain.current_step, outcome, self.chain.staged, ended)
        if lost and self._is_single:
            self._leave_staged()
        else:
            self.chain.discard()
        return lost

    def _leave_staged(self) -> None:
        """Clean up after an attempt that another process ended, unless it resumes the steps."""
        if self.chain.session is None:
            return
        with suppress(RunLogError), self.journal.run_log.read() as conn:
            if not steps.find_staged_results(conn, self.attempts[0].job_id):
                self.chain.discard()


@contextmanager
def logged_interruption(execution: PassExecution) -> Iterator[None]:
    """Log an interruption of the runner during a pass, and raise it again."""
    try:
        yield
    except RunLogError:
        raise  # nothing can be logged: the runner that takes the lease over logs the end
    except BaseException as cause:
        execution.interrupted(cause)
        raise
