"""Dagster records of windows that ran elsewhere: runless events with their own times.

A partition is red in Dagster only if a run that planned to materialize it has failed, so a window
that failed elsewhere is the record of a run: with its job, start and end, but without an event of
its own, because failure sensors and automatic retries must not act on it.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import uuid4

from dagster import (
    AssetCheckEvaluation,
    AssetKey,
    AssetMaterialization,
    AssetObservation,
    DagsterEvent,
    DagsterEventType,
    DagsterInstance,
    DagsterRun,
    EventLogEntry,
    JobDefinition,
)

from logdriven_dagster.orchestration.dagster_internals import (
    PARTITION_NAME_TAG,
    RUNLESS_JOB_NAME,
    RUNLESS_RUN_ID,
    AssetCheckExecutionRecordStatus,
    AssetCheckExecutionsTable,
    AssetMaterializationPlannedData,
    AssetObservationData,
    EngineEventData,
    SqlEventLogStorage,
    StepMaterializationData,
    create_execution_plan,
    snapshot_from_execution_plan,
)

_PLANNED = AssetCheckExecutionRecordStatus.PLANNED.value


def past_entry(
    event: AssetMaterialization | AssetObservation | AssetCheckEvaluation,
    instant: datetime,
    run: DagsterRun | None = None,
) -> EventLogEntry:
    """Return the entry of an event in the past, of a run if one is given."""
    job_name, run_id = _identity(run)
    kind, data = _kind_and_data(event)
    stored = DagsterEvent(kind.value, job_name, event_specific_data=data)
    return EventLogEntry(  # type: ignore[no-untyped-call]
        error_info=None,
        level=logging.INFO,
        user_message="",
        run_id=run_id,
        timestamp=instant.timestamp(),
        job_name=job_name,
        dagster_event=stored,
    )


def _kind_and_data(
    event: AssetMaterialization | AssetObservation | AssetCheckEvaluation,
) -> tuple[DagsterEventType, Any]:
    match event:
        case AssetMaterialization():
            return DagsterEventType.ASSET_MATERIALIZATION, StepMaterializationData(event)
        case AssetObservation():
            return DagsterEventType.ASSET_OBSERVATION, AssetObservationData(event)
        case AssetCheckEvaluation():
            return DagsterEventType.ASSET_CHECK_EVALUATION, event


def _identity(run: DagsterRun | None) -> tuple[str, str]:
    return (run.job_name, run.run_id) if run else (RUNLESS_JOB_NAME, RUNLESS_RUN_ID)


def report_planned(
    instance: DagsterInstance,
    key: AssetKey,
    partition: str,
    run: DagsterRun | None,
    instant: datetime | None = None,
) -> None:
    """Report that a run plans to materialize a partition; the run's end decides its status.

    Without a run, the event takes back an earlier one of this kind.
    """
    job_name, run_id = _identity(run)
    data = AssetMaterializationPlannedData(key, partition=partition)
    step_key = "__".join(key.path)
    event = DagsterEvent.build_asset_materialization_planned_event(job_name, step_key, data)
    timestamp = instant.timestamp() if instant else None
    instance.report_dagster_event(event, run_id, timestamp=timestamp)


def forget_planned_checks(instance: DagsterInstance, run: DagsterRun, key: AssetKey) -> None:
    """Take back the planned checks of an asset that a run has not evaluated.

    Dagster has no event for this, and shows such checks of a failing run as failed: a table's check
    is red as long as no later window was checked. Dagster's own records of plans are deleted.
    """
    storage = instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage):
        return
    planned = (
        AssetCheckExecutionsTable.delete()
        .where(AssetCheckExecutionsTable.c.run_id == run.run_id)
        .where(AssetCheckExecutionsTable.c.asset_key == key.to_string())
        .where(AssetCheckExecutionsTable.c.execution_status == _PLANNED)
    )
    with storage.index_connection() as conn:
        conn.execute(planned)


def forget_runless_evaluations(instance: DagsterInstance, entries: Iterable[EventLogEntry]) -> None:
    """Delete earlier runless evaluations of the partitions that are evaluated in `entries`.

    Dagster has one row for each check, run and partition, and inserts runless evaluations as the
    run "", so it refuses the second one. The event log keeps all of them.
    """
    storage = instance.event_log_storage
    replaced: dict[tuple[str, str], set[str]] = {}
    for entry in entries:
        if entry.dagster_event_type is DagsterEventType.ASSET_CHECK_EVALUATION and not entry.run_id:
            made = entry.get_dagster_event().asset_check_evaluation_data
            if made.partition is not None:
                named = (made.asset_key.to_string(), made.check_name)
                replaced.setdefault(named, set()).add(made.partition)
    if not replaced or not isinstance(storage, SqlEventLogStorage):
        return
    rows = AssetCheckExecutionsTable
    with storage.index_connection() as conn:
        for (key, name), partitions in replaced.items():
            conn.execute(
                rows.delete()
                .where(rows.c.asset_key == key, rows.c.check_name == name)
                .where(rows.c.run_id == RUNLESS_RUN_ID, rows.c.partition.in_(partitions))
            )


def report_failed(
    instance: DagsterInstance,
    job: JobDefinition,
    key: AssetKey,
    partition: str,
    *,
    began: datetime,
    ended: datetime,
    tags: Mapping[str, str],
    text: str,
    metadata: Mapping[str, Any],
) -> None:
    """Show a partition as failed by the record of a run of this job.

    `began` and `ended` are the times of the run, `tags` its tags. An event at the run's end
    holds `text` and `metadata`.
    """
    job_snapshot, plan_snapshot = _snapshots(instance, job)
    record = DagsterRun(
        job_name=job.name,
        run_id=str(uuid4()),
        asset_selection=frozenset([key]),
        tags={**tags, PARTITION_NAME_TAG: partition},
        job_snapshot_id=job_snapshot,
        execution_plan_snapshot_id=plan_snapshot,
    )
    instance.run_storage.add_historical_run(record, began)
    report_planned(instance, key, partition, record, began)
    for kind, instant in (
        (DagsterEventType.PIPELINE_START, began),
        (DagsterEventType.PIPELINE_FAILURE, ended),
    ):
        change = DagsterEvent(kind.value, job.name)
        instance.run_storage.handle_run_event(record.run_id, change, instant)
    event = DagsterEvent(
        DagsterEventType.ENGINE_EVENT.value,
        job.name,
        event_specific_data=EngineEventData(metadata),
        message=text,
    )
    instance.report_dagster_event(event, record.run_id, timestamp=ended.timestamp())


def _snapshots(instance: DagsterInstance, job: JobDefinition) -> tuple[str, str]:
    """Return the snapshots of a run's job and steps; stored once for all runs of the job."""
    runs = instance.run_domain
    job_snapshot = runs.ensure_persisted_job_snapshot(job.get_job_snapshot(), None)
    plan = snapshot_from_execution_plan(create_execution_plan(job), job_snapshot)
    return job_snapshot, runs.ensure_persisted_execution_plan_snapshot(plan, job_snapshot, None)
