"""The sensor that shows in Dagster what was run outside of it, by the CLI or another deployment."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dagster import (
    AssetMaterialization,
    DagsterInstance,
    DefaultSensorStatus,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from logdriven_dagster.config import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import in_brief
from logdriven_dagster.execution.local import open_runner
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.orchestration.catch_up import CATCH_UP
from logdriven_dagster.orchestration.checks import Found, evaluations
from logdriven_dagster.orchestration.endings import report_failed
from logdriven_dagster.orchestration.metadata import merged_metadata, window_metadata
from logdriven_dagster.orchestration.partitions import table_partitions
from logdriven_dagster.orchestration.reporting import asset_key
from logdriven_dagster.runlog import quality
from logdriven_dagster.runlog.mirror import ended_since
from logdriven_dagster.runlog.slices import window_of

MIRROR = "run_log_mirror"
JOB_TAG = "logdriven/job_id"
"""On the record of a failed window: the attempt that it shows."""

_AT_ONCE = 100
_LOOK_BACK = timedelta(minutes=1)
"""Longer than a transaction that ends an attempt takes."""


def mirror_sensor(project: Project) -> SensorDefinition:
    """Each tick: a materialization or failure for each window that ended outside this Dagster."""
    config = project.config.sensor

    @sensor(
        name=MIRROR,
        minimum_interval_seconds=max(int(config.interval.total_seconds()), 1),
        default_status=(
            DefaultSensorStatus.RUNNING if config.enabled else DefaultSensorStatus.STOPPED
        ),
        description="Shows windows that were run outside of this Dagster.",
    )
    def evaluate(context: SensorEvaluationContext) -> SensorResult:
        seen = Seen.of(context.cursor)
        with open_runner(project).run_log.read() as conn:
            rows = ended_since(conn, seen.since, seen.job_ids, _AT_ONCE)
            foreign = _foreign(context.instance, rows)
            for row in foreign:
                row["quality"] = quality.reports(conn, row["job_id"])
        shown = sum(_show(context.instance, project, row) for row in foreign)
        reason = SkipReason(f"{shown} windows that were run elsewhere are shown")
        return SensorResult(skip_reason=reason, cursor=seen.then(rows))

    return evaluate


@dataclass(frozen=True, slots=True)
class Seen:
    """The cursor: up to when attempts that ended were seen, and which of the last minute."""

    until: str | None = None
    recent: tuple[tuple[int, str], ...] = ()
    """Job id and end of the attempts seen in the minute before `until`."""

    @classmethod
    def of(cls, cursor: str | None) -> "Seen":
        """What a cursor says; one that cannot be read says nothing."""
        try:
            values = json.loads(cursor or "{}")
            recent = tuple((int(n), str(t)) for n, t in values["recent"])
            for moment in filter(None, [values["until"], *(end for _, end in recent)]):
                _moment(moment)
            return cls(values["until"], recent)
        except (AttributeError, TypeError, ValueError, KeyError):
            return cls()

    @property
    def since(self) -> datetime | None:
        return None if self.until is None else _moment(self.until) - _LOOK_BACK

    @property
    def job_ids(self) -> list[int]:
        return [job_id for job_id, _ in self.recent]

    def then(self, rows: Sequence[dict[str, Any]]) -> str:
        """The cursor after these rows."""
        together = [*self.recent, *((row["job_id"], row["job_end_time"]) for row in rows)]
        ends = [_moment(end) for _, end in together]
        until = max([*ends, *([_moment(self.until)] if self.until else [])], default=None)
        if until is None:
            return json.dumps({"until": None, "recent": []})
        recent = [
            item for item, end in zip(together, ends, strict=True) if end >= until - _LOOK_BACK
        ]
        return json.dumps({"until": until.isoformat(), "recent": recent})


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=None)


def _foreign(instance: DagsterInstance, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The attempts that are not of this instance's own runs, which tell of them themselves."""
    run_ids = [row["dagster_run_id"] for row in rows if row["dagster_run_id"]]
    records = instance.get_runs(RunsFilter(run_ids=run_ids)) if run_ids else []
    own = {run.run_id for run in records}
    return [row for row in rows if row["dagster_run_id"] not in own]


def _show(instance: DagsterInstance, project: Project, row: dict[str, Any]) -> bool:
    """Report one attempt; False for a window that has no partition (any more)."""
    table = project.tables.get(row["job_name"])
    if table is None:
        return False
    partitions, window = table_partitions(table), window_of(table, row)
    if not partitions.holds(window):
        return False
    key, partition = asset_key(table.table), partitions.key(window)
    if partitions.dynamic_name:
        instance.add_dynamic_partitions(partitions.dynamic_name, [partition])
    succeeded = row["status"] == Status.SUCCESS.value
    if succeeded:
        metadata = _metadata(row, window)
        event = AssetMaterialization(key, partition=partition, metadata=metadata)
        instance.report_runless_asset_event(event)
    else:
        errors = [step["error"] for step in row["steps"] if step["error"]]
        text = f"job {row['job_id']} of {row['owner']} ended as {row['status']}"
        tags = {JOB_TAG: str(row["job_id"])}
        text = redact(": ".join([text, *map(in_brief, errors[:1])]))
        report_failed(instance, key, partition, job_name=CATCH_UP, tags=tags, text=text)
    # A window that succeeded has passed all checks; which one stopped another is in its error only.
    checks = {check.check: True for check in table.checks} if succeeded else {}
    for shown in evaluations(
        project, table, Found(row["job_id"], row["quality"], checks), key, partition
    ):
        instance.report_runless_asset_event(shown)
    return True


def _metadata(row: dict[str, Any], window: TimeWindow) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        **window_metadata(window),
        "job_id": row["job_id"],
        "attempt": row["attempt_number"],
        "owner": row["owner"] or "",
    }
    if row["error_count"]:
        metadata["error_count"] = row["error_count"]
    sources = [s["source_count"] for s in row["steps"] if s["source_count"] is not None]
    written = [step for step in row["steps"] if step["target_count"] is not None]
    if sources:
        metadata["source_count"] = sum(sources)
    if malformed := sum(step["malformed_count"] or 0 for step in row["steps"]):
        metadata["malformed_count"] = malformed
    if written:
        rows = written[-1]["target_count"]
        metadata |= {"target_count": rows, "dagster/row_count": rows}
        metadata |= merged_metadata(written[-1]["inserted_count"], written[-1]["updated_count"])
    return metadata
