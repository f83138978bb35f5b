"""The steps of a stretch: adjoining windows of one table, claimed together and run in one pass.

Each window has its own attempt, with its own lease, steps and counts in the log; what is a
transaction of one attempt elsewhere is one of all of them here. Whatever goes wrong, the attempts
end as DISCARDED and the windows run one by one, so that the log names the bad one.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from sqlalchemy.engine import Connection

from logdriven_dagster.config import Project
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.config.sql.stretching import stretch_obstacle
from logdriven_dagster.engine import Engine, WindowSession
from logdriven_dagster.engine.spark.actions import watched_by
from logdriven_dagster.errors import AttemptLostError, RunLogError
from logdriven_dagster.execution.events import (
    WindowEvent,
    WindowLost,
    WindowSetBack,
    WindowSucceeded,
)
from logdriven_dagster.execution.window.journal import Journal, succeeded
from logdriven_dagster.execution.window.leases import HeldLease
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.execution.window.timeouts import Timeout
from logdriven_dagster.execution.window.verdicts import refuse
from logdriven_dagster.model.attempts import Attempt, AttemptOutcome, Status, StepOutcome
from logdriven_dagster.model.batches import Registry
from logdriven_dagster.model.runs import Published, Staged, WindowRun
from logdriven_dagster.runlog import RunLog, transitions
from logdriven_dagster.runlog.attempts import progress
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.attempts.steps import StepKey

MOST = 1000
"""The most windows of a stretch: each has a row in the transactions of all."""


def most_together(order: Order) -> int:
    """How many windows of the table may run in one pass."""
    table, size = order.table, order.arguments.batch_size or order.table.batch_size
    if size == 1 or order.made_outside or order.steps != table.steps:
        return 1
    if stretch_obstacle(order.project, table) is not None:
        return 1
    return MOST if size == "all" else min(size, MOST)


@dataclass
class Part:
    """One window of a stretch on its way."""

    journal: Journal
    run: WindowRun
    staged: dict[str, Staged] = field(default_factory=dict)
    published: list[Published] = field(default_factory=list)

    @property
    def attempt(self) -> Attempt:
        return self.journal.attempt

    def key(self, step_id: str) -> StepKey:
        return self.attempt.job_id, step_id


@dataclass
class StretchChain:
    """The attempts of a stretch on their way through the steps. Source: as `chain.Chain`."""

    run_log: RunLog
    project: Project
    table: TableConfig
    parts: Sequence[Part]
    """Oldest window first; the claim has begun the first step of each."""
    lease: HeldLease
    started: float = field(default_factory=time.monotonic)
    current_step: str = ""
    application_id: str | None = None
    session: WindowSession | None = None
    touched: bool = False
    """Whether it has begun to publish."""

    def __post_init__(self) -> None:
        self.current_step = self.table.steps[0].step
        limit = self.table.timeout
        given = None if limit is None else limit * len(self.parts)
        settings = self.table.model_copy(update={"timeout": given})
        self.timeout = Timeout(settings, f"{self.table.table} from {self._attempts[0].window} on")

    @property
    def _attempts(self) -> list[Attempt]:
        return [part.attempt for part in self.parts]

    def execute(self, engine: Callable[[], Engine]) -> list[WindowEvent]:
        """Run the steps; how each window ended, or that it runs by itself next."""
        try:
            spark_engine = engine()
            self.application_id = spark_engine.application_id
            runs = [part.run for part in self.parts]
            with (
                watched_by(self._check),
                spark_engine.window(runs, self.project) as self.session,
            ):
                self._run(self.session)
        except RunLogError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a step raises is how it failed
            return self._set_back(error)
        return self._finish()

    def interrupted(self, cause: BaseException) -> None:
        """Log the attempts as DISCARDED, because their runner is being stopped, and clean up."""
        with suppress(AttemptLostError, RunLogError):
            self._discard(f"interrupted: {type(cause).__name__}", 0)

    def _check(self) -> None:
        self.lease.check()
        self.timeout.check()

    def _run(self, session: WindowSession) -> None:
        again = [part.run for part in self.parts if part.attempt.previous is Status.DISCARDED]
        if again:
            session.fence(again)
        for step in self.table.steps:
            self._stage(session, step)
        self.run_log.write(self._log_staged)
        self.current_step = [step.step for step in self.table.steps if step.target][-1]
        for check in self.table.checks:
            session.check(check)
        for step in self.table.steps:
            if step.target is not None:
                self.current_step = step.step
                self._touch()
                done = session.publish(step.step, self.lease.verify)
                for part, published in zip(self.parts, done, strict=True):
                    part.published.append(published)

    def _touch(self) -> None:
        """Readers may see something from here on; of refreshes the log must know that before."""
        refreshes = [attempt for attempt in self._attempts if attempt.was_finished]
        if refreshes and not self.touched:
            self.run_log.write(lambda conn: progress.note_change(conn, refreshes))
        self.touched = True

    def _stage(self, session: WindowSession, step: StepConfig) -> None:
        self.current_step = step.step
        if step is not self.table.steps[0]:
            self._begin(step.step)
        for part, staged in zip(self.parts, session.stage(step), strict=True):
            part.staged[step.step] = staged
            refuse(step, staged)
        if step.target is None:
            ends = {p.key(step.step): succeeded(p.staged[step.step]) for p in self.parts}
            self.run_log.write(
                lambda conn: transitions.end_steps(conn, self._registry, self._attempts, ends)
            )
            for part in self.parts:
                part.journal.ended.add(step.step)

    def _log_staged(self, conn: Connection) -> None:
        transitions.stage(conn, self._attempts, self._states())

    def _states(self) -> dict[StepKey, str]:
        return {k: v for part in self.parts for k, v in part.journal.states(part.staged).items()}

    @property
    def _registry(self) -> Registry:
        return self.parts[0].journal.registry

    def _begin(self, step_id: str) -> None:
        self.run_log.write(
            lambda conn: transitions.begin_step(
                conn, self._registry, self._attempts, step_id, self._states()
            )
        )
        for part in self.parts:
            part.journal.has_begun(step_id, part.staged)

    def _finish(self) -> list[WindowEvent]:
        """All attempts succeed together; if one was lost in the last moment, one by one."""
        try:
            self.run_log.write(self._succeed_together)
        except AttemptLostError:
            return [self._finished_alone(part) for part in self.parts]
        return [self._succeeded(part) for part in self.parts]

    def _succeed_together(self, conn: Connection) -> None:
        outcomes = {
            part.key(done.step_id): succeeded(part.staged[done.step_id])
            for part in self.parts
            for done in part.published
        }
        ended = self._ended(self.parts[0])
        transitions.succeed(conn, self._registry, self._attempts, ended, outcomes)
        for part in self.parts:
            part.journal.record_source_rows(conn, part.staged)
            part.journal.announcer.attempt_ended(conn, part.attempt, Status.SUCCESS)

    def _finished_alone(self, part: Part) -> WindowEvent:
        try:
            self.run_log.write(lambda conn: self._succeed(part, conn))
        except AttemptLostError as lost:
            return WindowLost(part.attempt, lost)
        return self._succeeded(part)

    def _succeed(self, part: Part, conn: Connection) -> None:
        part.journal.log_success(conn, part.published, part.staged, self._ended(part))

    def _ended(self, part: Part) -> AttemptOutcome:
        """How an attempt succeeded; all have read the same files."""
        files = [name for staged in part.staged.values() for name in staged.current_files]
        return AttemptOutcome(Status.SUCCESS, self.application_id, ",".join(files) or None)

    def _succeeded(self, part: Part) -> WindowSucceeded:
        seconds = (time.monotonic() - self.started) / len(self.parts)
        checks: Mapping[str, bool] = {check.check: True for check in self.table.checks}
        return WindowSucceeded(
            part.attempt,
            tuple(part.staged.values()),
            tuple(part.published),
            seconds,
            overdue=self.timeout.overdue,
            checks=checks,
        )

    def _set_back(self, error: Exception) -> list[WindowEvent]:
        text = redact(str(error) or type(error).__name__)
        others = len(self.parts) - 1
        reason = (
            f"runs again by itself: in one pass with {others} others, "
            f"step {self.current_step} failed: {text}"
        )
        lost = self._discard(reason, 1)
        return [
            WindowLost(part.attempt, lost[part.attempt.job_id])
            if part.attempt.job_id in lost
            else WindowSetBack(part.attempt, reason)
            for part in self.parts
        ]

    def _discard(self, reason: str, errors: int) -> dict[int, AttemptLostError]:
        """End as DISCARDED what is still ours; job → what became of those that are not."""
        outcome = StepOutcome(Status.DISCARDED, error=reason)
        ended = AttemptOutcome(
            Status.DISCARDED,
            self.application_id,
            error_count=errors,
            published_nothing=not self.touched,
        )

        def work(conn: Connection) -> dict[int, AttemptLostError]:
            held = ATTEMPTS.still_held(conn, self._attempts)
            gone = {}
            for part in self.parts:
                if part.attempt.job_id in held:
                    part.journal.log_failure(conn, self.current_step, outcome, {}, ended)
                else:
                    gone[part.attempt.job_id] = ATTEMPTS.lost(conn, part.attempt)
            return gone

        lost = self.run_log.write(work)
        if self.session is not None:
            self.session.discard()
        return lost


@contextmanager
def logged_interruption(chain: StretchChain) -> Iterator[None]:
    """Whatever ends the runner in the middle of a stretch is logged before it goes on its way."""
    try:
        yield
    except RunLogError:
        raise  # nothing can be logged: whoever takes the leases over says how it ended
    except BaseException as cause:
        chain.interrupted(cause)
        raise
