"""Sandbox: a project in a temporary folder, for tests."""

import shutil
import textwrap
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.loading import load_project
from logdriven_dagster.config.models.fields import read_instant
from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.events import WindowEvent
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.history import logs
from logdriven_dagster.runlog.history.windows import build_window
from logdriven_dagster.testing.null_engine import NullEngine, null_runner

if TYPE_CHECKING:
    from logdriven_dagster.engine import SparkSession

_MOST_ATTEMPTS = 1000


def memory_run_log() -> RunLog:
    """Return an empty run log in the memory of this process. Its transactions are serialized."""
    return RunLog.open("sqlite://")


class Sandbox:
    """A project in a folder of its own, with a run log in memory.

    Each call reads the files again, so that a test can change them between two runs.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        copy_of: Path | str | None = None,
        run_log: RunLog | None = None,
        spark: "Callable[[], SparkSession] | None" = None,
        engine: NullEngine | None = None,
    ) -> None:
        """Copy a project folder, or write an empty project.

        Args:
            folder: the folder of the project; it is created if it does not exist.
            copy_of: a project folder to copy.
            run_log: the log to use instead of one in memory. The project's own is never opened.
            spark: the session to use; by default the project's is started, or reused.
            engine: runs the windows without Spark, instead of `spark`.
        """
        self.folder = Path(folder)
        self.run_log = run_log or memory_run_log()
        self._spark, self._null = spark, engine
        if copy_of is not None:
            hidden = shutil.ignore_patterns(".logdriven", "warehouse")
            shutil.copytree(copy_of, self.folder, ignore=hidden, dirs_exist_ok=True)
        elif not (self.folder / "logdriven.yaml").exists():
            self.write("logdriven.yaml", "project: sandbox")

    def write(self, path: str, text: str | Mapping[str, Any]) -> None:
        """Write a file below the folder: a text, its indentation removed, or values as YAML."""
        if not isinstance(text, str):
            import yaml

            text = yaml.safe_dump(dict(text), sort_keys=False, allow_unicode=True)
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text).strip() + "\n", encoding="utf-8")

    @property
    def project(self) -> Project:
        """The project in its current files. Raises InvalidProjectError if they have mistakes."""
        return load_project(self.folder)

    @property
    def runner(self) -> Runner:
        """A runner of the project in its current files."""
        if self._null is not None:
            return null_runner(self.project, self.run_log, self._null)
        return open_runner(self.project, spark=self._spark, run_log=self.run_log)

    @property
    def engine(self) -> NullEngine:
        """The null engine of the sandbox. Raises UsageError if it runs on Spark."""
        if self._null is None:
            raise UsageError("this sandbox runs on Spark; give it `engine=NullEngine()`")
        return self._null

    def run(self, *tables: str, now: datetime | str, **options: Any) -> list[WindowEvent]:
        """Catch up to a data time; `options` are those of `Runner.catch_up`.

        Runs all tables if none are named. A text is a time on the project's clock, such as
        `2022-01-05` or `2022-01-05 14:00`. A failed window is returned as an event, without an
        exception.
        """
        return list(self.runner.catch_up(self._read_instant(now), tables or None, **options))

    def refresh(
        self, table: str, start: datetime | str, end: datetime | str, *, now: datetime | str
    ) -> list[WindowEvent]:
        """Rerun the windows of the range from `start` to `end`, and return their events.

        Raises RefusedError for a window that may not run yet.
        """
        span = TimeWindow(self._read_instant(start), self._read_instant(end))
        return list(self.runner.refresh(table, span, self._read_instant(now)))

    def log(self, table: str | None = None) -> list[dict[str, Any]]:
        """Return the attempts with their steps, oldest first, with the log's column names."""
        with self.runner.run_log.read() as conn:
            return logs.list_attempts(conn, table, limit=_MOST_ATTEMPTS)[::-1]

    def statuses(self, table: str) -> dict[str, str]:
        """Return the status of the latest attempt at each window, oldest window first."""
        config = self.project.table(table)
        latest = {build_window(config, row): row["status"] for row in self.log(table)}
        return {str(window): latest[window] for window in sorted(latest, key=lambda w: w.start)}

    def rows(
        self, table: str, start: datetime | str | None = None, end: datetime | str | None = None
    ) -> list[dict[str, Any]]:
        """Return the published rows of a table in no fixed order.

        With `start` and `end`, only the rows of the windows in this range.
        """
        window = None
        if start is not None and end is not None:
            window = TimeWindow(self._read_instant(start), self._read_instant(end))
        found = self.runner.engine.read(table, window).collect()
        return [row.asDict(recursive=True) for row in found]

    def _read_instant(self, instant: datetime | str) -> datetime:
        return read_instant(instant, self.project.zone)
