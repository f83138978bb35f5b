"""The steps of one pass: take over, stage, check, publish. Every transition is logged.

Source: Kettle, transformation template (pre-SQL, read, write, metrics); Sharp ETL, step_log; Kylin,
chained executables: each transition is persisted before the next action, and a chain continues at
its first unfinished step.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.errors import BadQualityError, StepError, TooMuchDataError
from logdriven_dagster.execution.events import rows_of
from logdriven_dagster.execution.source_files.window_files import list_window_files
from logdriven_dagster.execution.window.discovery import SourceDiscovery
from logdriven_dagster.execution.window.journal import Journal, build_success
from logdriven_dagster.execution.window.leases import HeldLease
from logdriven_dagster.execution.window.listeners import Listeners
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.execution.window.sessions import WindowSession
from logdriven_dagster.execution.window.state import Changes, PassState
from logdriven_dagster.model.attempts import Status, StepOutcome
from logdriven_dagster.model.runs import Staged
from logdriven_dagster.model.source_rows import FileRows
from logdriven_dagster.planning.retries import find_resumable_steps


@dataclass(frozen=True, slots=True)
class Chain:
    """The steps of one pass in a session of an engine.

    Each method yields the states of the pass and returns the last one. `run` raises the error of a
    step. Called again with the state at the failure, it continues at the step that failed.
    """

    order: Order
    journal: Journal
    discovery: SourceDiscovery
    lease: HeldLease
    listeners: Listeners
    session: WindowSession

    def run(self, state: PassState) -> Changes:
        """Take over the results of an earlier attempt, stage and check the rest, publish all."""
        state = yield from self._recheck_files(state)
        state = yield from self._take_over(state)
        state = yield from self._stage(state)
        state = yield from self._check(state)
        return (yield from self._publish(state))

    def _recheck_files(self, state: PassState) -> Changes:
        """Read files in their current versions; discard staged results of other versions."""
        known = state.runs[0].files
        if not known:
            return state
        current = self.discovery.recheck(state.runs[0])
        if {file.hash for file in current} - {file.hash for file in known}:
            yield (state := replace(state, attempts=(replace(state.attempts[0], staged={}),)))
        self.session.read_files(current)
        return state

    def _take_over(self, state: PassState) -> Changes:
        """Fence off unsuccessful earlier attempts, and continue where one stopped."""
        older = [
            run
            for run, attempt in zip(state.runs, state.attempts, strict=True)
            if attempt.previous not in (None, Status.SUCCESS)
        ]
        if not older or state.is_fenced:
            return state
        left = state.attempts[0].staged
        self.session.fence(older)
        for step in find_resumable_steps(self.order.steps, left):  # only for a single window
            if step.step in state.staged:
                continue
            if step.target is None:
                state = yield from self._stage_step(state, step)
                continue
            restored = self.session.restore(step, [left[step.step]])
            if restored is None:
                break
            state = yield from self._begin(state, step)
            note = "taken over from an earlier attempt"
            yield (
                state := state.with_staged(step.step, tuple(r.add_notes(note) for r in restored))
            )
        yield (state := replace(state, is_fenced=True))
        return state

    def _stage(self, state: PassState) -> Changes:
        """Stage the remaining steps; a retry continues at the step that failed."""
        steps = self.order.steps
        for number, step in enumerate(steps):
            if step.step not in state.staged:
                state = yield from self._stage_step(state, step)
            yield (state := replace(state, step=step.step))
            for each in state.staged[step.step]:
                _refuse(step, each)
                _refuse_replacement(step, each, partial(self.session.count_replaced_rows, step))
            if _is_empty(step, state.staged[step.step]):
                state = yield from self._skip(state, steps[number + 1 :])
                break
        try:
            self.session.refuse_changed_files()
        except StepError:  # a file was replaced while it was read
            self.session.discard()
            yield state.without_staged()
            raise
        self.journal.persist(state)
        yield (state := replace(state, durable=frozenset(state.staged)))
        return state

    def _stage_step(self, state: PassState, step: StepConfig) -> Changes:
        state = yield from self._begin(state, step)
        if step.commit_before_read:
            state = yield from self._become_visible(state)
        files = self._list_files(state, step)
        with self.listeners.observe_part(f"step {step.step}") as report:
            first, *others = self.order.stage(self.session, step)
            report(source_type=first.source_type, **rows_of((first, *others)))
        first = first.add_notes(state.notes)  # the first step usually reads the source
        if state.source_rows is not None:
            first = first.with_source_rows(state.source_rows)
        results = (replace(first, window_files=files), *others)
        yield (state := replace(state.with_staged(step.step, results), notes="", source_rows=None))
        if step.target is None and step.step not in state.ended:
            state = yield from self._end(
                state, {step.step: [build_success(each) for each in results]}
            )
        return state

    def _list_files(self, state: PassState, step: StepConfig) -> tuple[FileRows, ...]:
        if not state.is_single or self.order.made_outside:
            return ()
        order = self.order
        return list_window_files(order.project, order.table, step, state.runs[0])

    def _skip(self, state: PassState, following: Sequence[StepConfig]) -> Changes:
        reason = "the previous step found no rows"
        skipped = [StepOutcome(Status.SKIPPED, output=reason)] * len(state.attempts)
        ends = {step.step: skipped for step in following if step.step not in state.ended}
        return (yield from self._end(state, ends)) if ends else state

    def _end(self, state: PassState, ends: dict[str, list[StepOutcome]]) -> Changes:
        """Log that steps have ended before the attempts do."""
        self.journal.halt(state, ends)
        yield (state := replace(state, ended=state.ended | set(ends)))
        return state

    def _check(self, state: PassState) -> Changes:
        """Check the rows of a complete pass; a violation fails the step of the last target."""
        if len(state.staged) < len(self.order.steps):
            return state
        written = [step.step for step in self.order.steps if step.target]
        yield (state := replace(state, step=written[-1]))
        for check in self.order.table.checks:
            yield (state := replace(state, checks={**state.checks, check.check: False}))
            with self.listeners.observe_part(f"check {check.check}"):
                self.session.check(check)
            yield (state := replace(state, checks={**state.checks, check.check: True}))
        return state

    def _publish(self, state: PassState) -> Changes:
        yield (state := replace(state, published={}))
        state = yield from self._become_visible(state)
        for step in self.order.steps:
            if step.target is None or step.step not in state.staged:
                continue
            yield (state := replace(state, step=step.step))
            with self.listeners.observe_part(f"publish {step.step}") as report:
                done = self.session.publish(step.step, self.lease.verify)
                report(target=done[-1].target, version=done[-1].snapshot_id)
            pairs = zip(done, state.staged[step.step], strict=True)
            state = state.with_staged(
                step.step, tuple(each.add_counts(rows) for each, rows in pairs)
            )
            yield (state := replace(state, published={**state.published, step.step: done}))
        return state

    def _become_visible(self, state: PassState) -> Changes:
        """Log that readers may see changes from here on, which matters for refreshes."""
        if not state.is_visible:
            self.journal.note_change(state)
            yield (state := replace(state, is_visible=True))
        return state

    def _begin(self, state: PassState, step: StepConfig) -> Changes:
        """Log in one transaction that the previous steps are durable and that this one runs."""
        yield (state := replace(state, step=step.step))
        if step is self.order.steps[0] and not state.failures:
            return state  # the claim's transaction started it
        if step.step in state.ended:
            return state  # a view whose end is logged is created again
        self.journal.begin(state)
        yield (state := replace(state, durable=frozenset(state.staged)))
        return state


def _is_empty(step: StepConfig, results: Sequence[Staged]) -> bool:
    nothing = all(each.counts.target == 0 for each in results)
    return nothing and step.target is not None and step.on_empty == "skip_following_steps"


def _refuse(step: StepConfig, staged: Staged) -> None:
    """Raise if the rows must not be published: beyond `max_rows`, too many bad ones, a broken rule.

    Only broken blocking rules count. Sources: Sharp ETL, TooMuchData; BDRE, min.pass.threshold.
    """
    rows, most = staged.counts.target, step.max_rows
    if most is not None and rows is not None and rows > most:
        problem = f"{rows:,} rows exceed max_rows, which is {most:,}"
        raise TooMuchDataError(f"{problem}; nothing is published")
    if staged.quality is not None and (refusal := staged.quality.refusal):
        raise BadQualityError(refusal)


def _refuse_replacement(step: StepConfig, staged: Staged, replaced: Callable[[], int]) -> None:
    """Raise BadQualityError if the staged rows must not replace the published ones.

    `replaced` counts the published rows that would be replaced; it is called only if the step
    compares them.
    """
    if not step.compares_replaced:
        return
    new, old, most = staged.counts.target, replaced(), step.change_at_most
    if new is None:
        raise BadQualityError(
            "never_empty, change_at_most: the number of staged rows is unknown, so "
            "they cannot be compared"
        )
    fix = "nothing is published; correct the source, or the step if this change is intended"
    if step.never_empty and old and not new:
        raise BadQualityError(f"never_empty: no rows would replace {old:,} published rows; {fix}")
    if most is not None and old and abs(new - old) * 100 > most * old:
        change = f"{new:,} rows would replace {old:,}, a change of {abs(new - old) / old:.1%}"
        raise BadQualityError(f"change_at_most is {most:g} %: {change}; {fix}")
