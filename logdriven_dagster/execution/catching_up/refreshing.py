"""Refreshes of named windows, oldest first, and in one pass where possible."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.errors import NotDueError, UsageError
from logdriven_dagster.execution.events import (
    WindowEvent,
    WindowFailed,
    WindowLost,
    WindowStarted,
    WindowSucceeded,
)
from logdriven_dagster.execution.window.orders import Order
from logdriven_dagster.execution.window.passes import Passes
from logdriven_dagster.model.windows import Slice, TimeWindow, normalize_instant
from logdriven_dagster.planning.due import get_next_due
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.attempts.overlaps import find_finished_windows
from logdriven_dagster.runlog.history.logs import read_window_states
from logdriven_dagster.runlog.history.slices import list_begun_slices


@dataclass
class RefreshQueue:
    """The remaining refreshes of one call, oldest window first."""

    orders: list[Order]
    runner: Passes

    def passes(self) -> Iterator[tuple[TimeWindow, Generator[WindowEvent]]]:
        """Yield the oldest remaining window with the events of its pass, which may have others.

        The next pass begins after the last window of this one, or after the window if it was
        refused.
        """
        while self.orders:
            first = self.orders[0].window
            seen: list[WindowEvent] = []
            yield first, self._run_recorded(seen)
            ended = {
                event.attempt.window.key
                for event in seen
                if isinstance(event, (WindowSucceeded, WindowFailed, WindowLost))
            }
            started = sum(isinstance(event, WindowStarted) for event in seen)
            if not ended and started < 2:  # it was refused, or could not even run by itself
                ended.add(first.key)
            # By keys, since a slice gets its end only when it runs.
            self.orders = [order for order in self.orders if order.window.key not in ended]

    def _run_recorded(self, seen: list[WindowEvent]) -> Generator[WindowEvent]:
        for event in self.runner.run(self._together()):
            seen.append(event)
            yield event

    def _together(self) -> list[Order]:
        """Return the oldest windows up to the first gap."""
        found = self.orders[:1]
        most = self.runner.most_together(found[0]) if len(self.orders) > 1 else 1
        for order in self.orders[1:most]:
            if order.window.start != found[-1].window.end:
                break
            found.append(order)
        return found


def refuse_undue(order: Order) -> None:
    """Raise NotDueError if a window lies in the future, before anything of its range has run."""
    if isinstance(order.window, Slice):
        return
    at = get_next_due(order.table, order.window)
    if at > normalize_instant(order.now):
        what = f"{order.table.table} {order.window} cannot run yet: it is not due before"
        raise NotDueError(
            f"{what} {at.astimezone(order.window.zone).isoformat(sep=' ')}; nothing was run"
        )


def find_last_windows(run_log: RunLog, table: TableConfig, count: int) -> list[TimeWindow]:
    """Return the newest finished windows of a table, at most `count`, oldest first.

    Raises UsageError if it has none.
    """

    def read(conn: Connection) -> list[TimeWindow]:
        log = read_window_states(conn, [table])[table.table]
        if table.is_sliced:
            unfinished = {item.window.key for item in log.open}
            begun = list_begun_slices(conn, table)
            return [each for each in begun if each.key not in unfinished]
        found: list[TimeWindow] = []
        for span in reversed(log.finished):
            first = table.grid.get_bound(table.grid.index(span.end) - count)
            newest = TimeWindow(max(first, span.start), span.end, zone=span.zone)
            windows = find_finished_windows(conn, table.table, newest)
            found = [*(window for _, window in windows), *found]
            if len(found) >= count:
                break
        return found

    if found := run_log.ask(read)[-count:]:
        return found
    raise UsageError(f"{table.table} has no finished window; run it with `logdriven run`")
