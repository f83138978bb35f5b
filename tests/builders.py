"""Builders that hide the noise of tests: tables, windows and logs in one word each."""

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.attempts import Attempt, Claim, Owner, Status, StepOutcome
from logdriven_dagster.model.logs import OpenWindow, TableLog
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.attempts import steps
from logdriven_dagster.runlog.attempts import writes as attempts

UTC = ZoneInfo("UTC")
STEP = {"step": "load", "sql": "SELECT 1 AS one", "target": {"type": "iceberg"}}


def table(name: str = "ods.t", *, zone: str = "UTC", **fields: Any) -> TableConfig:
    """A daily table from 2022-01-01 with one step, unless told otherwise."""
    values = {"table": name, "period": 1440, "default_start": "2022-01-01", "steps": [STEP]}
    return TableConfig.model_validate(values | fields, context={"zone": ZoneInfo(zone)})


def at(text: str, zone: str = "UTC") -> datetime:
    """`at("2022-01-05 14:00")`."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


def day(n: int) -> TimeWindow:
    """The n-th of January 2022."""
    return days(n, n + 1)


def days(first: int, end: int) -> TimeWindow:
    """`[first, end)` of January 2022."""
    start = datetime(2022, 1, 1, tzinfo=UTC)
    return TimeWindow(start + timedelta(days=first - 1), start + timedelta(days=end - 1))


def hours(first: int, end: int, of_day: int = 1) -> TimeWindow:
    """`[first, end)` o'clock of a day of January 2022."""
    midnight = day(of_day).start
    return TimeWindow(midnight + timedelta(hours=first), midnight + timedelta(hours=end))


def log(*finished: TimeWindow, failed: tuple[TimeWindow, ...] = (), **fields: Any) -> TableLog:
    """A log with finished windows and failed ones, jobs numbered from 1."""
    opened = tuple(OpenWindow(w, n + 1, Status.FAILURE) for n, w in enumerate(failed))
    return TableLog(finished=finished, open=opened, **fields)


def claimed(conn: Connection, wanted: Claim) -> Attempt:
    """A window is claimed, and its first step runs."""
    attempt = attempts.claim(conn, wanted)
    attempts.start_step(conn, attempt, wanted.steps[0])
    return attempt


def end_step(conn: Connection, job_id: int, step_id: str, outcome: StepOutcome) -> None:
    """A step has ended so."""
    row = steps.find(conn, job_id, step_id)
    assert row is not None
    steps.finish(conn, row, outcome)


def running(window: TimeWindow) -> OpenWindow:
    """A window that job 9 is running."""
    return OpenWindow(window, 9, Status.RUNNING, Owner("elsewhere", 1, 2))
