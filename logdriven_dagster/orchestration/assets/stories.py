"""The story of a window in the run log: its state, the reason, what to do, and all attempts."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, time
from typing import Any

from dagster import AssetKey, AssetObservation, MetadataValue

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import in_brief
from logdriven_dagster.execution.notifications import wording
from logdriven_dagster.model.attempts import Counts, Status, Trigger
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.orchestration.assets.markdown import grid, plain
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.attempts.steps import read_counts
from logdriven_dagster.runlog.history.logs import list_attempts_at

_MOST = 10
"""The number of attempts; the command below them shows all."""
_LONGEST_ERROR = 200
_REASONS = {
    Trigger.PENDING.value: "It ran because it was due.",
    Trigger.REFRESH.value: "It ran because someone asked for it.",
    Trigger.LOOKBACK.value: "It ran again because late rows may have arrived.",
    Trigger.UPSTREAM.value: "It ran again because a window that it reads ran again.",
    Trigger.SOURCE.value: "It ran again because files of its source changed after it ran.",
    Trigger.RESTATE.value: "It ran again because an older version of the table made it.",
}
_HEADING = ("job", "status", "began", "took", "rows read → written", "version", "run")


def story_of(
    project: Project, table: TableConfig, window: TimeWindow, rows: Sequence[wording.Row]
) -> dict[str, Any]:
    """Return as metadata the story of a window, given its attempts, newest first."""
    if not rows:
        return {}
    return {"story": MetadataValue.md(_render_story(project, table, window, rows))}


def list_attempts_shown(
    run_log: RunLog, windows: Sequence[tuple[str, TimeWindow]]
) -> list[list[dict[str, Any]]]:
    """Return for each window of a table its attempts that a story shows, newest first.

    The log is queried once for all windows.
    """
    return run_log.ask(lambda conn: list_attempts_at(conn, windows, _MOST))


def describe_failed_refresh(
    key: AssetKey, partition: str, error: str, metadata: Mapping[str, Any]
) -> AssetObservation:
    """Return an observation of a failed refresh: the partition stays as it was published."""
    text = f"its refresh failed; the table is unchanged: {error}"
    return AssetObservation(key, partition=partition, description=text, metadata=metadata)


def _render_story(
    project: Project, table: TableConfig, window: TimeWindow, rows: Sequence[wording.Row]
) -> str:
    """Return the state of the window with the next action, its attempts, and commands for more."""
    day = wording.clock(rows[0]["job_start_time"], project.zone)[:10]
    log = f"logdriven log {table.table} --window {shlex.quote(_name(window))} --full"
    report = f"logdriven report --from {day} --job {table.table}"
    more = f"Whole log: `{redact(log)}`\n\nOther windows of that day: `{report}`"
    attempts = grid(_HEADING, [_attempt(project, row) for row in rows])
    return "\n\n".join([*_describe_state(table, window, rows[0]), attempts, more])


def _describe_state(table: TableConfig, window: TimeWindow, row: wording.Row) -> Iterator[str]:
    """Yield a sentence about the state of the window, and one about what to do."""
    refresh = f"`logdriven refresh {_at(table, window)}`"
    by_operator = row["run_trigger"] == Trigger.SKIP
    match Status(row["status"]):
        case Status.SUCCESS:
            reason = _REASONS.get(row["run_trigger"] or "", "")
            yield f"**Finished**: {_describe_rows(row)}. {reason}".rstrip()
        case Status.SKIPPED:
            unskip = f"`logdriven unskip {_at(table, window)}`"
            yield f"**Skipped**, so no rows were read: {_why_skipped(table, row)}."
            fix = unskip if by_operator else refresh
            yield f"Tables wait for it only with `skipped: wait`. To run it: {fix}."
        case Status.DISCARDED if by_operator:
            yield f"**Pending again**: {_why_skipped(table, row)}."
            yield "`logdriven run`, the sensor or *Materialize* runs it."
        case Status.FAILURE | Status.DISCARDED if is_failed_refresh(row):
            yield f"**Its refresh failed**: {_describe_error(row)}."
            yield f"The rows that were published before remain. After the repair: {refresh}."
        case Status.FAILURE:
            yield f"**Failed**: {_describe_error(row)}."
            waits = "; until then, later windows wait" if table.ordered else ""
            yield f"Fix the cause, then *Materialize* it or use `logdriven run`{waits}."
        case Status.DISCARDED:
            yield f"**Stopped**: {_describe_error(row)}. It is pending as before."
        case Status.RUNNING | Status.READY:
            yield f"**Running** since {row['job_start_time']} UTC."


def is_failed_refresh(row: wording.Row) -> bool:
    """Return True if an attempt failed at a window that is finished nevertheless."""
    unsuccessful = row["status"] != Status.SUCCESS
    return unsuccessful and (row["standing"] is not None or row["failed_refresh"] is not None)


def _describe_rows(row: wording.Row) -> str:
    counts = Counts.sum(read_counts(step) for step in row["steps"])
    took = wording.duration(wording.seconds(row))
    if row["run_trigger"] == Trigger.TAKEOVER:
        return "in the system that ran it before"
    read, written = ("–" if n is None else f"{n:,}" for n in (counts.source, counts.target))
    rejected = counts.failure or 0
    others = f", {rejected:,} rejected by rules" if rejected else ""
    return f"{read} rows read, {written} written{others}, in {took}" if row["steps"] else took


def _why_skipped(table: TableConfig, row: wording.Row) -> str:
    """Return the recorded reason; none is recorded if a newer window took the place of this one."""
    reasons = [step["output"] for step in row["steps"] if step["output"]]
    if reasons:
        return plain(reasons[0], _LONGEST_ERROR)
    if table.incremental_type == "full":
        return "each window replaces the whole table, so only the newest one runs"
    return "only the newest window runs (`latest_only`)"


def _describe_error(row: wording.Row) -> str:
    step = wording.find_failed_step(row)
    if step is None:
        return "its process ended"
    brief = in_brief(step["error"]).rstrip(".")
    return f"step {plain(step['step_id'])}: {plain(brief, _LONGEST_ERROR)}"


def _at(table: TableConfig, window: TimeWindow) -> str:
    return f"{table.table} --window {shlex.quote(_name(window))}"


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
