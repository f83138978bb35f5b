"""Back-off: the time for which sensors and schedules do not retry a failing window."""

from datetime import timedelta

from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.backoff import compute_back_off
from logdriven_dagster.model.logs import OpenWindow

LONGEST = timedelta(hours=1)
"""The maximum back-off: a repaired table is retried within this time."""


def get_remaining_back_off(item: OpenWindow, first: timedelta) -> timedelta:
    """Return the remaining back-off: `first` after one failure, doubled after each further one.

    Zero if the window may be retried. An attempt whose runner died is taken over at once, unless
    the window had failed before: the window itself may be the cause of its runners' deaths.
    """
    if item.failures == 0 or item.quiet_for is None or item.status is Status.DISCARDED:
        return timedelta(0)
    return max(compute_back_off(item.failures, first, LONGEST) - item.quiet_for, timedelta(0))
