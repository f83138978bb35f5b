"""The execution of one pass: its chain of steps, with retries and a time limit.

A pass has one window, or several adjoining ones of a table, each with its own attempt, lease, steps
and counts in the log. If a pass of several fails, for any reason, its attempts end as DISCARDED and
the windows run in smaller passes, until the one that cannot run fails by itself.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from logdriven_dagster.engine.spark.actions import run_checks, watch_actions
from logdriven_dagster.errors import (
    AttemptLostError,
    BadQualityError,
    EnvironmentStepError,
    RunLogError,
    SparkDiedError,
    TerminalStepError,
    TimeoutStepError,
    TooMuchDataError,
    TransientStepError,
    UnmetNeedError,
    in_brief,
)
from logdriven_dagster.execution.events import WindowEvent, WindowLost
from logdriven_dagster.execution.window.chain import Chain
from logdriven_dagster.execution.window.discovery import SourceDiscovery, needs_discovery
from logdriven_dagster.execution.window.endings import Ending
from logdriven_dagster.execution.window.journal import Journal, Lost
from logdriven_dagster.execution.window.leases import HeldLease
from logdriven_dagster.execution.window.listeners import Interruption, Listeners
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.execution.window.sessions import Engine, WindowSession
from logdriven_dagster.execution.window.state import PassState
from logdriven_dagster.execution.window.timeouts import Timeout, pause
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.runlog.attempts import steps

_VERDICTS = (BadQualityError, TimeoutStepError, TooMuchDataError)
"""Errors about rows or time, which another engine would raise again."""

logger = logging.getLogger(__name__)


@dataclass
class PassExecution:
    """The execution of the chain of one pass, with the retries of the table and logged outcomes.

    It holds the newest state of the pass; steps receive a state and yield changed ones. `execute`
    raises nothing for a step that fails. A single attempt that is lost leaves its staged results:
    another runner may continue with them.
    """

    order: Order
    journal: Journal
    state: PassState
    discovery: SourceDiscovery
    lease: HeldLease
    listeners: Listeners
    session: WindowSession | None = field(default=None, init=False)
    """The last session of an engine, which has the staged results."""

    def __post_init__(self) -> None:
        self.timeout = Timeout.of_pass(self.order.table, [run.window for run in self.state.runs])
        self.ending = Ending(self.order, self.journal, self.discovery, self.timeout)

    def execute(
        self, engine: Callable[[], Engine], other: Callable[[], Engine] | None = None
    ) -> list[WindowEvent]:
        """Run the steps, with the retries of the table; return the outcome of each window.

        If `engine` cannot run a step, `other` runs the pass, if there is another engine.
        Raises UnmetNeedError if the machine or its network lacks something: no window has failed.
        """
        try:
            if needs_discovery(self.state.runs[0]):
                self._run_until_done(self._discover)
                if self.ending.has_nothing_to_do(self.state):
                    return self.ending.skip_steps(self.state)
            try:
                self._run(engine)
            except TerminalStepError as error:
                if other is None or not self.state.can_restart or isinstance(error, _VERDICTS):
                    raise
                self._fall_back(other, error)
        except (RunLogError, UnmetNeedError):
            raise
        except EnvironmentStepError as error:
            raise UnmetNeedError(error.need, f"{in_brief(str(error))}; {error.fix}") from None
        except Exception as error:  # noqa: BLE001 - any step error is the failure
            return self._fail(error)
        return self._finish()

    def record_interruption(self, cause: BaseException) -> None:
        """Log the attempts as DISCARDED, because their runner is being stopped, and clean up.

        They may have just ended, or the log may be unreachable: the interruption goes on.
        """
        state = self.state
        with suppress(AttemptLostError, RunLogError):
            why = str(cause) if isinstance(cause, UnmetNeedError) else type(cause).__name__
            text = f"interrupted: {why}"
            self._clean(self.ending.stop(state, Status.DISCARDED, text, state.failures))
            self.listeners.on_interruption(
                state.attempts, Interruption(state.step, state.application_id, text)
            )

    def _discover(self, state: PassState) -> Iterator[PassState]:
        """Determine the end of the slice by its source, and log it before anything is read."""
        found = self.discovery.discover(state.attempts[0], state.runs[0])
        yield replace(
            state,
            attempts=(found.attempt,),
            runs=(found.run,),
            notes=found.notes,
            source_rows=found.source_rows,
        )

    def _run(self, engine: Callable[[], Engine]) -> None:
        """Run the chain, in a second Spark if the first one dies."""
        try:
            self._run_in(engine())
        except SparkDiedError as died:
            if not self.state.can_restart:
                raise
            logger.warning("spark_died: %s: %s", self.state.attempts[0], died)
            self._restart()
            self._run_in(engine())

    def _run_in(self, engine: Engine) -> None:
        self.state = replace(self.state, application_id=engine.application_id)
        with (
            watch_actions(self._check_limits),
            engine.open_session(self.state.runs, self.order.project) as self.session,
        ):
            chain = Chain(
                self.order, self.journal, self.discovery, self.lease, self.listeners, self.session
            )
            self._run_until_done(chain.run)

    def _run_until_done(self, work: Callable[[PassState], Iterable[PassState]]) -> None:
        """Do work, and repeat it after a transient error and a pause, up to `retries` times."""
        while True:
            try:
                changes = work(self.state)
                for self.state in changes:  # the last one is kept if the work fails
                    pass
            except Exception as error:
                self.state = replace(self.state, failures=self.state.failures + 1)
                if not self._may_retry(error):
                    raise
                self.journal.note_errors(self.state)
                pause(self.order.table.retry_interval.total_seconds(), self._check_all)
            else:
                return

    def _may_retry(self, error: Exception) -> bool:
        """Return True if a retry may help and is left; several windows have no retries together."""
        if not self.state.is_single or isinstance(error, SparkDiedError):
            return False
        left = self.order.table.retries - (self.state.failures - self.state.restarts)
        return isinstance(error, TransientStepError) and left >= 0

    def _fall_back(self, other: Callable[[], Engine], error: TerminalStepError) -> None:
        """Run the steps on another engine, from the first one, and log the reason."""
        why = str(error).partition("\n")[0]
        logger.warning("engine_changed: %s: %s", self.state.attempts[0], why)
        notes = f"{self.state.application_id} could not run it: {why}"
        self.state = replace(self.state, notes=notes)
        self._restart()
        try:
            self._run(other)
        except UnmetNeedError as unmet:  # only this window lacks it, not the others
            raise TerminalStepError(
                f"{error}; the fallback engine failed as well: {unmet}"
            ) from error

    def _restart(self) -> None:
        """Return to the first step for the next engine: the old views are gone. Costs no retry."""
        self._discard()
        state = self.state.without_staged()
        self.state = replace(state, is_fenced=False, restarts=state.restarts + 1)
        self.journal.note_errors(self.state)

    def _check_limits(self) -> None:
        self.lease.check()
        self.timeout.check()

    def _check_all(self) -> None:
        """Raise if waiting is useless."""
        self._check_limits()
        run_checks()

    def _finish(self) -> list[WindowEvent]:
        return self.ending.finish(self.state)

    def _fail(self, error: Exception) -> list[WindowEvent]:
        attempt = self.state.attempts[0]
        if self.state.is_single and isinstance(error, AttemptLostError):
            self._leave_staged()
            return [WindowLost(attempt, error)]
        return self.ending.fail(self.state, error, self._clean)

    def _clean(self, lost: Lost) -> None:
        """Remove staged results after the end is logged; a stale runner has failed before."""
        if lost and self.state.is_single:
            self._leave_staged()
        else:
            self._discard()

    def _leave_staged(self) -> None:
        """Clean up after an attempt that another process ended, unless it resumes the steps."""
        if self.session is None:
            return
        with suppress(RunLogError), self.journal.run_log.read() as conn:
            if not steps.find_staged_results(conn, self.state.attempts[0].job_id):
                self._discard()

    def _discard(self) -> None:
        """Remove staged results, if there has ever been a session."""
        if self.session is not None:
            self.session.discard()


@contextmanager
def log_interruption(execution: PassExecution) -> Iterator[None]:
    """Log an interruption of the runner during a pass, and raise it again."""
    try:
        yield
    except RunLogError:
        raise  # nothing can be logged: the runner that takes the lease over logs the end
    except BaseException as cause:
        execution.record_interruption(cause)
        raise
