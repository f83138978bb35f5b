"""Batches of windows: adjoining windows of one table that can run in one pass."""

from collections.abc import Iterator
from itertools import islice

from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.plan import Plan, PlannedWindow, State
from logdriven_dagster.planning.readiness import find_open_attempt


def find_stretch(plan: Plan, planned: PlannedWindow, most: int) -> list[TimeWindow]:
    """Return the ready window and those after it that may run with it, at most `most` in all.

    They are contiguous, have the same trigger, and wait for nothing but each other. A window whose
    last attempt failed runs by itself: otherwise all the others would fail with it.
    """
    if planned.state is not State.READY:
        return [planned.window]
    return list(islice(_list_together(plan, planned), max(most, 1)))


def _list_together(plan: Plan, planned: PlannedWindow) -> Iterator[TimeWindow]:
    table, start = plan.tables[planned.table], planned.window.start
    yield planned.window
    last = planned.window
    if not _is_untried(plan, planned, last):
        return
    for window, trigger in table.queue():
        if trigger is not planned.trigger or window.start <= start:
            continue
        adjoins = window.start == last.end
        if not adjoins or not _is_untried(plan, planned, window):
            return
        if plan.obstacle(table.table, window, trigger) is not None:
            return
        yield window
        last = window


def _is_untried(plan: Plan, planned: PlannedWindow, window: TimeWindow) -> bool:
    """Return True if the window is not running and its last attempt did not fail."""
    attempt = find_open_attempt(window, plan.tables[planned.table].log)
    return attempt is None or (attempt.status is Status.DISCARDED and attempt.window == window)
