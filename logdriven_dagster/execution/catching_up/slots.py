"""Slots for parallel windows: each runs in its own thread and reports its events to the caller."""

import logging
import time
from collections.abc import Generator
from contextvars import copy_context
from dataclasses import dataclass
from heapq import heappop, heappush
from queue import Empty, SimpleQueue
from threading import Thread

from logdriven_dagster.engine.spark.actions import in_pool, watch_actions
from logdriven_dagster.execution.events import WindowEvent

_PATIENCE = 30.0
"""Seconds in which stopped windows have to end; those that cannot be stopped go on alone."""

_LOOK = 1.0
"""Seconds between two checks for signals: one that arrives just before a wait does not end it."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _EndedSlot:
    slot: int
    events: list[WindowEvent]
    error: BaseException | None


class Slots:
    """A bounded number of windows in progress. One thread starts, awaits and stops them all."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._free = list(range(1, number + 1))
        self._ended: SimpleQueue[_EndedSlot] = SimpleQueue()
        self._cause: BaseException | None = None

    @property
    def is_free(self) -> bool:
        """True if another window may begin."""
        return bool(self._free)

    @property
    def is_busy(self) -> bool:
        """True if a window is in progress."""
        return len(self._free) < self._number

    def start(self, events: Generator[WindowEvent]) -> None:
        """Continue a claimed window in a free slot.

        Watchers of the caller's work watch this window, too.
        """
        slot = heappop(self._free)
        context = copy_context()
        thread = Thread(
            target=context.run, args=(self._go_on, slot, events), name=f"slot {slot}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # the machine has no thread left
            heappush(self._free, slot)
            events.close()
            raise

    def wait(self) -> list[WindowEvent]:
        """Wait for the next window to end and return its events.

        Raises the error of a window that raised one.
        """
        while (ended := self._next(_LOOK)) is None:
            pass
        if ended.error is not None:
            raise ended.error
        return ended.events

    def stop(self, cause: BaseException) -> list[WindowEvent]:
        """End all windows by the same exception; return the events of those that had just ended."""
        self._cause = cause
        until = time.monotonic() + _PATIENCE
        ended_events: list[WindowEvent] = []
        while self.is_busy:
            ended = self._next(max(0.0, until - time.monotonic()))
            if ended is None:
                logger.warning("not_stopped: could not stop a running window in time")
                break
            ended_events += ended.events
        return ended_events

    def _next(self, seconds: float) -> _EndedSlot | None:
        """Return the next slot that ends within this time; None if there is none."""
        try:
            ended = self._ended.get(timeout=seconds)
        except Empty:
            return None
        heappush(self._free, ended.slot)
        return ended

    def _go_on(self, slot: int, events: Generator[WindowEvent]) -> None:
        own_events: list[WindowEvent] = []
        error: BaseException | None = None
        try:
            with watch_actions(self._check), in_pool(f"slot {slot}"):
                own_events.extend(events)
        except BaseException as raised:  # noqa: BLE001 - handed to the waiting thread
            error = raised
        self._ended.put(_EndedSlot(slot, own_events, error))

    def _check(self) -> None:
        if self._cause is not None:
            raise self._cause
