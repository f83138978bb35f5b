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
from logdriven_dagster.runlog import RunLog, lifecycle
from logdriven_dagster.runlog.attempts import steps
from logdriven_dagster.runlog.attempts import writes as attempts
from logdriven_dagster.runlog.observed import audits, quality


@dataclass
class Journal:
    """The log of one attempt, whose first step the claim has begun."""

    run_log: RunLog
    registry: Registry
    attempt: Attempt
    announcer: Announcer
    """Who is told how the attempt ends; nobody learns of an end that is not logged."""
    begun: set[str] = field(default_factory=set)
    """Steps that are RUNNING in the log, or were."""
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
        self.log_staged(conn, staged)
        if step_id in self.begun:
            attempts.start_step(conn, self.attempt, step_id)
        else:
            lifecycle.init_step(conn, self.registry, self.attempt, step_id)

    def has_begun(self, step_id: str, staged: Mapping[str, Staged]) -> None:
        """`log_begin` is committed."""
        self.durable = set(staged)
        self.begun.add(step_id)
        self.ended.discard(step_id)

    def persist(self, staged: Mapping[str, Staged]) -> None:
        """All these steps are durable; the lease is as fresh as can be."""
        self.run_log.write(lambda conn: self.log_staged(conn, staged))
        self.durable = set(staged)

    def halt(self, step_id: str, outcome: StepOutcome) -> None:
        """A step has ended well, or is passed over, before the attempt ends."""
        self.run_log.write(lambda conn: self.log_halt(conn, step_id, outcome))
        self.ended.add(step_id)

    def note_errors(self, number: int) -> None:
        """How many tries have failed so far."""
        self.run_log.write(lambda conn: attempts.note_errors(conn, self.attempt, number))

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
        for done in published:
            self.log_halt(conn, done.step_id, succeeded(staged[done.step_id]))
        self._record_quality(conn, staged)
        self.record_source_rows(conn, staged)
        lifecycle.halt_job(conn, self.registry, self.attempt, ended)
        self.announcer.attempt_ended(conn, self.attempt, ended.status)

    def pass_over(self, step_ids: Sequence[str], output: str, ended: AttemptOutcome) -> None:
        """The attempt succeeds without any of its steps: there was nothing to read."""
        nothing = StepOutcome(Status.SKIPPED, Counts(0, 0, 0, 0), output=output)

        def work(conn: Connection) -> None:
            for step_id in step_ids:
                self.log_halt(conn, step_id, nothing)
            lifecycle.halt_job(conn, self.registry, self.attempt, ended)
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
        running = steps.running(conn, self.attempt.job_id)
        blamed = step_id if step_id in running else next(iter(running), "")
        for each in running:
            ends = outcome if each == blamed else StepOutcome(outcome.status)
            lifecycle.term_step(conn, self.registry, self.attempt, each, ends)
        self._record_quality(conn, staged)
        lifecycle.term_job(conn, self.registry, self.attempt, ended)
        self.announcer.attempt_ended(conn, self.attempt, ended.status)

    def note_change(self) -> None:
        """Readers may see something of this refresh from here on."""
        self.run_log.write(lambda conn: attempts.note_change(conn, [self.attempt]))

    def log_halt(self, conn: Connection, step_id: str, outcome: StepOutcome) -> None:
        """Write how a step ended, in a transaction of the caller's."""
        lifecycle.halt_step(conn, self.registry, self.attempt, step_id, outcome)

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

    def log_staged(self, conn: Connection, staged: Mapping[str, Staged]) -> None:
        """Write what was staged by which step, in a transaction of the caller's."""
        for step_id, result in staged.items():
            if result.state is not None and step_id not in self.durable:
                attempts.stage_step(conn, self.attempt, step_id, result.state)


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
