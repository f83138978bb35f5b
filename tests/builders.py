"""Builders that hide the noise of tests: tables, windows and logs in one word each."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from sqlalchemy.engine import Connection

from logdriven_dagster.config import Project
from logdriven_dagster.config.locations import as_path
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.attempts import (
    Attempt,
    AttemptOutcome,
    Claim,
    Owner,
    Status,
    StepOutcome,
    Trigger,
)
from logdriven_dagster.model.logs import OpenWindow, TableLog
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.attempts import claiming, ending, steps
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS

if TYPE_CHECKING:
    from logdriven_dagster.execution.events import WindowEvent
    from logdriven_dagster.execution.runner import Runner

UTC = ZoneInfo("UTC")
STEP = {"step": "load", "sql": "SELECT 1 AS one", "target": {"type": "iceberg"}}


def table(name: str = "ods.t", *, zone: str = "UTC", **fields: Any) -> TableConfig:
    """A daily table from 2022-01-01 with one step, unless told otherwise."""
    values = {"table": name, "period": 1440, "default_start": "2022-01-01", "steps": [STEP]}
    return TableConfig.model_validate(values | fields, context={"zone": ZoneInfo(zone)})


def warehouse(project: Project) -> Path:
    """The folder of a project's warehouse, to look into it."""
    return Path(as_path(project.warehouse))


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
    return claim_one(conn, wanted, Status.RUNNING)


def claim_one(conn: Connection, wanted: Claim, first: Status = Status.READY) -> Attempt:
    """A window is claimed by itself."""
    (attempt,) = claiming.claim(conn, [wanted], first)
    return attempt


def start_step(conn: Connection, attempt: Attempt, step_id: str) -> None:
    """A step of an attempt begins, maybe once more."""
    ATTEMPTS.renew(conn, [attempt])
    steps.start(conn, [attempt.job_id], step_id)


def stage_step(conn: Connection, attempt: Attempt, step_id: str, state: str) -> None:
    """The result of a step is durable."""
    steps.stage(conn, {(attempt.job_id, step_id): state})


def end_step(conn: Connection, job_id: int, step_id: str, outcome: StepOutcome) -> None:
    """A step has ended so."""
    steps.finish(conn, {(job_id, step_id): outcome})


def finish(conn: Connection, attempt: Attempt, outcome: AttemptOutcome) -> None:
    """An attempt has ended so, after its steps or with those that still run."""
    if outcome.status is Status.SUCCESS:
        ending.succeed(conn, [attempt], outcome, {})
    else:
        ending.fail(conn, [attempt], outcome)


def run_window(
    runner: "Runner", table: str, window: TimeWindow, now: datetime, **options: Any
) -> "Iterator[WindowEvent]":
    """One unfinished window runs by itself; RefusedError if it is finished or may not run yet."""
    from logdriven_dagster.execution.definitions.renames import settle_tables
    from logdriven_dagster.execution.window.orders import Order

    config = runner.project.table(table)
    settle_tables(runner.project, runner.run_log, [config])
    order = Order(runner.project, config, window, Trigger.PENDING, now, **options)
    with runner.outbox.gather():
        yield from runner.passes.run([order])


def running(window: TimeWindow) -> OpenWindow:
    """A window that job 9 is running."""
    return OpenWindow(window, 9, Status.RUNNING, Owner("elsewhere", 1, 2))
