"""Resuming: at which step an attempt that is taken over goes on.

Sources: Kylin, a chain runs its first unfinished step; BDRE, last recoverable sub-process.
"""

from collections.abc import Collection, Sequence

from logdriven_dagster.config.models.steps import StepConfig


def resumable_steps(steps: Sequence[StepConfig], staged: Collection[str]) -> list[StepConfig]:
    """The leading steps that need not run again, given those whose results are durable.

    A step without a target is a view: it costs nothing and is made anew. If the first unfinished
    step is not to be started with (`can_recover: false`), the last one before it that can is.
    """
    done = 0
    while done < len(steps) and (steps[done].target is None or steps[done].step in staged):
        done += 1
    while 0 < done < len(steps) and not steps[done].can_recover:
        done -= 1
    return list(steps[:done])
