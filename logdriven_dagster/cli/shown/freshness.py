"""Output of the freshness of tables, on a terminal and as JSON."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from logdriven_dagster.cli.shown.rendering import format_seconds, format_state, print_line
from logdriven_dagster.planning.freshness import Freshness, Verdict


def format_freshness(found: Freshness | None, now: datetime) -> Any:
    """Return `fresh`, or the time for which the table has been late."""
    if found is None:
        return "–"
    if found.verdict is Verdict.FRESH:
        return format_state("fresh")
    late = format_seconds(found.overdue(now).total_seconds())
    return format_state(found.verdict.value, f"{found.verdict.value}, {late}")


def convert_freshness(found: Freshness | None, now: datetime) -> dict[str, object] | None:
    """Convert the verdict with its windows and times; null if not judged."""
    if found is None:
        return None
    decisive = found.missing or found.expected
    return {
        "verdict": found.verdict.value,
        "within_seconds": round(found.within.total_seconds()),
        "data_range_start": decisive.start_clock if decisive else None,
        "data_range_end": decisive.end_clock if decisive else None,
        "due": found.due_clock,
        "overdue_seconds": round(found.overdue(now).total_seconds()),
        "reason": found.reason,
    }


def print_late(standing: Mapping[str, Freshness | None]) -> None:
    """Print each late table with its missing window, since when it is due, and its state."""
    for name, found in standing.items():
        if found is not None and found.missing is not None:
            due = f"should have finished by {found.due_clock:%Y-%m-%d %H:%M}"
            print_line(f"{name} is {found.verdict.value}: {found.missing} {due}; {found.reason}")
