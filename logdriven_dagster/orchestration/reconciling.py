"""Runs that Dagster shows as working for ever because their process died.

A run's newest attempt in the run log is its last sign of life. The process that owned it may be
known to be gone, on this machine; elsewhere, its lease ran out and it did not come back. A run
without an attempt has given no sign, and is left to Dagster's own monitoring.
"""

from datetime import timedelta

from dagster import DagsterInstance, DagsterRunStatus, RunsFilter
from dagster._core.launcher.base import WorkerStatus

from logdriven_dagster.config import Project
from logdriven_dagster.execution.owners import is_dead
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.mirror import LastSign, last_signs

_WORKING = [DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]
_AT_ONCE = 100


def report_dead_runs(instance: DagsterInstance, project: Project, run_log: RunLog) -> list[str]:
    """End the dead runs in Dagster as FAILURE; their ids."""
    records = instance.get_run_records(RunsFilter(statuses=_WORKING), limit=_AT_ONCE)
    runs = {record.dagster_run.run_id: record.dagster_run for record in records}
    if not runs:
        return []
    with run_log.read() as conn:
        signs = last_signs(conn, list(runs))
    dead = []
    for run_id, sign in signs.items():
        reason = _death(sign, project.config.lease)
        if reason and not _is_healthy(instance, run_id):
            instance.report_run_failed(runs[run_id], reason)
            dead.append(run_id)
    return dead


def _death(sign: LastSign, grace: timedelta) -> str | None:
    """Why a run is dead for certain, or None."""
    if sign.owner is not None and is_dead(sign.owner):
        return f"Its process {sign.owner} is gone; job {sign.job_id} was its last in the run log."
    if sign.lease_lost is not None and sign.lease_lost > grace:
        return f"The lease of its job {sign.job_id} ran out and its runner did not come back."
    return None


def _is_healthy(instance: DagsterInstance, run_id: str) -> bool:
    """Whether the launcher, where it can tell, says that the run's worker is alive."""
    launcher, run = instance.run_launcher, instance.get_run_by_id(run_id)
    if run is None or not launcher.supports_check_run_worker_health:
        return False
    return launcher.check_run_worker_health(run).status is WorkerStatus.RUNNING
