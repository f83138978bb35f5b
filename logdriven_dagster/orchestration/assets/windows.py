"""Dagster metadata of windows, made from their rows in the run log.

A run of Dagster and the mirror of the run log use the same function, so a window has the same
metadata wherever it ran. The story comes first, then numbers, and what identifies the attempt last.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from dagster import TableColumn, TableSchema

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.declared_columns import describe_columns
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.execution.notifications import wording
from logdriven_dagster.model.attempts import Counts, Status
from logdriven_dagster.model.runs import Column
from logdriven_dagster.model.windows import Slice, TimeWindow
from logdriven_dagster.orchestration.assets.stories import story_of
from logdriven_dagster.runlog.attempts.steps import read_counts

COLUMNS = "dagster/column_schema"
"""The metadata by which Dagster shows the columns of a table."""


def window_metadata(
    project: Project,
    table: TableConfig,
    window: TimeWindow,
    rows: Sequence[wording.Row],
    job_id: int,
) -> dict[str, Any]:
    """Return the metadata of an attempt at a window: of a success, a failure, or a skipped window.

    `rows` are the attempts at the window as the run log has them, newest first; `job_id` is the
    attempt that Dagster shows.
    """
    story = story_of(project, table, window, rows)
    row = next((row for row in rows if row["job_id"] == job_id), None)
    if row is None:  # the log was shortened since
        return story | _range_shown(window)
    shown = story | _outcome_shown(table, row)
    return shown | _range_shown(window) | _attempt_shown(window, row)


def _outcome_shown(table: TableConfig, row: wording.Row) -> dict[str, Any]:
    match Status(row["status"]):
        case Status.SUCCESS:
            return _success_shown(table, row) | _duration_shown(row)
        case Status.SKIPPED:
            return {}
        case Status.FAILURE | Status.DISCARDED | Status.RUNNING | Status.READY:
            return _failure_shown(row) | _duration_shown(row)


def columns_shown(table: TableConfig | None, columns: Sequence[Column]) -> dict[str, Any]:
    """Return the metadata of a table's columns, with the comments of its file or its target."""
    declared = describe_columns(table.columns) if table is not None and table.columns else ()
    comments = {each.name.lower(): each.comment for each in declared if each.comment}
    shown = [
        TableColumn(each.name, each.type, comments.get(each.name.lower()) or each.comment)
        for each in columns
    ]
    return {COLUMNS: TableSchema(shown)}


def rows_of_table(number: int | None) -> dict[str, Any]:
    """Return the row count of a whole table, which Dagster shows; nothing if it is unknown."""
    return {} if number is None else {"dagster/row_count": number}


def _success_shown(table: TableConfig, row: wording.Row) -> dict[str, Any]:
    """Return the counts, and the target with the snapshot of the last published step."""
    has_rules = any(step.quality for step in table.steps)
    counts = [read_counts(step) for step in row["steps"]]
    shown: dict[str, Any] = counts_shown(counts, row["error_count"], has_rules)
    if "target_count" in shown:
        shown["dagster/partition_row_count"] = shown["target_count"]
    published = [step for step in row["steps"] if step["target"]]
    if published:
        last = published[-1]
        shown["target"] = last["target"]
        shown |= {"snapshot_id": last["snapshot_id"]} if last["snapshot_id"] else {}
    return shown


def counts_shown(steps: Sequence[Counts], error_count: int, has_rules: bool) -> dict[str, int]:  # noqa: FBT001
    """Return the counts of a successful attempt.

    `error_count` is its number of failed tries. Rejected rows are shown for tables with rules only,
    and counts of exceptional rows only if there are any.
    """
    total = Counts.sum(steps)
    written = next((each for each in reversed(steps) if each.target is not None), Counts())
    counts = {
        "source_count": total.source,
        "target_count": written.target,
        "inserted_count": written.inserted,
        "updated_count": written.updated,
        "rejected_count": (total.failure or 0) if has_rules else None,
        "malformed_count": total.malformed or None,
        "rows_of_no_window": total.outside or None,
        "error_count": error_count or None,
    }
    return {name: count for name, count in counts.items() if count is not None}


def _failure_shown(row: wording.Row) -> dict[str, Any]:
    step = wording.find_failed_step(row)
    return {"step": step["step_id"], "error": redact(step["error"])} if step else {}


def _duration_shown(row: wording.Row) -> dict[str, float]:
    seconds = wording.seconds(row)
    return {} if seconds is None else {"seconds": round(seconds, 2)}


def _range_shown(window: TimeWindow) -> dict[str, Any]:
    start, end = window.bounds
    return {
        "window": str(window),
        "data_range_start": start.isoformat() if isinstance(start, datetime) else start,
        "data_range_end": end.isoformat() if isinstance(end, datetime) else end or "",
    }


def _attempt_shown(window: TimeWindow, row: wording.Row) -> dict[str, Any]:
    """Return the version and ids of an attempt as text, since Dagster plots numbers, and its delay.

    The delay is the time from the end of the window to the end of the attempt.
    """
    shown: dict[str, Any] = {}
    if row["table_version"] is not None:
        shown["table_version"] = str(row["table_version"])
    shown |= {"job_id": str(row["job_id"]), "attempt": str(row["attempt_number"])}
    if row["job_end_time"] and row["status"] == Status.SUCCESS and not isinstance(window, Slice):
        ended = datetime.fromisoformat(row["job_end_time"])
        shown["lag_seconds"] = round(ended.timestamp() - window.end.timestamp())
    return shown
