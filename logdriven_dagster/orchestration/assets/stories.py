"""What happened to a window so far, as the run log has it, beside the window in Dagster."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime, time
from typing import Any

from dagster import AssetKey, AssetObservation, MetadataValue

from logdriven_dagster.config import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import in_brief
from logdriven_dagster.execution.notifications import wording
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.orchestration.assets.markdown import grid, plain
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.history.logs import attempts_of

_MOST = 10
"""Attempts; the command that stands below them shows all."""
_LONGEST_ERROR = 200
_HEADING = ("job", "status", "began", "took", "rows read → written", "version", "run")


def stories_shown(
    project: Project, run_log: RunLog, windows: Sequence[tuple[str, TimeWindow]]
) -> list[dict[str, Any]]:
    """Metadata for each window: its attempts with their steps, newest first, and what tells more.

    A window comes with the name of its table. The log is asked once for all of them.
    """
    found = run_log.ask(lambda conn: attempts_of(conn, windows, _MOST))
    told = zip(windows, found, strict=True)
    return [story_of(project, table, window, rows) for (table, window), rows in told]


def story_shown(
    project: Project, run_log: RunLog, table: str, window: TimeWindow
) -> dict[str, Any]:
    """Metadata of one window, as `stories_shown` gives it."""
    return stories_shown(project, run_log, [(table, window)])[0]


def story_of(
    project: Project, table: str, window: TimeWindow, rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Metadata: the story of a window whose attempts, newest first, are known."""
    return {"story": MetadataValue.md(_told(project, table, window, rows))} if rows else {}


def describe_failed_refresh(
    key: AssetKey, partition: str, error: str, metadata: Mapping[str, Any]
) -> AssetObservation:
    """Return what a partition shows of a refresh that failed: it stays as it was published."""
    text = f"its refresh failed; what was published before stands: {error}"
    return AssetObservation(key, partition=partition, description=text, metadata=metadata)


def _told(
    project: Project, table: str, window: TimeWindow, rows: Sequence[Mapping[str, Any]]
) -> str:
    day = wording.clock(rows[0]["job_start_time"], project.zone)[:10]
    log = f"logdriven log {table} --window {shlex.quote(_name(window))} --full"
    report = f"logdriven report --from {day} --job {table}"
    more = f"All of it: `{redact(log)}`\n\nWhat else ran that day: `{report}`"
    return f"{grid(_HEADING, [_attempt(project, row) for row in rows])}\n\n{more}"


def _name(window: TimeWindow) -> str:
    """What `--window` of the command line calls it."""
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
    """A link to the run of Dagster; of the command line, the host that it ran on."""
    if run_id := row["dagster_run_id"]:
        return f"[{run_id[:8]}]({(project.config.ui_url or '').rstrip('/')}/runs/{run_id})"
    return plain((row["owner"] or "").partition("/")[0])
