"""Zones whose clocks change, and projects whose windows cost nothing but their log."""

import textwrap
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from logdriven_dagster.config import load_project
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.history import logs
from logdriven_dagster.testing import NullEngine, memory_run_log
from logdriven_dagster.testing.null_engine import null_runner

CHANGES = {
    "Europe/Berlin": ("2022-03-27T01:00", "2022-10-30T01:00"),
    "America/New_York": ("2022-03-13T07:00", "2022-11-06T06:00"),
    "Australia/Lord_Howe": ("2022-04-02T15:00", "2022-10-01T15:30"),
    "Africa/Casablanca": ("2022-03-27T02:00", "2022-05-08T02:00"),
    "America/Havana": ("2022-03-13T05:00", "2022-11-06T05:00"),
    "Pacific/Apia": ("2011-12-30T10:00", "2011-09-24T14:00"),
}
"""Zone → the instants, in UTC, at which its clocks change."""


def instant_of(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


@st.composite
def around_a_change(draw: Any) -> tuple[ZoneInfo, datetime]:
    """Draw a zone and an instant within two days of a change of its clocks, to the minute."""
    zone, changes = draw(st.sampled_from(sorted(CHANGES.items())))
    change = instant_of(draw(st.sampled_from(changes)))
    return ZoneInfo(zone), change + timedelta(minutes=draw(st.integers(-96, 96)) * 30)


def null_project(
    folder: Path, zone: str, tables: Sequence[str], run_log: RunLog | None = None
) -> Runner:
    """A runner of a project of these tables, for whose windows no engine does anything."""
    for path, text in {"logdriven": f"project: p\ntimezone: {zone}"}.items():
        (folder / f"{path}.yaml").write_text(text + "\n")
    (folder / "tables").mkdir(exist_ok=True)
    for number, text in enumerate(tables):
        (folder / f"tables/{number}.yaml").write_text(textwrap.dedent(text).strip() + "\n")
    return null_runner(load_project(folder), run_log or memory_run_log(), NullEngine())


def null_table(name: str, period: str, start: str, *upstreams: str, **fields: str) -> str:
    """The file of a table that waits for upstreams."""
    waits = f"depends_on: [{', '.join(upstreams)}]" if upstreams else ""
    more = "\n".join(f"{key}: {value}" for key, value in fields.items())
    step = "{step: load, sql: SELECT 1 AS one, target: {type: parquet}}"
    text = f"table: {name}\nperiod: {period}\ndefault_start: {start}\n{waits}\n{more}\n"
    return f"{text}steps: [{step}]"


def attempted(runner: Runner) -> list[tuple[str, int, int, str]]:
    """Every attempt in the log: table, bounds in seconds, and status, in the order of windows."""
    with runner.run_log.read() as conn:
        rows = logs.list_attempts(conn, limit=100_000)
    kept = ("job_name", "window_start", "window_end", "status")
    return sorted(tuple(row[name] for name in kept) for row in rows)
