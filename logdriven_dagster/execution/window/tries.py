"""Retries within one pass: a transient error is retried after a pause, up to `retries` times."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.engine.spark.actions import run_checks
from logdriven_dagster.errors import SparkDiedError, TransientStepError
from logdriven_dagster.execution.pauses import pause
from logdriven_dagster.execution.window.journal import Journal

T = TypeVar("T")


@dataclass
class Tries:
    """The retries of one pass. Several windows of a pass are not retried together."""

    table: TableConfig
    journal: Journal
    check: Callable[[], None]
    """A function that raises if waiting is useless."""
    failed: int = 0
    changes: int = 0
    """The number of changes to another Spark session or engine, which cost no retry."""

    def until_done(self, work: Callable[[], T]) -> T:
        """Run a function, and retry it after a transient error and a pause."""
        while True:
            try:
                return work()
            except Exception as error:
                self.failed += 1
                if not self._may_try_again(error):
                    raise
                self.journal.note_errors(self.failed)
                pause(self.table.retry_interval.total_seconds(), self._checks)

    def begin_anew(self) -> None:
        """Exclude the last failure from the retries, before another engine continues."""
        self.changes += 1
        self.journal.note_errors(self.failed)

    def _may_try_again(self, error: Exception) -> bool:
        if len(self.journal.attempts) > 1 or isinstance(error, SparkDiedError):
            return False
        left = self.table.retries - (self.failed - self.changes)
        return isinstance(error, TransientStepError) and left >= 0

    def _checks(self) -> None:
        self.check()
        run_checks()
