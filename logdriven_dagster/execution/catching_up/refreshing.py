"""Refreshing windows that somebody has named, oldest first, in one pass where they may be."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from logdriven_dagster.errors import NotDueError
from logdriven_dagster.execution.events import (
    NeedUnmet,
    WindowEvent,
    WindowFailed,
    WindowLost,
    WindowRefused,
    WindowSetBack,
    WindowSkipped,
    WindowStarted,
    WindowSucceeded,
)
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.execution.window.passes import Passes, most_together
from logdriven_dagster.model.windows import Slice, TimeWindow
from logdriven_dagster.planning import next_due


@dataclass
class Refreshing:
    """The orders that are left."""

    orders: list[Order]
    runner: Passes
    alone: set[str] = field(default_factory=set)
    """Keys of windows that were set back."""

    def passes(self) -> Iterator[tuple[TimeWindow, Generator[WindowEvent]]]:
        """The oldest window that is left, with what happens when it runs, maybe with others.

        The next pass begins where this one came to, or behind the window if it was refused.
        """
        while self.orders:
            first = self.orders[0].window
            ended: set[str] = set()
            before = len(self.alone)
            yield first, self._noted(ended)
            if not ended and len(self.alone) == before:
                ended.add(first.key)
            self.orders = [order for order in self.orders if order.window.key not in ended]

    def _noted(self, ended: set[str]) -> Generator[WindowEvent]:
        """By keys, since a slice gets its end only when it runs."""
        for event in self.runner.run(self._together()):
            match event:
                case WindowSucceeded() | WindowFailed() | WindowLost():
                    ended.add(event.attempt.window.key)
                case WindowSetBack(attempt=attempt):
                    self.alone.add(attempt.window.key)
                case WindowStarted() | WindowRefused() | WindowSkipped() | NeedUnmet():
                    pass
            yield event

    def _together(self) -> list[Order]:
        """The oldest windows up to the first gap, or the first that was set back."""
        found = self.orders[:1]
        most = most_together(found[0]) if len(self.orders) > 1 else 1
        if found[0].window.key in self.alone:
            return found
        for order in self.orders[1:most]:
            adjoins = order.window.start.timestamp() == found[-1].window.end.timestamp()
            if not adjoins or order.window.key in self.alone:
                break
            found.append(order)
        return found


def refuse_undue(order: Order) -> None:
    """NotDueError if a window lies in the future, before anything of its range has run."""
    if isinstance(order.window, Slice):
        return
    at = next_due(order.table, order.window)
    if at.timestamp() > order.now.timestamp():
        what = f"{order.table.table} {order.window} may not run yet: it is not due before"
        raise NotDueError(f"{what} {at.isoformat(sep=' ')}; nothing was run")
