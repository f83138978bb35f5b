"""The journal of a pass: every transition is written to the run log in its own transaction.

Source: Kylin, each transition is persisted before the next action.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from sqlalchemy.engine import Connection

from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import AttemptLostError
from logdriven_dagster.model.attempts import Attempt, AttemptOutcome, Counts, Status, StepOutcome
from logdriven_dagster.model.batches import Processes
from logdriven_dagster.model.runs import Staged
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.runlog import RunLog, transitions
from logdriven_dagster.runlog.attempts import progress, steps
from logdriven_dagster.runlog.attempts.steps import StepKey
from logdriven_dagster.runlog.observed import audits, quality

Results: TypeAlias = Mapping[str, tuple[Staged, ...]]
"""Step → its result for each window of the pass."""
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


@dataclass
class Journal:
    """The log of the attempts of one pass, whose first step the claim has begun.

    Methods raise AttemptLostError if an attempt does not belong to this runner any more, unless
    they return the lost attempts.
    """

    run_log: RunLog
    processes: Processes
    attempts: Sequence[Attempt]
    """Attempts at adjoining windows, oldest first; usually a single one."""
    announcer: EndRecorder
    """Recorder of the consequences of an attempt's end."""
    durable: set[str] = field(default_factory=set)
    """Steps whose results are logged."""
    ended: set[str] = field(default_factory=set)
    """Steps whose end is logged already: views and skipped steps."""

    def begin(self, step_id: str, staged: Results) -> None:
        """Log that the previous steps are durable, and that this one runs, possibly again."""
        states = self._states(staged)
        self.run_log.write(
            lambda conn: transitions.begin_step(
                conn, self.processes, self.attempts, step_id, states
            )
        )
        self.durable = set(staged)
        self.ended.discard(step_id)

    def persist(self, staged: Results) -> None:
        """Log that all these steps are durable, before anything of them is published."""
        states = self._states(staged)
        if states:
            self.run_log.write(lambda conn: steps.stage(conn, states), alone=len(states) == 1)
        self.durable = set(staged)

    def halt(self, ends: Mapping[str, Sequence[StepOutcome]]) -> None:
        """Log that steps have succeeded, or are skipped, before the attempts end."""
        keyed = {key: end for step_id in ends for key, end in self._keyed(step_id, ends[step_id])}
        self.run_log.write(
            lambda conn: transitions.end_steps(conn, self.processes, self.attempts, keyed)
        )
        self.ended |= set(ends)

    def note_errors(self, number: int) -> None:
        """Log the number of failed tries so far."""
        self.run_log.write(lambda conn: progress.note_errors(conn, self.attempts, number))

    def note_change(self) -> None:
        """Log that readers may see changes of the refreshes among the attempts from here on."""
        refreshes = [each for each in self.attempts if each.was_finished or each.claim.replaces]
        if refreshes:
            self.run_log.write(lambda conn: progress.note_change(conn, refreshes))

    def succeed(self, published: Collection[str], staged: Results, ended: AttemptOutcome) -> Lost:
        """Log that the published steps and the attempts succeed together; return lost attempts."""
        ends = {
            key: end
            for step_id in published
            for key, end in self._keyed(step_id, [succeeded(each) for each in staged[step_id]])
        }

        def work(conn: Connection, attempts: Sequence[Attempt]) -> None:
            jobs = {attempt.job_id for attempt in attempts}
            self._record_quality(conn, attempts, staged)
            self._record_source_rows(conn, staged)
            mine = {key: end for key, end in ends.items() if key[0] in jobs}
            transitions.succeed(conn, self.processes, attempts, ended, mine)
            for attempt in attempts:
                self.announcer.attempt_ended(conn, attempt, ended.status)

        return self._at_once_or_one_by_one(work)

    def pass_over(
        self,
        step_ids: Collection[str],
        output: str,
        ended: AttemptOutcome,
        source_rows: SourceRows | None,
    ) -> None:
        """Log that the attempts succeed without steps, since there was nothing to read.

        `source_rows` are the rows of the source, if they were counted.
        """
        outside = source_rows.outside if source_rows else None
        counts = Counts(0, 0, 0, 0, outside=outside)
        nothing = StepOutcome(Status.SKIPPED, counts, output=output)
        ends = {(each.job_id, step_id): nothing for each in self.attempts for step_id in step_ids}

        def work(conn: Connection) -> None:
            if source_rows is not None:
                audits.record(conn, source_rows)
            transitions.succeed(conn, self.processes, self.attempts, ended, ends)
            for attempt in self.attempts:
                self.announcer.nothing_new(conn, attempt)

        self.run_log.write(work)

    def fail(
        self, step_id: str, outcome: StepOutcome, staged: Results, ended: AttemptOutcome
    ) -> Lost:
        """Log that the attempts end without success; return lost attempts.

        `outcome` is that of the failed step.
        """

        def work(conn: Connection, attempts: Sequence[Attempt]) -> None:
            self._record_quality(conn, attempts, staged)
            transitions.fail(conn, self.processes, attempts, ended, (step_id, outcome))
            for attempt in attempts:
                self.announcer.attempt_ended(conn, attempt, ended.status)

        return self._at_once_or_one_by_one(work)

    def _at_once_or_one_by_one(self, work: Callable[[Connection, Sequence[Attempt]], None]) -> Lost:
        """Write to the log of all attempts; if one of them was lost, to that of each other one."""
        try:
            self.run_log.write(lambda conn: work(conn, self.attempts))
        except AttemptLostError:
            return {each.job_id: lost for each in self.attempts if (lost := self._lost(work, each))}
        return {}

    def _lost(
        self, work: Callable[[Connection, Sequence[Attempt]], None], attempt: Attempt
    ) -> AttemptLostError | None:
        try:
            self.run_log.write(lambda conn: work(conn, [attempt]))
        except AttemptLostError as lost:
            return lost
        return None

    def _record_quality(
        self, conn: Connection, attempts: Sequence[Attempt], staged: Results
    ) -> None:
        """Log the results of quality rules, even if the rows are not published."""
        jobs = {attempt.job_id for attempt in attempts}
        for step_id, results in staged.items():
            for attempt, result in zip(self.attempts, results, strict=True):
                if result.quality is not None and attempt.job_id in jobs:
                    quality.record(conn, attempt, step_id, result.quality)

    def _record_source_rows(self, conn: Connection, staged: Results) -> None:
        """Log the counts of source rows by window, if all of them were counted."""
        for results in staged.values():
            for result in results:
                if result.source_rows is not None:
                    audits.record(conn, result.source_rows)

    def _states(self, staged: Results) -> dict[StepKey, str]:
        """Return the states of the steps that were staged since the last write to the log."""
        return {
            (attempt.job_id, step_id): result.state
            for step_id, results in staged.items()
            if step_id not in self.durable
            for attempt, result in zip(self.attempts, results, strict=True)
            if result.state is not None
        }

    def _keyed(
        self, step_id: str, outcomes: Sequence[StepOutcome]
    ) -> Iterator[tuple[StepKey, StepOutcome]]:
        for attempt, outcome in zip(self.attempts, outcomes, strict=True):
            yield (attempt.job_id, step_id), outcome


def succeeded(staged: Staged) -> StepOutcome:
    """Return the outcome of a step whose result is visible."""
    return StepOutcome(
        Status.SUCCESS,
        staged.counts,
        staged.source_type,
        staged.target_type,
        redact(staged.output),
    )


def unsuccessful(staged: Staged | None, status: Status, error: str) -> StepOutcome:
    """Return the outcome of the step that caused the end of its attempt.

    Rows that it has written are failures, too: no reader will ever see them. Source: Sharp ETL.
    """
    if staged is None:
        return StepOutcome(status, Counts(success=0), error=error)
    counts = staged.counts
    failed = None if counts.target is None else counts.target + (counts.failure or 0)
    ended = Counts(counts.source, 0, success=0, failure=failed)
    return replace(succeeded(staged), status=status, counts=ended, error=error)
