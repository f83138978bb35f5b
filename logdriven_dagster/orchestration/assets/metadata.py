"""Dagster metadata of tables and windows."""

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from dagster import (
    CodeReferencesMetadataValue,
    LocalFileCodeReference,
    MetadataValue,
    TableColumn,
    TableSchema,
)

from logdriven_dagster.config import Project
from logdriven_dagster.config.connections import given_url
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.execution.definitions.changed_targets import ChangedTarget
from logdriven_dagster.execution.events import WindowFailed, WindowSucceeded
from logdriven_dagster.model.attempts import Attempt
from logdriven_dagster.model.runs import Column, Published, Staged
from logdriven_dagster.model.windows import Slice, TimeWindow
from logdriven_dagster.planning.unread import MadeWithout

_DATABASES = {"postgresql": "postgres", "mariadb": "mariadb", "mysql": "mysql", "sqlite": "sqlite"}
"""The names for which Dagster has icons."""


def table_metadata(project: Project, table: TableConfig) -> dict[str, Any]:
    """Return the metadata of a definition: its file, period, start and order."""
    metadata: dict[str, Any] = {
        "table": table.table,
        "period": str(table.period),
        "default_start": _start(table),
        "incremental_type": table.incremental_type,
        "ordered": table.ordered,
    }
    if table.owners:
        metadata["owners"] = ", ".join(table.owners)
    if table.table in project.files:
        path = Path(project.files[table.table])
        metadata["file"] = MetadataValue.path(str(path))
        reference = LocalFileCodeReference(file_path=str(path), line_number=1, label=path.name)
        metadata["dagster/code_references"] = CodeReferencesMetadataValue(
            code_references=[reference]
        )
    return metadata


def changed_target_shown(changed: ChangedTarget) -> dict[str, str]:
    """Return the metadata of a definition whose finished windows were written in another way."""
    return {"changed_target": f"{changed.description} (when the code location was loaded)"}


def made_without_shown(found: Sequence[MadeWithout]) -> dict[str, str]:
    """Return the metadata of a definition with finished windows that ran before a new upstream."""
    texts = "; ".join(made.description for made in found)
    return {"made_without": f"{texts} (when the code location was loaded)"}


def _start(table: TableConfig) -> str:
    start = table.default_start
    return start.isoformat() if isinstance(start, datetime) else str(start)


def kinds(project: Project, table: TableConfig) -> set[str]:
    """Return Spark and the kinds of the targets; Dagster shows three kinds at most."""
    target = table.output
    if target.connected is None or target.connected.to != "a database":
        return {"spark", target.type}
    url = given_url(project.config.connections[target.connected.name])
    backend = (url or "").partition(":")[0].partition("+")[0]
    return {"spark", _DATABASES.get(backend, backend or target.type)}


def success_metadata(event: WindowSucceeded) -> dict[str, Any]:
    """Return the metadata of a materialization: rows, columns, window, job and snapshot."""
    staged, published = _output(event)
    metadata = _attempt_metadata(event.attempt) | {"seconds": round(event.seconds, 3)}
    metadata |= lag_shown(event.attempt.window, datetime.now(timezone.utc))
    if event.error_count:
        metadata["error_count"] = event.error_count
    counts = [step.counts.source for step in event.steps if step.counts.source is not None]
    if counts:
        metadata["source_count"] = sum(counts)
    if outside := sum(step.source_rows.outside for step in event.steps if step.source_rows):
        metadata["rows_of_no_window"] = outside
    if malformed := sum(step.counts.malformed or 0 for step in event.steps):
        metadata["malformed_count"] = malformed
    if any(step.quality for step in event.steps):
        metadata["rejected_count"] = sum(s.quality.rejected for s in event.steps if s.quality)
    if staged is not None:
        metadata |= columns_shown(staged.columns)
        if staged.counts.target is not None:
            metadata["target_count"] = staged.counts.target
        metadata |= merged_metadata(staged.counts.inserted, staged.counts.updated)
    if published is not None:
        metadata["target"] = redact(published.target)
        if published.snapshot_id is not None:
            metadata["snapshot_id"] = published.snapshot_id
    rows = published.rows if published is not None else None
    rows = rows if rows is not None else metadata.get("target_count")
    rows = 0 if not event.steps else rows  # an empty key or offset range
    return metadata | rows_shown(rows, published.table_rows if published else None)


def columns_shown(columns: Sequence[Column]) -> dict[str, Any]:
    """Return the metadata of a table's columns, which Dagster shows with the asset."""
    shown = [TableColumn(column.name, column.type) for column in columns]
    return {"dagster/column_schema": TableSchema(shown)}


def rows_shown(of_window: int | None, of_table: int | None) -> dict[str, Any]:
    """Return the row counts of a window and of the whole table, which Dagster shows for an asset.

    A number that is unknown without counting is omitted.
    """
    counts = {"dagster/partition_row_count": of_window, "dagster/row_count": of_table}
    return {name: count for name, count in counts.items() if count is not None}


def lag_shown(window: TimeWindow, finished: datetime) -> dict[str, float]:
    """Return as metadata the time between the end of a time window and its completion."""
    if isinstance(window, Slice):
        return {}
    return {"lag_seconds": round(finished.timestamp() - window.end.timestamp(), 3)}


def merged_metadata(inserted: int | None, updated: int | None) -> dict[str, int]:
    """Return the metadata of an upsert's result; empty for other modes."""
    counts = {"inserted_count": inserted, "updated_count": updated}
    return {name: count for name, count in counts.items() if count is not None}


def failure_metadata(event: WindowFailed) -> dict[str, Any]:
    """Return the metadata of a failed window: attempt, step, and the whole error."""
    return _attempt_metadata(event.attempt) | {
        "step": event.step_id,
        "seconds": round(event.seconds, 3),
        "error": redact(event.error),
    }


def window_metadata(window: TimeWindow) -> dict[str, Any]:
    """Return the metadata of a window's range."""
    start, end = window.bounds
    return {
        "window": str(window),
        "data_range_start": start.isoformat() if isinstance(start, datetime) else start,
        "data_range_end": end.isoformat() if isinstance(end, datetime) else end or "",
    }


def _attempt_metadata(attempt: Attempt) -> dict[str, Any]:
    other = attempt.claim.other_version
    return (
        window_metadata(attempt.window)
        | identity_shown(attempt.job_id, attempt.attempt_number)
        | ({"definition": other} if other else {})
    )


def identity_shown(job_id: int, attempt: int) -> dict[str, str]:
    """Return metadata that identifies an attempt, as text, since Dagster plots numbers."""
    return {"job_id": str(job_id), "attempt": str(attempt)}


def _output(event: WindowSucceeded) -> tuple[Staged | None, Published | None]:
    """Return the last step with a target, which other tables read."""
    published = event.published[-1] if event.published else None
    name = published.step_id if published else None
    staged = next((step for step in reversed(event.steps) if step.step_id == name), None)
    return staged, published
