"""What an attempt writes to the run log: every transition in a transaction of its own.

Source: Kylin, each transition is persisted before the next action.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy.engine import Connection

from logdriven_dagster.config.secrets import redact
from logdriven_dagster.execution.notifications.rules import Announcer
from logdriven_dagster.model.attempts import Attempt, AttemptOutcome, Counts, Status, StepOutcome
from logdriven_dagster.model.batches import Registry
from logdriven_dagster.model.runs import Published, Staged
from logdriven_dagster.runlog import RunLog, transitions
from logdriven_dagster.runlog.attempts import progress
from logdriven_dagster.runlog.attempts.steps import StepKey
from logdriven_dagster.runlog.observed import audits, quality


@dataclass
class Journal:
    """The log of one attempt, whose first step the claim has begun."""

    run_log: RunLog
    registry: Registry
    attempt: Attempt
    announcer: Announcer
    """Who is told how the attempt ends; nobody learns of an end that is not logged."""
    durable: set[str] = field(default_factory=set)
    """Steps of whose results the log knows."""
    ended: set[str] = field(default_factory=set)
    """Steps whose end the log holds already: views, and what was skipped."""

    def begin(self, step_id: str, staged: Mapping[str, Staged]) -> None:
        """The steps before are durable, and this one runs, maybe once more."""
        self.run_log.write(lambda conn: self.log_begin(conn, step_id, staged))
        self.has_begun(step_id, staged)

    def log_begin(self, conn: Connection, step_id: str, staged: Mapping[str, Staged]) -> None:
        """Log that in a transaction of the caller's, who says so when it is committed."""
        states = self.states(staged)
        transitions.begin_step(conn, self.registry, [self.attempt], step_id, states)

    def has_begun(self, step_id: str, staged: Mapping[str, Staged]) -> None:
        """`log_begin` is committed."""
        self.durable = set(staged)
        self.ended.discard(step_id)

    def persist(self, staged: Mapping[str, Staged]) -> None:
        """All these steps are durable; the lease is as fresh as can be."""
        states = self.states(staged)
        self.run_log.write(lambda conn: transitions.stage(conn, [self.attempt], states))
        self.durable = set(staged)

    def halt(self, step_id: str, outcome: StepOutcome) -> None:
        """A step has ended well, or is passed over, before the attempt ends."""
        self.run_log.write(lambda conn: self.log_halt(conn, step_id, outcome))
        self.ended.add(step_id)

    def note_errors(self, number: int) -> None:
        """How many tries have failed so far."""
        self.run_log.write(lambda conn: progress.note_errors(conn, [self.attempt], number))

    def succeed(
        self,
        published: Sequence[Published],
        staged: Mapping[str, Staged],
        ended: AttemptOutcome,
    ) -> None:
        """The published steps and the attempt succeed together."""
        self.run_log.write(lambda conn: self.log_success(conn, published, staged, ended))

    def log_success(
        self,
        conn: Connection,
        published: Sequence[Published],
        staged: Mapping[str, Staged],
        ended: AttemptOutcome,
    ) -> None:
        """Log the success in a transaction of the caller's."""
        ends = {
            (self.attempt.job_id, done.step_id): succeeded(staged[done.step_id])
            for done in published
        }
        self._record_quality(conn, staged)
        self.record_source_rows(conn, staged)
        transitions.succeed(conn, self.registry, [self.attempt], ended, ends)
        self.announcer.attempt_ended(conn, self.attempt, ended.status)

    def pass_over(self, step_ids: Sequence[str], output: str, ended: AttemptOutcome) -> None:
        """The attempt succeeds without any of its steps: there was nothing to read."""
        nothing = StepOutcome(Status.SKIPPED, Counts(0, 0, 0, 0), output=output)

        def work(conn: Connection) -> None:
            ends = {(self.attempt.job_id, step_id): nothing for step_id in step_ids}
            transitions.succeed(conn, self.registry, [self.attempt], ended, ends)
            self.announcer.nothing_new(conn, self.attempt)

        self.run_log.write(work)

    def fail(
        self,
        step_id: str,
        outcome: StepOutcome,
        staged: Mapping[str, Staged],
        ended: AttemptOutcome,
    ) -> None:
        """The attempt ends without success; the outcome is that of the step that is to blame."""
        self.run_log.write(lambda conn: self.log_failure(conn, step_id, outcome, staged, ended))

    def log_failure(
        self,
        conn: Connection,
        step_id: str,
        outcome: StepOutcome,
        staged: Mapping[str, Staged],
        ended: AttemptOutcome,
    ) -> None:
        """Log that in a transaction of the caller's."""
        self._record_quality(conn, staged)
        transitions.fail(conn, self.registry, [self.attempt], ended, (step_id, outcome))
        self.announcer.attempt_ended(conn, self.attempt, ended.status)

    def note_change(self) -> None:
        """Readers may see something of this refresh from here on."""
        self.run_log.write(lambda conn: progress.note_change(conn, [self.attempt]))

    def log_halt(self, conn: Connection, step_id: str, outcome: StepOutcome) -> None:
        """Write how a step ended, in a transaction of the caller's."""
        ends = {(self.attempt.job_id, step_id): outcome}
        transitions.end_steps(conn, self.registry, [self.attempt], ends)

    def _record_quality(self, conn: Connection, staged: Mapping[str, Staged]) -> None:
        """What was found in rows, whether they are published or not."""
        for step_id, result in staged.items():
            if result.quality is not None:
                quality.record(conn, self.attempt, step_id, result.quality)

    def record_source_rows(self, conn: Connection, staged: Mapping[str, Staged]) -> None:
        """Where the rows of the sources belong that somebody has looked at."""
        for result in staged.values():
            if result.source_rows is not None:
                audits.record(conn, result.source_rows)

    def states(self, staged: Mapping[str, Staged]) -> dict[StepKey, str]:
        """What was staged by which step since the log was told."""
        return {
            (self.attempt.job_id, step_id): result.state
            for step_id, result in staged.items()
            if result.state is not None and step_id not in self.durable
        }


def succeeded(staged: Staged) -> StepOutcome:
    """How a step ended whose result is visible."""
    return StepOutcome(
        Status.SUCCESS,
        staged.counts,
        staged.source_type,
        staged.target_type,
        redact(staged.output),
    )


def unsuccessful(staged: Staged | None, status: Status, error: str) -> StepOutcome:
    """How a step ended that is to blame for the end of its attempt.

    Rows that it has written are failures, too: no reader will ever see them. Source: Sharp ETL.
    """
    if staged is None:
        return StepOutcome(status, Counts(success=0), error=error)
    counts = staged.counts
    failed = None if counts.target is None else counts.target + (counts.failure or 0)
    ended = Counts(counts.source, 0, success=0, failure=failed)
    return replace(succeeded(staged), status=status, counts=ended, error=error)
