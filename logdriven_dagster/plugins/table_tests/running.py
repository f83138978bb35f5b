"""Running tests of tables, each in a project of its own with its own run log and warehouse."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.frozen import Option
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project, suggest_nearest
from logdriven_dagster.config.yaml.documents import Location
from logdriven_dagster.errors import ConfigError, RefusedError, StepError, UnmetNeedError
from logdriven_dagster.execution.events import (
    WindowEvent,
    WindowFailed,
    WindowLost,
    WindowSucceeded,
)
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.execution.window.listeners import Listeners
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.plugins.table_tests.expectations import Expected
from logdriven_dagster.plugins.table_tests.files import LoadedTest
from logdriven_dagster.plugins.table_tests.inputs import RowReader, name_inputs
from logdriven_dagster.plugins.table_tests.models import Rows, WindowsPart
from logdriven_dagster.plugins.table_tests.results import Failure, Outcome, Problem
from logdriven_dagster.plugins.table_tests.stand_ins import (
    build_config,
    build_test_project,
    with_existing_rows,
)
from logdriven_dagster.plugins.table_tests.windows import choose_windows, list_locations
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.attempts import coverage

if TYPE_CHECKING:
    from logdriven_dagster.engine import SparkSession

_FOREVER = datetime(2200, 1, 1, tzinfo=timezone.utc)
"""A time after every window of a test."""


@contextmanager
def open_tests(
    project: Project, tests: Sequence[LoadedTest], spark: "SparkSession | None" = None
) -> Iterator["TableTests"]:
    """Start Spark for tests of a project, in a temporary folder that is removed at the end.

    `spark` is the session to use; by default that of this process, with the project's settings.
    """
    from logdriven_dagster.engine import spark_session

    with TemporaryDirectory(prefix="logdriven-test-") as temporary:
        folder = Path(temporary).resolve()
        session = spark or spark_session(
            replace(project, root=folder, config=build_config(project, folder))
        )
        tables = frozenset(test.spec.table for test in tests)
        yield TableTests(project, folder, session, RowReader(project, session, tables))


@dataclass(slots=True)
class TableTests:
    """Tests of a project that run in one Spark session."""

    project: Project
    folder: Path
    """The temporary folder of all tests."""
    spark: "SparkSession"
    reader: RowReader
    _number: int = field(default=0, init=False)

    def run(self, test: LoadedTest) -> Outcome:
        """Run a test and compare the result with its expectations."""
        began = time.monotonic()
        try:
            problems: tuple[Problem, ...] = tuple(self._find_problems(test))
        except ConfigError as error:
            problems = (error,)
        except (StepError, UnmetNeedError) as error:
            problems = (Failure(str(error), test.line),)
        return Outcome(test, time.monotonic() - began, problems)

    def _find_problems(self, test: LoadedTest) -> Iterator[Failure]:
        self._number += 1
        folder, run_log = self.folder / str(self._number), RunLog.open("sqlite://")
        scene = _Scene(self, test, self.project.table(test.spec.table), folder, run_log)
        for part, place in zip(test.spec.parts, list_locations(test.spec.parts), strict=True):
            failures = list(scene.run_part(part, place))
            yield from failures
            if failures:
                return


@dataclass(slots=True)
class _Scene:
    """A test that is running: its run log, its warehouse, and the rows that are given so far."""

    tests: TableTests
    test: LoadedTest
    table: TableConfig
    folder: Path
    run_log: RunLog
    given: dict[str, tuple[Rows, Location]] = field(default_factory=dict)
    variables: dict[str, Option] = field(default_factory=dict)
    last: TimeWindow | None = None
    """The window that ran last."""
    parts: int = 0

    def run_part(self, part: WindowsPart, place: Location) -> Iterator[Failure]:
        """Run the windows of a part, and yield the expectations that are not met."""
        windows = choose_windows(self.test, self.table, part, place, self.last)
        self.given |= name_inputs(self.test, self.tests.project, part.given, place)
        self._refuse_unknown_variables(part, place)
        self.variables |= part.variables
        rows_folder = self.folder / f"given{self.parts}"
        files, empty = self.tests.reader.write_inputs(self.test, self.given, rows_folder)
        project = build_test_project(
            self.tests.project, self.table, self.folder, files, self.variables
        )
        runner = self._open_runner(project)
        if self.parts == 0:
            self._cover_upstreams(project)
            if self.test.spec.existing is not None:
                self._write_existing(project, self.test.spec.existing, windows[0])
        self.parts += 1
        event = None
        for number, window in enumerate(windows, 1):
            event = self._run_window(runner, window, place)
            is_expected = number == len(windows) and part.expect and part.expect.fails
            if isinstance(event, WindowFailed) and not is_expected:
                problem = f"{self.table.table} {window} failed: {event.error}"
                yield Failure(problem, self._find_line((*place, "window")))
                return
            self.last = window
        if part.expect is not None:
            expected = Expected(
                self.test, (*place, "expect"), part.expect, self.tests.reader, empty
            )
            yield from expected.find_failures(runner, event)

    def _run_window(self, runner: Runner, window: TimeWindow, place: Location) -> WindowEvent:
        """Run a window. Raises ConfigError if the table never has it."""
        name = self.table.table
        try:
            events = list(runner.refresh_windows(name, [window], max(window.end, _FOREVER)))
        except RefusedError as refused:
            raise self.test.build_error((*place, "window"), str(refused)) from None
        ended = (WindowSucceeded, WindowFailed, WindowLost)
        return next(event for event in events if isinstance(event, ended))

    def _open_runner(self, project: Project, run_log: RunLog | None = None) -> Runner:
        spark, log = self.tests.spark, run_log or self.run_log
        runner = open_runner(project, spark=lambda: spark, run_log=log)
        runner.listeners = Listeners()  # those of the project report to other systems
        return runner

    def _cover_upstreams(self, project: Project) -> None:
        """Record all windows of the upstream tables as finished."""
        upstreams = [each.table for each in self.table.managed_dependencies]

        def cover(conn: Connection) -> None:
            for name in upstreams:
                grid = project.table(name).grid
                whole = TimeWindow(grid.origin, _FOREVER, zone=grid.zone)
                coverage.cover(conn, name, Status.SUCCESS, whole)

        self.run_log.write(cover)

    def _write_existing(self, project: Project, rows: Rows, first: TimeWindow) -> None:
        """Write the rows that the table has before the first window, by their windows."""
        from logdriven_dagster.plugins.table_tests.given.rows import create_frame, split_by_window

        name, reader = self.table.table, self.tests.reader
        declared = reader.known.get(name)
        found = reader.read(self.test, rows, ("existing",), declared)
        grid = self.table.grid
        before = grid.window(grid.index(first.start) - 1)
        output = project.table(name).output
        column = output.window_column if output.write_mode.keeps_windows_apart else None
        try:
            groups = split_by_window(found, column, grid, before)
        except ValueError as error:
            raise self.test.build_error(("existing",), str(error)) from None
        start = min(window.start for window in groups).astimezone(grid.zone)
        written = with_existing_rows(project, project.table(name), start)
        runner = self._open_runner(written)
        for window, part in sorted(groups.items(), key=lambda item: item[0].start):
            frame = create_frame(self.tests.spark, part)
            for event in runner.write_frame(written.table(name), window, frame, _FOREVER):
                if isinstance(event, WindowFailed):
                    raise self.test.build_error(("existing",), event.error)

    def _refuse_unknown_variables(self, part: WindowsPart, place: Location) -> None:
        known = {**self.tests.project.config.variables, **self.table.variables}
        for name in part.variables:
            if name not in known:
                near = suggest_nearest(name, known)
                problem = f"not a variable of {self.table.table} or the project{near}"
                raise self.test.build_error((*place, "variables", name), problem)

    def _find_line(self, location: Location) -> int:
        return self.test.build_error(location, "").line or 1
