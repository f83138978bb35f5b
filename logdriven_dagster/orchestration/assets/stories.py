"""The history of a window in the run log, shown with the window in Dagster."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime, time
from typing import Any

from dagster import AssetKey, AssetObservation, MetadataValue

from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import in_brief
from logdriven_dagster.execution.notifications import wording
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.orchestration.assets.markdown import grid, plain
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.history.logs import list_attempts_at

_MOST = 10
"""The number of attempts; the command below them shows all."""
_LONGEST_ERROR = 200
_HEADING = ("job", "status", "began", "took", "rows read → written", "version", "run")


def stories_shown(
    project: Project, run_log: RunLog, windows: Sequence[tuple[str, TimeWindow]]
) -> list[dict[str, Any]]:
    """Return for each window its attempts with their steps, newest first, and a command for more.

    `windows` are pairs of a table's name and a window. The log is queried once for all of them.
    """
    found = run_log.ask(lambda conn: list_attempts_at(conn, windows, _MOST))
    pairs = zip(windows, found, strict=True)
    return [story_of(project, table, window, rows) for (table, window), rows in pairs]


def story_shown(
    project: Project, run_log: RunLog, table: str, window: TimeWindow
) -> dict[str, Any]:
    """Return the metadata of one window, in the form of `stories_shown`."""
    return stories_shown(project, run_log, [(table, window)])[0]


def story_of(
    project: Project, table: str, window: TimeWindow, rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return as metadata the story of a window, given its attempts, newest first."""
    return {"story": MetadataValue.md(_render_story(project, table, window, rows))} if rows else {}


def describe_failed_refresh(
    key: AssetKey, partition: str, error: str, metadata: Mapping[str, Any]
) -> AssetObservation:
    """Return an observation of a failed refresh: the partition stays as it was published."""
    text = f"its refresh failed; the table is unchanged: {error}"
    return AssetObservation(key, partition=partition, description=text, metadata=metadata)


def _render_story(
    project: Project, table: str, window: TimeWindow, rows: Sequence[Mapping[str, Any]]
) -> str:
    day = wording.clock(rows[0]["job_start_time"], project.zone)[:10]
    log = f"logdriven log {table} --window {shlex.quote(_name(window))} --full"
    report = f"logdriven report --from {day} --job {table}"
    more = f"Whole log: `{redact(log)}`\n\nOther windows of that day: `{report}`"
    return f"{grid(_HEADING, [_attempt(project, row) for row in rows])}\n\n{more}"


def _name(window: TimeWindow) -> str:
    """Return the window's name as `--window` of the command line takes it."""
    start = window.bounds[0]
    if not isinstance(start, datetime):
        return window.key
    return f"{start:%Y-%m-%d}" if start.time() == time() and not start.fold else start.isoformat()


def _attempt(project: Project, row: Mapping[str, Any]) -> Sequence[str]:
    version = row["table_version"]
    return (
        str(row["job_id"]),
        row["status"],
        wording.clock(row["job_start_time"], project.zone),
        wording.duration(wording.seconds(row)),
        "; ".join(map(_step, row["steps"])),
        "" if version is None else str(version),
        _run(project, row),
    )


def _step(step: Mapping[str, Any]) -> str:
    name, status = plain(step["step_id"]), step["status"]
    if step["error"]:
        return f"{name} {status}: {plain(in_brief(step['error']), _LONGEST_ERROR)}"
    if status != "SUCCESS":
        return f"{name} {status}"
    read, written = step["source_count"], step["target_count"]
    return f"{name} {'–' if read is None else read} → {'–' if written is None else written}"


def _run(project: Project, row: Mapping[str, Any]) -> str:
    """Return a link to the Dagster run; for the command line, the host on which it ran."""
    if run_id := row["dagster_run_id"]:
        return f"[{run_id[:8]}]({(project.config.ui_url or '').rstrip('/')}/runs/{run_id})"
    return plain((row["owner"] or "").partition("/")[0])
