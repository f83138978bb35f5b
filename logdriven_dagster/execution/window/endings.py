"""The end of a pass: it is logged in one transaction, and becomes an event for each window."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from logdriven_dagster.config.models.incremental.batches import get_file_source
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import LogdrivenError
from logdriven_dagster.execution.events import (
    WindowEvent,
    WindowFailed,
    WindowLost,
    WindowSetBack,
    WindowSucceeded,
)
from logdriven_dagster.execution.window.discovery import SourceDiscovery
from logdriven_dagster.execution.window.journal import Journal, Lost, unsuccessful
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.execution.window.state import PassState
from logdriven_dagster.execution.window.timeouts import Timeout
from logdriven_dagster.model.attempts import Attempt, AttemptOutcome, Status, StepOutcome
from logdriven_dagster.model.windows import Slice


@dataclass(frozen=True, slots=True)
class Ending:
    """The ways in which a pass ends: published, without anything to read, or failed."""

    order: Order
    journal: Journal
    discovery: SourceDiscovery
    timeout: Timeout
    started: float = field(default_factory=time.monotonic)

    def finish(self, state: PassState) -> list[WindowEvent]:
        """Log that the published steps and the attempts succeed together, in one transaction."""
        # All windows of a pass have read the same files.
        files = [name for staged in state.staged.values() for name in staged[0].current_files]
        ended = AttemptOutcome(
            Status.SUCCESS, state.application_id, ",".join(files) or None, state.failures
        )
        lost = self.journal.succeed(state, ended)
        if state.runs[0].files and not lost:
            self.discovery.apply_after_success(state.runs[0])
        return self._succeeded(state, lost)

    def has_nothing_to_do(self, state: PassState) -> bool:
        """Return True if a slice is empty, and no step may run without files."""
        window = state.attempts[0].window
        if not (isinstance(window, Slice) and window.is_empty):
            return False
        table = self.order.table
        return not table.incremental.registers_files or get_file_source(table).on_empty != "succeed"

    def skip_steps(self, state: PassState) -> list[WindowEvent]:
        """Log a success of windows for which there was nothing to read. Source: Sharp ETL."""
        start = state.attempts[0].window.range_start
        rows = state.source_rows
        output = "; ".join(filter(None, [state.notes, rows.message if rows else ""]))
        output = output or (f"nothing new after {start}" if start else "nothing new")
        ended = AttemptOutcome(Status.SUCCESS, error_count=state.failures)
        self.journal.pass_over(state, [step.step for step in self.order.steps], output, ended)
        return self._succeeded(state, {})

    def fail(
        self, state: PassState, error: Exception, clean: Callable[[Lost], None]
    ) -> list[WindowEvent]:
        """Log the failure of the windows; several run in smaller batches next (WindowSetBack).

        `clean` removes staged results, given the lost attempts.
        """
        text = redact(str(error) or type(error).__name__)
        if state.is_single and not isinstance(error, LogdrivenError):
            text = f"{type(error).__name__}: {text}"
        status = Status.FAILURE
        if not state.is_single:
            status, others = Status.DISCARDED, len(state.attempts) - 1
            text = (
                f"runs again in a smaller batch: in one with {others} other windows, step "
                f"{state.step} failed: {text}"
            )
        lost = self.stop(state, status, text, max(state.failures, 1))
        clean(lost)
        return [
            WindowLost(each, lost[each.job_id])
            if each.job_id in lost
            else self._as_failed(state, each, text)
            for each in state.attempts
        ]

    def stop(self, state: PassState, status: Status, error: str, errors: int) -> Lost:
        """Log an end without success; return lost attempts."""
        staged = state.staged.get(state.step, (None,))[0]
        outcome = (
            unsuccessful(staged, status, error)
            if state.is_single
            else StepOutcome(status, error=error)
        )
        ended = AttemptOutcome(
            status,
            state.application_id,
            error_count=errors,
            published_nothing=not state.is_visible,
        )
        return self.journal.fail(state, outcome, ended)

    def _succeeded(self, state: PassState, lost: Lost) -> list[WindowEvent]:
        seconds = (time.monotonic() - self.started) / len(state.attempts)
        return [
            WindowLost(attempt, lost[attempt.job_id])
            if attempt.job_id in lost
            else WindowSucceeded(
                attempt,
                tuple(each[n] for each in state.staged.values()),
                tuple(each[n] for each in state.published.values()),
                seconds,
                state.failures,
                self.timeout.overdue,
                state.checks,
                source_rows=state.source_rows,
            )
            for n, attempt in enumerate(state.attempts)
        ]

    def _as_failed(
        self, state: PassState, attempt: Attempt, text: str
    ) -> WindowFailed | WindowSetBack:
        if not state.is_single:
            return WindowSetBack(attempt, text)
        seconds = time.monotonic() - self.started
        staged = tuple(each[0] for each in state.staged.values())
        stands = attempt.was_finished and not state.is_visible
        return WindowFailed(attempt, state.step, text, seconds, staged, state.checks, stands)
