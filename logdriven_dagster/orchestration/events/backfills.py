"""Runs of one backfill that wait for each other.

With `BackfillPolicy.multi_run` Dagster starts the runs of a backfill concurrently, the one with the
oldest partitions first. Windows of an ordered table run in sequence, so all but this one would be
refused. A run whose window may not run yet waits instead, as long as runs that were requested
before it are at work. Those never wait for it, and no run waits for one that is only queued, so
waiting runs cannot fill all slots.
"""

import time
from collections.abc import Callable

from dagster import DagsterRunStatus, RunsFilter

from logdriven_dagster.errors import DependencyError, EarlierWindowError
from logdriven_dagster.orchestration.dagster_internals import StepContext

_AT_WORK = [
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]
_BACKFILL_TAG = "dagster/backfill"
_PAUSE = 2.0
"""Seconds between two checks."""


def behind_earlier_runs(context: StepContext, work: Callable[[], None]) -> None:
    """Do the work; again if a window is refused while earlier runs of the backfill work."""
    is_logged = False
    while True:
        waits = _has_earlier_runs(context)  # checked first, so that their results count
        try:
            return work()
        except (EarlierWindowError, DependencyError) as refusal:
            if not waits:
                raise
            if not is_logged:
                context.log.info("%s; waiting for earlier runs of the backfill", refusal)
            is_logged = True
        time.sleep(_PAUSE)


def _has_earlier_runs(context: StepContext) -> bool:
    backfill = context.run.tags.get(_BACKFILL_TAG)
    if backfill is None:
        return False
    own = context.instance.get_run_record_by_id(context.run.run_id)
    filters = RunsFilter(tags={_BACKFILL_TAG: backfill}, statuses=_AT_WORK)
    others = context.instance.get_run_records(filters)
    return own is not None and any(each.storage_id < own.storage_id for each in others)
