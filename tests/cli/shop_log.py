"""Attempts in the shop's run log, written as a runner writes them."""

from pathlib import Path

from logdriven_dagster.config import load_project
from logdriven_dagster.execution.definitions.homes import open_run_log
from logdriven_dagster.execution.owners import current_owner
from logdriven_dagster.model.attempts import (
    Attempt,
    AttemptOutcome,
    Claim,
    Counts,
    Status,
    StepOutcome,
    Trigger,
)
from logdriven_dagster.model.windows import TimeWindow
from tests.builders import at, claimed, end_step, finish

KEYS = """\
table: ods.keys
incremental_type: auto_inc_id
period: 1 day
steps:
  - step: load
    source: {type: jdbc, connection: lite, table: orders, key_column: id}
    target: {type: iceberg}
"""
"""A table that reads the keys of a table of the connection `lite`."""


class ShopLog:
    """The run log of the project in a folder."""

    def __init__(self, folder: Path) -> None:
        self._log = open_run_log(load_project(folder))

    def start(self, table: str, window: TimeWindow, trigger: Trigger = Trigger.PENDING) -> Attempt:
        """This process begins to run a window."""
        owner, now = current_owner(), at("2022-01-04")
        claim = Claim(
            *(table, window, 1440, "time_window", "shop", trigger, owner, now),
            steps=("load",),
            runtime_args={"a": "1"},
            definition="d" if trigger is Trigger.REFRESH else None,
        )
        with self._log.begin() as conn:
            return claimed(conn, claim)

    def succeed(self, table: str, window: TimeWindow) -> None:
        """A window of 24 rows is done."""
        outcome = StepOutcome(Status.SUCCESS, Counts(24, 24, 24, 0), "csv", "iceberg")
        self._end(self.start(table, window), outcome)

    def fail(self, table: str, window: TimeWindow, error: str) -> None:
        """A window failed."""
        outcome = StepOutcome(Status.FAILURE, Counts(success=0), error=error)
        self._end(self.start(table, window), outcome)

    def fail_refresh(self, table: str, window: TimeWindow, error: str) -> None:
        """A refresh of a finished window failed before it published anything."""
        attempt = self.start(table, window, Trigger.REFRESH)
        outcome = StepOutcome(Status.FAILURE, Counts(success=0), error=error)
        self._end(attempt, outcome, published_nothing=True)

    def die_in_refresh(self, table: str, window: TimeWindow) -> None:
        """A refresh of a finished window was killed before it published anything."""
        attempt = self.start(table, window, Trigger.REFRESH)
        past = "lease_expires_at = '2000-01-01 00:00:00.000000'"
        self.sql(f"UPDATE job_log SET {past} WHERE job_id = {attempt.job_id}")

    def sql(self, statement: str) -> None:
        """What an operator types."""
        with self._log.begin() as conn:
            conn.exec_driver_sql(statement)

    def _end(
        self, attempt: Attempt, outcome: StepOutcome, *, published_nothing: bool = False
    ) -> None:
        ended = AttemptOutcome(outcome.status, "app-1", published_nothing=published_nothing)
        with self._log.begin() as conn:
            end_step(conn, attempt.job_id, "load", outcome)
            finish(conn, attempt, ended)
