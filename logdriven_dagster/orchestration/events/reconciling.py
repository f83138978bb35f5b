"""Runs that Dagster shows as working for ever because their process died.

The evidence is a lease that was never released: the process that owned it is known to be gone, on
this machine; elsewhere, it expired and its runner did not come back. A run whose attempts all ended
by themselves may be between two windows, or in a process of another step. It is left to Dagster's
own monitoring, and so is a run without an attempt.

Before such a run is ended as failed, the windows that it planned and never began are planned by a
runless event, as in `endings`, so that they are not red because of it. Afterwards would be too
late: Dagster stores the partitions that it has shown as failed.
"""

from collections.abc import Iterator
from datetime import timedelta

from dagster import (
    AssetKey,
    DagsterEventType,
    DagsterInstance,
    DagsterRunStatus,
    RunsFilter,
)
from sqlalchemy.engine import Connection

from logdriven_dagster.execution.owners import current_owner, is_dead
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.orchestration.assets.partitions import (
    find_failed_partitions,
    table_partitions,
)
from logdriven_dagster.orchestration.dagster_internals import WorkerStatus
from logdriven_dagster.orchestration.events.records import report_planned
from logdriven_dagster.orchestration.location import Location
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.history.logs import open_windows
from logdriven_dagster.runlog.history.windows import build_window
from logdriven_dagster.runlog.observed.mirror import Unreleased, find_unreleased, list_begun_in

_WORKING = [DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]
_AT_ONCE = 100


def report_dead_runs(instance: DagsterInstance, location: Location, run_log: RunLog) -> list[str]:
    """End the dead runs in Dagster as FAILURE, and return their ids."""
    records = instance.get_run_records(RunsFilter(statuses=_WORKING), limit=_AT_ONCE)
    runs = {record.dagster_run.run_id: record.dagster_run for record in records}
    if not runs:
        return []
    with run_log.read() as conn:
        leases = find_unreleased(conn, list(runs))
    dead = []
    for run_id, signs in leases.items():
        reasons = [_death(sign, location.project.config.lease) for sign in signs]
        if all(reasons) and not _may_be_healthy(instance, run_id):
            _forget_untried(instance, location, run_log, run_id)
            instance.report_run_failed(runs[run_id], reasons[-1])
            dead.append(run_id)
    return dead


def _forget_untried(
    instance: DagsterInstance, location: Location, run_log: RunLog, run_id: str
) -> None:
    """Take back the partitions that a run planned and never began, except earlier failures."""
    planned = set(_list_planned(instance, location, run_id))
    if planned:
        begun = run_log.ask(lambda conn: _find_begun_or_failed(conn, location, run_id))
        for key, partition in sorted(planned - begun):
            report_planned(instance, key, partition, None)


def _list_planned(
    instance: DagsterInstance, location: Location, run_id: str
) -> Iterator[tuple[AssetKey, str]]:
    ours = {*location.keys.values()}
    for entry in instance.all_logs(run_id, DagsterEventType.ASSET_MATERIALIZATION_PLANNED):
        plan = entry.get_dagster_event().asset_materialization_planned_data
        if plan.asset_key in ours and plan.partition is not None:
            yield plan.asset_key, plan.partition


def _find_begun_or_failed(
    conn: Connection, location: Location, run_id: str
) -> set[tuple[AssetKey, str]]:
    """Return the partitions that a run began and that are not pending again, and failed ones."""
    tables = {name: location.project.tables[name] for name in location.keys}
    failed = find_failed_partitions(location, open_windows(conn, list(tables.values())))
    for row in list_begun_in(conn, [run_id]):
        table = tables.get(row["job_name"])
        if table is not None and row["status"] != Status.DISCARDED.value:
            key = table_partitions(table, location).key(build_window(table, row))
            failed.add((location.key(table.table), key))
    return failed


def _death(sign: Unreleased, grace: timedelta) -> str | None:
    """Return the reason why the holder of a lease is certainly dead, or None.

    A process of this machine that exists is alive regardless of its lease's age: the machine may
    have slept, and its next heartbeat renews the lease.
    """
    if sign.owner is not None and is_dead(sign.owner):
        return f"Its process {sign.owner} has ended without releasing its {sign.what}."
    is_here = sign.owner is not None and sign.owner.host == current_owner().host
    if not is_here and sign.lease_lost is not None and sign.lease_lost > grace:
        return f"The lease of its {sign.what} expired and its runner did not return."
    return None


def _may_be_healthy(instance: DagsterInstance, run_id: str) -> bool:
    """Return True if the launcher reports a live worker of the run, or cannot be reached."""
    launcher, run = instance.run_launcher, instance.get_run_by_id(run_id)
    if run is None or not launcher.supports_check_run_worker_health:
        return False
    try:
        return launcher.check_run_worker_health(run).status is WorkerStatus.RUNNING
    except Exception:  # noqa: BLE001 - launchers may raise any error; the next tick checks again
        return True
