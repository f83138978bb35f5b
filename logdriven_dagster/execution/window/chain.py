"""The steps of one pass: take over, stage, check, publish. Every transition is logged.

Source: Kettle, transformation template (pre-SQL, read, write, metrics); Sharp ETL, step_log; Kylin,
chained executables: each transition is persisted before the next action, and a chain continues at
its first unfinished step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.errors import StepError
from logdriven_dagster.execution.events import rows_of
from logdriven_dagster.execution.window.discovery import SourceDiscovery
from logdriven_dagster.execution.window.engines import WindowSession
from logdriven_dagster.execution.window.journal import Journal, succeeded
from logdriven_dagster.execution.window.leases import HeldLease
from logdriven_dagster.execution.window.listeners import Listeners
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.execution.window.tries import Tries
from logdriven_dagster.execution.window.verdicts import refuse, refuse_replacement
from logdriven_dagster.model.attempts import Status, StepOutcome
from logdriven_dagster.model.runs import Published, Staged, WindowRun
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.planning.resuming import find_resumable_steps


@dataclass
class Chain:
    """The steps of one pass with their staged and published results.

    `run` raises the error of a step. Called again, it continues at the step that failed.
    """

    order: Order
    journal: Journal
    runs: Sequence[WindowRun]
    """The attempts as the engine sees them."""
    discovery: SourceDiscovery
    lease: HeldLease
    tries: Tries
    listeners: Listeners
    current_step: str = ""
    staged: dict[str, tuple[Staged, ...]] = field(default_factory=dict)
    published: dict[str, tuple[Published, ...]] = field(default_factory=dict)
    checks: dict[str, bool] = field(default_factory=dict)
    """Check → True if the staged rows pass it; checks that did not run are missing."""
    notes: str = ""
    """Notes of the source for readers of the log."""
    source_rows: SourceRows | None = None
    """The rows of a sliced source, if some belong to no window; None once a step has them."""
    session: WindowSession | None = None
    fenced: bool = False
    """True if older attempts are fenced off and their results are taken over."""
    touched: bool = False
    """True if readers may see changes: it has begun to publish, or to change a database."""

    def __post_init__(self) -> None:
        self.steps = self.order.steps
        self.current_step = self.steps[0].step

    def run(self) -> None:
        """Take over the results of an earlier attempt, stage and check the rest, publish all."""
        if self.runs[0].files:
            self._recheck_files()
        self._take_over()
        self._stage()
        self._publish()

    def forget_staged(self) -> None:
        """Remove staged results, so that the next run of the chain begins at its first step."""
        self._session.discard()
        self.staged.clear()
        self.journal.durable.clear()

    def discard(self) -> None:
        """Remove staged results, if the chain has ever had a session."""
        if self.session is not None:
            self.session.discard()

    def _take_over(self) -> None:
        """Fence off unsuccessful earlier attempts, and continue where one stopped."""
        older = [
            run
            for run, attempt in zip(self.runs, self.journal.attempts, strict=True)
            if attempt.previous not in (None, Status.SUCCESS)
        ]
        if not older or self.fenced:
            return
        session, left = self._session, self.journal.attempts[0].staged
        session.fence(older)
        for step in find_resumable_steps(
            self.steps, left
        ):  # only a single window has staged results
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

    def _recheck_files(self) -> None:
        """Read files in their current versions; discard staged results of other versions."""
        known = self.runs[0].files
        current = self.discovery.recheck(self.runs[0])
        if {file.hash for file in current} - {file.hash for file in known}:
            self.journal.attempts = [replace(self.journal.attempts[0], staged={})]
        self._session.read_files(current)

    def _stage(self) -> None:
        """Stage the remaining steps; a retry continues at the step that failed."""
        for number, step in enumerate(self.steps):
            if step.step not in self.staged:
                self._stage_step(step)
            self.current_step = step.step
            for each in self.staged[step.step]:
                refuse(step, each)
                refuse_replacement(step, each, partial(self._session.count_replaced_rows, step))
            if self._is_empty(step):
                self._skip(self.steps[number + 1 :], "the previous step found no rows")
                break
        self._refuse_changed_files()
        self.persist_staged()
        if len(self.staged) == len(self.steps):
            self._check_rows()

    def _refuse_changed_files(self) -> None:
        """Discard staged results if a file was replaced while it was read."""
        try:
            self._session.refuse_changed_files()
        except StepError:
            self.forget_staged()
            raise

    def _stage_step(self, step: StepConfig) -> None:
        self._advance(step)
        if step.commit_before_read:
            self._touch()
        with self.listeners.observe_part(f"step {step.step}") as tell:
            first, *others = self.order.stage(self._session, step)
            tell(source_type=first.source_type, **rows_of((first, *others)))
        first, self.notes = first.noted(self.notes), ""  # the first step usually reads the source
        if (rows := self.source_rows) is not None:
            first, self.source_rows = first.with_source_rows(rows), None
        self.staged[step.step] = (first, *others)
        if step.target is None and step.step not in self.journal.ended:
            self.journal.halt({step.step: [succeeded(each) for each in (first, *others)]})

    def _is_empty(self, step: StepConfig) -> bool:
        nothing = all(each.counts.target == 0 for each in self.staged[step.step])
        return nothing and step.target is not None and step.on_empty == "skip_following_steps"

    def _check_rows(self) -> None:
        written = [step.step for step in self.steps if step.target]
        self.current_step = written[-1]  # a violation fails the last target's step
        for check in self.order.table.checks:
            self.checks[check.check] = False
            with self.listeners.observe_part(f"check {check.check}"):
                self._session.check(check)
            self.checks[check.check] = True

    def _skip(self, following: Sequence[StepConfig], reason: str) -> None:
        skipped = [StepOutcome(Status.SKIPPED, output=reason)] * len(self.journal.attempts)
        ends = {step.step: skipped for step in following if step.step not in self.journal.ended}
        if ends:
            self.journal.halt(ends)

    def _touch(self) -> None:
        """Record that readers may see changes from here on; the log must have it for refreshes."""
        if not self.touched:
            self.journal.note_change()
        self.touched = True

    def _publish(self) -> None:
        self.published.clear()
        self._touch()
        for step in self.steps:
            if step.target is not None and step.step in self.staged:
                self.current_step = step.step
                with self.listeners.observe_part(f"publish {step.step}") as tell:
                    done = self._session.publish(step.step, self.lease.verify)
                    tell(target=done[-1].target, version=done[-1].snapshot_id)
                pairs = zip(done, self.staged[step.step], strict=True)
                self.staged[step.step] = tuple(each.counted(staged) for each, staged in pairs)
                self.published[step.step] = done

    def _advance(self, step: StepConfig) -> None:
        """Log in one transaction that the previous steps are durable and that this one runs."""
        self.current_step = step.step
        if step is self.steps[0] and not self.tries.failed:
            return  # the claim's transaction started it
        if step.step in self.journal.ended:
            return  # a view whose end is logged is created again
        self.journal.begin(step.step, self.staged)

    def persist_staged(self) -> None:
        """Log that the last steps are durable, before publication."""
        self.journal.persist(self.staged)

    @property
    def _session(self) -> WindowSession:
        assert self.session is not None
        return self.session
