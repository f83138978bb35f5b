"""The journal of a pass: every transition is written to the run log in its own transaction.

Source: Kylin, each transition is persisted before the next action.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import AttemptLostError
from logdriven_dagster.execution.window.state import PassState
from logdriven_dagster.model.attempts import Attempt, AttemptOutcome, Counts, Status, StepOutcome
from logdriven_dagster.model.batches import Processes
from logdriven_dagster.model.runs import Published, Staged
from logdriven_dagster.runlog import RunLog, transitions
from logdriven_dagster.runlog.attempts import progress, steps
from logdriven_dagster.runlog.attempts.steps import StepKey
from logdriven_dagster.runlog.observed import audits, quality, source_changes, source_files

Lost: TypeAlias = dict[int, AttemptLostError]
"""Job → the error, for attempts that another process has ended."""


class EndRecorder(Protocol):
    """Protocol of recorders that write the consequences of an attempt's end, in its transaction.

    It is not a listener: an end that is not logged has no consequences, and a logged one has all.
    """

    def attempt_ended(self, conn: Connection, attempt: Attempt, status: Status) -> None:
        """Record that an attempt has ended by itself."""

    def nothing_new(self, conn: Connection, attempt: Attempt) -> None:
        """Record that an attempt has succeeded because its source had nothing new."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The log of the attempts of one pass, whose first step the claim has begun.

    Methods write the given state. They raise AttemptLostError if an attempt does not belong to this
    runner any more, unless they return the lost attempts.
    """

    run_log: RunLog
    table: TableConfig
    """The table as the attempts run it."""
    processes: Processes
    recorder: EndRecorder
    """Recorder of the consequences of an attempt's end."""

    def begin(self, state: PassState) -> None:
        """Log that the previous steps are durable, and that the current one runs."""
        results = _undurable_states(state)
        self.run_log.write(
            lambda conn: transitions.begin_step(
                conn, self.processes, state.attempts, state.step, results
            )
        )

    def persist(self, state: PassState) -> None:
        """Log that all staged steps are durable, before anything of them is published."""
        results = _undurable_states(state)
        if results:
            self.run_log.write(lambda conn: steps.stage(conn, results), alone=len(results) == 1)

    def halt(self, state: PassState, ends: Mapping[str, Sequence[StepOutcome]]) -> None:
        """Log that steps have succeeded, or are skipped, before the attempts end."""
        keyed = _keyed(state.attempts, ends)
        self.run_log.write(
            lambda conn: transitions.end_steps(conn, self.processes, state.attempts, keyed)
        )

    def note_errors(self, state: PassState) -> None:
        """Log the number of failed tries so far."""
        self.run_log.write(lambda conn: progress.note_errors(conn, state.attempts, state.failures))

    def note_change(self, state: PassState) -> None:
        """Log that readers may see changes of the refreshes among the attempts from here on."""
        refreshes = [each for each in state.attempts if each.was_finished or each.claim.replaces]
        if refreshes:
            self.run_log.write(lambda conn: progress.note_change(conn, refreshes))

    def succeed(self, state: PassState, ended: AttemptOutcome) -> Lost:
        """Log that the published steps and the attempts succeed together; return lost attempts."""
        ends = _keyed(
            state.attempts,
            {
                step: [
                    _with_target(build_success(staged), done)
                    for staged, done in zip(state.staged[step], published, strict=True)
                ]
                for step, published in state.published.items()
            },
        )

        def work(conn: Connection, attempts: Sequence[Attempt]) -> None:
            jobs = {attempt.job_id for attempt in attempts}
            _record_quality(conn, state, attempts)
            self._record_source_rows(conn, state)
            mine = {key: end for key, end in ends.items() if key[0] in jobs}
            transitions.succeed(conn, self.processes, attempts, ended, mine)
            for attempt in attempts:
                self.recorder.attempt_ended(conn, attempt, ended.status)

        return self._at_once_or_one_by_one(state.attempts, work)

    def pass_over(
        self, state: PassState, step_ids: Collection[str], output: str, ended: AttemptOutcome
    ) -> None:
        """Log that the attempts succeed without steps, since there was nothing to read."""
        source_rows = state.source_rows
        outside = source_rows.outside if source_rows else None
        nothing = StepOutcome(Status.SKIPPED, Counts(0, 0, 0, 0, outside=outside), output=output)
        ends = {(each.job_id, step): nothing for each in state.attempts for step in step_ids}

        def work(conn: Connection) -> None:
            if source_rows is not None:
                jobs = [each.job_id for each in state.attempts]
                audits.record(conn, source_rows, self.table, jobs)
            transitions.succeed(conn, self.processes, state.attempts, ended, ends)
            for attempt in state.attempts:
                self.recorder.nothing_new(conn, attempt)

        self.run_log.write(work)

    def fail(self, state: PassState, outcome: StepOutcome, ended: AttemptOutcome) -> Lost:
        """Log that the attempts end without success; return lost attempts.

        `outcome` is that of the current step.
        """

        def work(conn: Connection, attempts: Sequence[Attempt]) -> None:
            _record_quality(conn, state, attempts)
            transitions.fail(conn, self.processes, attempts, ended, (state.step, outcome))
            for attempt in attempts:
                self.recorder.attempt_ended(conn, attempt, ended.status)

        return self._at_once_or_one_by_one(state.attempts, work)

    def _record_source_rows(self, conn: Connection, state: PassState) -> None:
        """Log the counts of source rows by window, and the files of the windows."""
        jobs = [attempt.job_id for attempt in state.attempts]
        for results in state.staged.values():
            for result in results:
                if result.listed_files:
                    step, files = result.step_id, result.listed_files
                    source_changes.close_read(conn, self.table, step, files, jobs)
                if result.source_rows is not None:
                    audits.record(conn, result.source_rows, self.table, jobs)
                if result.window_files and self.table.on_source_change != "ignore":
                    step, found = result.step_id, result.window_files
                    changed = source_files.record_window_files(conn, self.table.table, step, found)
                    source_changes.record_changes(conn, self.table, step, changed, jobs)

    def _at_once_or_one_by_one(
        self,
        attempts: Sequence[Attempt],
        work: Callable[[Connection, Sequence[Attempt]], None],
    ) -> Lost:
        """Write to the log of all attempts; if one of them was lost, to that of each other one."""
        try:
            self.run_log.write(lambda conn: work(conn, attempts))
        except AttemptLostError:
            return {each.job_id: lost for each in attempts if (lost := self._find_lost(work, each))}
        return {}

    def _find_lost(
        self, work: Callable[[Connection, Sequence[Attempt]], None], attempt: Attempt
    ) -> AttemptLostError | None:
        try:
            self.run_log.write(lambda conn: work(conn, [attempt]))
        except AttemptLostError as lost:
            return lost
        return None


def _record_quality(conn: Connection, state: PassState, attempts: Sequence[Attempt]) -> None:
    """Log the results of quality rules, even if the rows are not published."""
    jobs = {attempt.job_id for attempt in attempts}
    for step_id, results in state.staged.items():
        for attempt, result in zip(state.attempts, results, strict=True):
            if result.quality is not None and attempt.job_id in jobs:
                quality.record(conn, attempt, step_id, result.quality)


def _undurable_states(state: PassState) -> dict[StepKey, str]:
    """Return the states of the steps that were staged since the last write to the log."""
    return {
        (attempt.job_id, step_id): result.state
        for step_id, results in state.staged.items()
        if step_id not in state.durable
        for attempt, result in zip(state.attempts, results, strict=True)
        if result.state is not None
    }


def _keyed(
    attempts: Sequence[Attempt], ends: Mapping[str, Sequence[StepOutcome]]
) -> dict[StepKey, StepOutcome]:
    return {
        (attempt.job_id, step_id): outcome
        for step_id, outcomes in ends.items()
        for attempt, outcome in zip(attempts, outcomes, strict=True)
    }


def build_success(staged: Staged) -> StepOutcome:
    """Return the outcome of a step whose result is visible."""
    return StepOutcome(
        Status.SUCCESS,
        staged.counts,
        staged.source_type,
        staged.target_type,
        redact(staged.output),
    )


def _with_target(outcome: StepOutcome, published: Published) -> StepOutcome:
    return replace(outcome, target=redact(published.target), snapshot_id=published.snapshot_id)


def unsuccessful(staged: Staged | None, status: Status, error: str) -> StepOutcome:
    """Return the outcome of the step that caused the end of its attempt.

    Rows that it has written are failures, too: no reader will ever see them. Source: Sharp ETL.
    """
    if staged is None:
        return StepOutcome(status, Counts(success=0), error=error)
    counts = staged.counts
    failed = None if counts.target is None else counts.target + (counts.failure or 0)
    ended = Counts(counts.source, 0, success=0, failure=failed)
    return replace(build_success(staged), status=status, counts=ended, error=error)
