"""Formatting of run log rows for messages and reports."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from logdriven_dagster.config.models.incremental.registered import get_incremental_type
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.model.attempts import Status

Row = Mapping[str, Any]
"""A row of `job_log` with its `steps`, as `history.list_attempts` returns it."""


def format_instant(text: str | None) -> str:
    """Format `yyyyMMddHHmmss` as `yyyy-MM-dd HH:mm:ss`; return any other text unchanged."""
    t = text or ""
    if not (len(t) >= 14 and t[:14].isdecimal()):
        return t
    return f"{t[:4]}-{t[4:6]}-{t[6:8]} {t[8:10]}:{t[10:12]}:{t[12:]}"


def format_bound(row: Row, column: str) -> str:
    """Format `data_range_start` or `_end`; unchanged for a slice, whose keys may look like times.

    Source: Sharp ETL, DailyJobsSummaryReport, which uses the start for an end that is not a time.
    """
    is_sliced = get_incremental_type(row["incremental_type"]).is_sliced
    return row[column] or "" if is_sliced else format_instant(row[column])


def window(row: Row) -> str:
    """Format the range of an attempt on one line: times or keys, or the number of a slice."""
    start, end = row["data_range_start"], row["data_range_end"]
    kind = get_incremental_type(row["incremental_type"])
    if not kind.is_sliced:
        return f"{_brief(start)} – {_brief(end)}"
    return kind.slice_text(f"#{str(row['job_schedule_id']).rpartition('-')[2]}", start, end)


def _brief(text: str | None) -> str:
    """Format a timestamp without a time that is midnight, and without seconds that are zero."""
    whole = format_instant(text)
    for nothing in (" 00:00:00", ":00"):
        if len(whole) == 19 and whole.endswith(nothing):
            return whole.removesuffix(nothing)
    return whole or "–"


def clock(text: str | None, zone: ZoneInfo) -> str:
    """Format an ISO 8601 timestamp of the log on the project's clock: `yyyy-MM-dd HH:mm:ss`."""
    return f"{datetime.fromisoformat(text).astimezone(zone):%Y-%m-%d %H:%M:%S}" if text else ""


def seconds(row: Row) -> float | None:
    """Return the duration of an attempt; None while it runs."""
    return compute_elapsed(row["job_start_time"], row["job_end_time"])


def compute_elapsed(start: str | None, end: str | None) -> float | None:
    """Return the seconds between two timestamps of the log; None if one of them is missing."""
    if not (start and end):
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def duration(value: float | None) -> str:
    """Format a number of seconds for display."""
    if value is None:
        return ""
    if value < 60:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def find_failed_step(row: Row) -> Row | None:
    """Return the step that caused the failure of an attempt."""
    if row["status"] not in (Status.FAILURE.value, Status.DISCARDED.value):
        return None
    blamed = [step for step in row["steps"] if step["error"]]
    return next(iter(blamed), None)


def error(row: Row) -> str:
    """Return the error of an unsuccessful attempt, without secrets."""
    step = find_failed_step(row)
    return redact(step["error"]).strip() if step else ""


def data_flow(row: Row) -> str:
    """Return the flow of rows: `csv(24) -> iceberg(24)`. Source: Sharp ETL, dataFlow."""
    steps = [step for step in row["steps"] if step["target_type"]]
    if len(steps) == 1:
        only = steps[0]
        source = f"{only['source_type'] or ''}({_count(only['source_count'])})"
        return f"{source} -> {only['target_type']}({_count(only['success_count'])})"
    return " -> ".join(f"{step['target_type']}({_count(step['success_count'])})" for step in steps)


def _count(number: int | None) -> str:
    return "" if number is None else str(number)


def total(row: Row, column: str) -> int | None:
    """Return the sum of a count over the steps; None if no step has it."""
    counts = [step[column] for step in row["steps"] if step[column] is not None]
    return sum(counts) if counts else None
