"""Runs that Dagster shows as working for ever because their process died.

The evidence is a lease that was never released: the process that owned it is known to be gone, on
this machine; elsewhere, it ran out and its runner did not come back. A run whose attempts all ended
by themselves may be between two windows, or in a process of another step. It is left to Dagster's
own monitoring, and so is a run without an attempt.
"""

from datetime import timedelta

from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

from logdriven_dagster.config import Project
from logdriven_dagster.execution.owners import current_owner, is_dead
from logdriven_dagster.orchestration.dagster_internals import WorkerStatus
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.observed.mirror import Unreleased, unreleased

_WORKING = [DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]
_AT_ONCE = 100


def report_dead_runs(instance: DagsterInstance, project: Project, run_log: RunLog) -> list[str]:
    """End the dead runs in Dagster as FAILURE; their ids."""
    records = instance.get_run_records(RunsFilter(statuses=_WORKING), limit=_AT_ONCE)
    runs = {record.dagster_run.run_id: record.dagster_run for record in records}
    if not runs:
        return []
    with run_log.read() as conn:
        leases = unreleased(conn, list(runs))
    dead = []
    for run_id, signs in leases.items():
        reasons = [_death(sign, project.config.lease) for sign in signs]
        if all(reasons) and not _may_be_healthy(instance, run_id):
            instance.report_run_failed(runs[run_id], reasons[-1])
            dead.append(run_id)
    return dead


def _death(sign: Unreleased, grace: timedelta) -> str | None:
    """Why the holder of a lease is dead for certain, or None.

    A process of this machine that exists is alive however old its lease is: the machine may have
    slept, and its next heartbeat renews.
    """
    if sign.owner is not None and is_dead(sign.owner):
        return f"Its process {sign.owner} is gone; it did not release its {sign.what}."
    is_here = sign.owner is not None and sign.owner.host == current_owner().host
    if not is_here and sign.lease_lost is not None and sign.lease_lost > grace:
        return f"The lease of its {sign.what} ran out and its runner did not come back."
    return None


def _may_be_healthy(instance: DagsterInstance, run_id: str) -> bool:
    """Whether the launcher says that the run's worker is alive, or cannot be asked just now."""
    launcher, run = instance.run_launcher, instance.get_run_by_id(run_id)
    if run is None or not launcher.supports_check_run_worker_health:
        return False
    try:
        return launcher.check_run_worker_health(run).status is WorkerStatus.RUNNING
    except Exception:  # noqa: BLE001 - launchers raise whatever they like; the next tick asks again
        return True
