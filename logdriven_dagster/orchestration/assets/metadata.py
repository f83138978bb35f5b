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
    TableColumnConstraints,
    TableSchema,
)

from logdriven_dagster.config.connections import get_url
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.declared_columns import describe_columns
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.execution.definitions.changed_targets import ChangedTarget
from logdriven_dagster.execution.definitions.old_windows import OldWindows
from logdriven_dagster.execution.events import WindowFailed, WindowSucceeded
from logdriven_dagster.model.attempts import Attempt, Counts
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
    if table.columns:
        declared = describe_columns(table.columns)
        columns = [
            TableColumn(
                each.name,
                each.type,
                each.comment,
                TableColumnConstraints(nullable=not each.is_required),
            )
            for each in declared
        ]
        metadata["dagster/column_schema"] = TableSchema(columns)
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


def format_changed_target(changed: ChangedTarget) -> dict[str, str]:
    """Return the metadata of a definition whose finished windows were written in another way."""
    return {"changed_target": f"{changed.description} (when the code location was loaded)"}


def format_made_without(found: Sequence[MadeWithout]) -> dict[str, str]:
    """Return the metadata of a definition with finished windows that ran before a new upstream."""
    texts = "; ".join(made.description for made in found)
    return {"made_without": f"{texts} (when the code location was loaded)"}


def format_old_windows(found: OldWindows) -> dict[str, str]:
    """Return the metadata of a definition with finished windows by older versions."""
    return {"old_windows": f"{found.description} (when the code location was loaded)"}


def _start(table: TableConfig) -> str:
    start = table.default_start
    return start.isoformat() if isinstance(start, datetime) else str(start)


def kinds(project: Project, table: TableConfig) -> set[str]:
    """Return Spark and the kinds of the targets; Dagster shows three kinds at most."""
    target = table.output
    if target.connected is None or target.connected.to != "a database":
        return {"spark", target.type}
    url = get_url(project.config.connections[target.connected.name])
    backend = (url or "").partition(":")[0].partition("+")[0]
    return {"spark", _DATABASES.get(backend, backend or target.type)}


def success_metadata(event: WindowSucceeded) -> dict[str, Any]:
    """Return the metadata of a materialization: rows, columns, window, job and snapshot."""
    staged, published = _output(event)
    metadata = _attempt_metadata(event.attempt)
    metadata |= duration_shown(event.attempt.window, event.seconds, datetime.now(timezone.utc))
    has_rules = any(step.quality for step in event.steps)
    metadata |= counts_shown(event.counts, event.error_count, has_rules)
    if staged is not None:
        metadata |= columns_shown(staged.columns)
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


def duration_shown(window: TimeWindow, seconds: float, finished: datetime) -> dict[str, float]:
    """Return the duration of an attempt, and the time from the end of its window to its end."""
    shown = {"seconds": round(seconds, 3)}
    if not isinstance(window, Slice):
        shown["lag_seconds"] = round(finished.timestamp() - window.end.timestamp(), 3)
    return shown


def counts_shown(steps: Sequence[Counts], error_count: int, has_rules: bool) -> dict[str, int]:  # noqa: FBT001
    """Return the counts of a successful attempt, from an event or from the run log.

    `error_count` is its number of failed tries. Rejected rows are shown for tables with rules only,
    and counts of exceptional rows only if there are any.
    """
    total = Counts.sum(steps)
    written = next((each for each in reversed(steps) if each.target is not None), Counts())
    counts = {
        "error_count": error_count or None,
        "source_count": total.source,
        "rows_of_no_window": total.outside or None,
        "malformed_count": total.malformed or None,
        "rejected_count": (total.failure or 0) if has_rules else None,
        "target_count": written.target,
        "inserted_count": written.inserted,
        "updated_count": written.updated,
    }
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
