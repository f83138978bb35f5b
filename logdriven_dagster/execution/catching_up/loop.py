"""The loop of a catch-up: run ready windows, sequentially or in parallel.

Source: Kylin, scheduler.
"""

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import (
    AlreadyDoneError,
    AlreadyRunningError,
    RefusedError,
    UnmetNeedError,
)
from logdriven_dagster.execution.arguments import RunArguments
from logdriven_dagster.execution.catching_up.on_running import refuse_running
from logdriven_dagster.execution.catching_up.queue import CatchUpQueue
from logdriven_dagster.execution.catching_up.slots import Slots
from logdriven_dagster.execution.events import (
    NeedUnmet,
    WindowEvent,
    WindowRefused,
    WindowSetBack,
    WindowSkipped,
    WindowStarted,
)
from logdriven_dagster.execution.notifications.outdated import post_notices
from logdriven_dagster.execution.notifications.rules import Outbox, gathering
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.execution.window.passes import Passes
from logdriven_dagster.planning.plan import Plan, PlannedWindow, State

_LOOK_SECONDS = 2.0
"""Seconds between two checks of windows that other processes run."""


@dataclass
class CatchingUp:
    """A catch-up, which reads the log once and makes its plan; `events` runs it."""

    project: Project
    now: datetime
    arguments: RunArguments
    queue: CatchUpQueue
    passes: Passes
    outbox: Outbox
    max_parallel: int
    """The maximum number of windows that run in parallel."""
    max_windows: int | None = None
    wait: timedelta = timedelta(0)
    """The time to wait for windows of other processes that block pending windows."""
    tried: int = field(default=0, init=False)
    error: Exception | None = field(default=None, init=False)
    """The reason why no more windows begin, although others still run in parallel."""

    @property
    def plan(self) -> Plan:
        """The current plan, by the log as it was last read."""
        return self.queue.plan()

    @gathering
    def events(self) -> Generator[WindowEvent]:
        """Yield all events, to the end of the catch-up."""
        refuse_running(self.project, self.plan.context.logs, list(self.plan.tables), self.arguments)
        until = time.monotonic() + self.wait.total_seconds()
        while True:
            if self.max_parallel == 1:
                yield from self._begin_ready(self._whole, lambda: True)
            else:
                yield from self._side_by_side(Slots(self.max_parallel))
            if not self._has_more(until):
                break
        yield from self.queue.iter_blocked()
        post_notices(self.outbox.run_log, self.project, self.plan.tables, str(self.outbox.owner))

    def _has_more(self, until: float) -> bool:
        """Wait for other processes while that may unblock windows. Returns True if it has."""
        while time.monotonic() < until and self._may_go_on():
            self.queue.look_again()
            if self.queue.next_ready() is not None:
                return True
            if not self.queue.awaits_others():
                return False
            time.sleep(min(_LOOK_SECONDS, max(until - time.monotonic(), 0)))
        return False

    def _may_go_on(self) -> bool:
        return self.max_windows is None or self.tried < self.max_windows

    def _begin_ready(
        self,
        begin: Callable[[PlannedWindow, Sequence[Order]], Iterable[WindowEvent]],
        has_room: Callable[[], bool],
    ) -> Generator[WindowEvent]:
        """Begin ready windows while slots are free."""
        while has_room() and self._may_go_on():
            planned = self.queue.next_ready()
            if planned is None:
                return
            table = self.project.table(planned.table)
            passed_over = self.queue.list_passed_over(planned)
            order = Order(
                self.project,
                table,
                planned.window,
                planned.trigger,
                self.now,
                self.arguments,
                passed_over,
            )
            try:
                if planned.state is State.INAPPLICABLE:
                    yield from self._pass_over(planned, order)
                    continue
                yield from begin(planned, self._stretch(planned, order))
            except UnmetNeedError as unmet:
                in_need = self.passes.needs.having(unmet, planned.table)
                yield NeedUnmet(self.queue.give_up(in_need), unmet)
            except (AlreadyDoneError, AlreadyRunningError) as faster:
                self.queue.leave(planned)
                yield WindowRefused(planned.table, planned.window, faster)
            except RefusedError as refusal:
                if self.queue.doubts(planned):
                    continue
                self.tried += 1
                self.queue.set_aside(planned)
                yield WindowRefused(planned.table, planned.window, refusal)

    def _stretch(self, planned: PlannedWindow, order: Order) -> list[Order]:
        """Return the orders of the window and those that may run in one pass with it."""
        side_by_side = self.max_parallel > 1 and not order.table.ordered
        most = self.passes.most_together(order, side_by_side=side_by_side)
        if self.max_windows is not None:
            most = min(most, self.max_windows - self.tried)
        if most < 2 or order.passed_over:
            return [order]
        return [replace(order, window=each) for each in self.queue.stretch(planned, most)]

    def _whole(self, _planned: PlannedWindow, orders: Sequence[Order]) -> Generator[WindowEvent]:
        for event in self.passes.run(orders):
            yield event
            self._record_event(event)

    def _record_event(self, event: WindowEvent) -> None:
        self.queue.record_event(event)
        self.tried += isinstance(event, WindowStarted)
        self.tried -= isinstance(event, WindowSetBack)  # it is tried again

    def _pass_over(self, planned: PlannedWindow, order: Order) -> Generator[WindowEvent]:
        """Record inapplicable windows as SKIPPED, so that they do not block others."""
        found = self.passes.record_inapplicable(order, self.queue.inapplicable(planned))
        for window in order.passed_over:
            yield WindowSkipped(planned.table, window, f"skipped in favor of {planned.window}")
        for window, reason in found.items():
            yield WindowSkipped(planned.table, window, reason)
        if planned.window in found:
            self.queue.reload_skipped(planned)
        else:
            self.queue.set_aside(planned)

    def _side_by_side(self, slots: Slots) -> Generator[WindowEvent]:
        """Keep the slots filled; on an error, running windows end; an interruption stops them."""
        try:
            yield from self._begin_windows(slots)
            while slots.is_busy:
                ended = self._wait_for_end(slots)
                # Before any event is yielded: a free slot does not wait for the consumer of the
                # events.
                begun = self._begin_windows(slots)
                yield from ended
                yield from begun
        except GeneratorExit as cause:
            slots.stop(cause)
            raise
        except BaseException as cause:
            yield from slots.stop(cause)
            raise
        if self.error is not None:
            raise self.error

    def _wait_for_end(self, slots: Slots) -> list[WindowEvent]:
        events: list[WindowEvent] = []
        try:
            events = slots.wait()
            for event in events:
                self._record_event(event)
        except Exception as error:  # noqa: BLE001 - raised when all have ended
            self.error = self.error or error
        return events

    def _begin_windows(self, slots: Slots) -> list[WindowEvent]:
        """Claim windows and return their events; the windows go on in threads of their own."""

        def begin(planned: PlannedWindow, orders: Sequence[Order]) -> Iterable[WindowEvent]:
            return self._start_pass(slots, planned, orders)

        events: list[WindowEvent] = []
        try:
            events.extend(self._begin_ready(begin, lambda: slots.is_free and self.error is None))
        except Exception as error:  # noqa: BLE001 - as above
            self.error = self.error or error
        return events

    def _start_pass(
        self, slots: Slots, planned: PlannedWindow, orders: Sequence[Order]
    ) -> list[WindowEvent]:
        """Claim windows in this thread, so that claims see each other; run them in a slot."""
        events = self.passes.run(orders)
        begun: list[WindowEvent] = []
        try:
            while not (begun and _is_last_start(begun[-1])):
                begun.append(next(events))
        except BaseException:
            events.close()
            raise
        slots.start(events)
        started = [event for event in begun if isinstance(event, WindowStarted)]
        self.tried += len(started)
        # The claim may have taken fewer windows than requested.
        self.queue.mark_taken(planned, [event.attempt.window for event in started])
        return begun


def _is_last_start(event: WindowEvent) -> bool:
    return isinstance(event, WindowStarted) and not event.behind
