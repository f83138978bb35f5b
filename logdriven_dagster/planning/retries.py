"""Retries: when a failed window is tried again, and at which step the new attempt continues.

Sources: Kylin, a chain runs its first unfinished step; BDRE, last recoverable sub-process.
"""

from collections.abc import Collection, Sequence
from datetime import timedelta

from logdriven_dagster.config.models.steps import StepConfig
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


def find_resumable_steps(steps: Sequence[StepConfig], staged: Collection[str]) -> list[StepConfig]:
    """Return the leading steps that need not run again, given the steps with durable results.

    A step without a target is a view: it costs nothing and is created again. If the first
    unfinished step cannot be the first one to run (`can_recover: false`), the last one before it
    that can is.
    """
    done = 0
    while done < len(steps) and (steps[done].target is None or steps[done].step in staged):
        done += 1
    while 0 < done < len(steps) and not steps[done].can_recover:
        done -= 1
    return list(steps[:done])
