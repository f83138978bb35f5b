"""Resuming: the step at which an attempt that takes over another one continues.

Sources: Kylin, a chain runs its first unfinished step; BDRE, last recoverable sub-process.
"""

from collections.abc import Collection, Sequence

from logdriven_dagster.config.models.steps import StepConfig


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
