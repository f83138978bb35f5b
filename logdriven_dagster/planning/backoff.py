"""Back-off: how long sensors and schedules leave a window alone that keeps failing."""

from datetime import timedelta

from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.backoff import back_off
from logdriven_dagster.model.logs import OpenWindow

LONGEST = timedelta(hours=1)
"""A repaired table is tried again within this time."""


def resting(item: OpenWindow, first: timedelta) -> timedelta:
    """The rest of the back-off: `first` after one failure, twice as long after each further one.

    Zero if it may be tried. An attempt whose runner died is taken over at once, unless the window
    had failed before: it may be what kills its runners.
    """
    if item.failures == 0 or item.quiet_for is None or item.status is Status.DISCARDED:
        return timedelta(0)
    return max(back_off(item.failures, first, LONGEST) - item.quiet_for, timedelta(0))
