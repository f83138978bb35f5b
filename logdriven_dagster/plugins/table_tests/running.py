"""Running tests of tables, each in a project of its own with its own run log and warehouse."""

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.frozen import Option
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.targets import HistoryTarget, Target
from logdriven_dagster.config.project import Project, suggest_nearest
from logdriven_dagster.config.yaml.documents import Location
from logdriven_dagster.errors import ConfigError, RefusedError, StepError, UnmetNeedError
from logdriven_dagster.execution.events import (
    NeedUnmet,
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
    with_deliveries,
    with_existing_rows,
)
from logdriven_dagster.plugins.table_tests.windows import (
    choose_deliveries,
    choose_keys,
    choose_windows,
    list_locations,
)
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.attempts import coverage
from logdriven_dagster.testing.null_engine import NullEngine, null_runner

if TYPE_CHECKING:
    from logdriven_dagster.engine import SparkSession

_FOREVER = datetime(2200, 1, 1, tzinfo=timezone.utc)
"""A time after every window of a test."""
_ENDED = (WindowSucceeded, WindowFailed, WindowLost)


@contextmanager
def open_tests(
    project: Project, tables: Collection[str], spark: "SparkSession | None" = None
) -> Iterator["TableTests"]:
    """Start Spark for tests of some tables, in a temporary folder that is removed at the end.

    `spark` is the session to use; by default that of this process, with the project's settings.
    """
    from logdriven_dagster.engine import spark_session

    with TemporaryDirectory(prefix="logdriven-test-") as temporary:
        folder = Path(temporary).resolve()
        session = spark or spark_session(
            replace(project, root=folder, config=build_config(project, folder))
        )
        reader = RowReader(project, session, frozenset(tables))
        yield TableTests(project, folder, session, reader)


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
    """The window of time that ran last."""
    keys: tuple[int, int | None] | None = None
    """The key after which the first window begins, and its last key."""
    parts: int = 0

    def run_part(self, part: WindowsPart, place: Location) -> Iterator[Failure]:
        """Run the windows of a part, and yield the expectations that are not met."""
        sliced = self.table.is_sliced
        windows = [] if sliced else self._choose_windows(part, place)
        self.given |= name_inputs(self.test, self.tests.project, part.given, place)
        self._refuse_unknown_variables(part, place)
        self.variables |= part.variables
        rows_folder = self.folder / f"given{self.parts}"
        files, empty = self.tests.reader.write_inputs(self.test, self.given, rows_folder)
        if sliced and self.parts == 0 and not self.table.batch_dependencies:
            self.keys = choose_keys(self.test, self.table, part, place)
        project = build_test_project(
            *(self.tests.project, self.table, self.folder, files, self.variables), keys=self.keys
        )
        runner = self._open_runner(project)
        if self.parts == 0:
            self._cover_upstreams(project)
            if self.test.spec.existing is not None:
                self._write_existing(project, self.test.spec.existing, windows)
        self.parts += 1
        runs = self._run_slice if sliced else self._run_windows
        yield from self._judge(runner, runs(runner, windows, part, place), part, place, empty)

    def _choose_windows(self, part: WindowsPart, place: Location) -> list[TimeWindow]:
        found = choose_windows(self.test, self.table, part, place, self.last)
        self.last = found[-1]
        return found

    def _judge(
        self,
        runner: Runner,
        ended: Iterator[WindowEvent],
        part: WindowsPart,
        place: Location,
        empty: Sequence[str],
    ) -> Iterator[Failure]:
        """Yield the failed windows that a part does not expect, or else its unmet expectations."""
        events = list(ended)
        must_fail = part.expect is not None and part.expect.fails is not None
        for event in events[:-1] if must_fail else events:
            if isinstance(event, WindowFailed):
                problem = f"{self.table.table} {event.attempt.window} failed: {event.error}"
                yield Failure(problem, self._find_line((*place, "window")))
                return
        if part.expect is not None:
            location = (*place, "expect")
            expected = Expected(self.test, location, part.expect, self.tests.reader, empty)
            yield from expected.find_failures(runner, events[-1] if events else None)

    def _run_windows(
        self, runner: Runner, windows: Sequence[TimeWindow], part: WindowsPart, place: Location
    ) -> Iterator[WindowEvent]:
        """Run windows of time in order. Raises ConfigError for one that the table never has."""
        location = (*place, "windows" if part.windows else "window")
        for window in windows:
            try:
                events = list(runner.refresh_windows(self.table.table, [window], _FOREVER))
            except RefusedError as refused:
                raise self.test.build_error(location, str(refused)) from None
            yield next(event for event in events if isinstance(event, _ENDED))

    def _run_slice(
        self, runner: Runner, _: Sequence[TimeWindow], part: WindowsPart, place: Location
    ) -> Iterator[WindowEvent]:
        """Run the next window of a table of keys, messages, files or deliveries."""
        for dependency in self.table.batch_dependencies:
            upstream = runner.project.table(dependency.table)
            windows = choose_deliveries(self.test, part, place, upstream)
            project = with_deliveries(runner.project, upstream)
            delivering = null_runner(project, self.run_log, NullEngine())
            delivering.listeners = Listeners()
            list(delivering.refresh_windows(upstream.table, windows, _FOREVER))
        grid = self.table.grid
        now = grid.get_bound(grid.index(_FOREVER) + self.parts)  # due after the earlier part
        for event in runner.catch_up(now, [self.table.table], max_windows=1):
            if isinstance(event, NeedUnmet):
                raise event.reason
            if isinstance(event, _ENDED):
                yield event

    def _open_runner(self, project: Project, run_log: RunLog | None = None) -> Runner:
        log = run_log or self.run_log
        runner = open_runner(project, spark=lambda: self.tests.spark, run_log=log)
        runner.listeners = Listeners()  # those of the project report to other systems
        return runner

    def _cover_upstreams(self, project: Project) -> None:
        """Record all windows of the upstream tables as finished."""
        delivering = {each.table for each in self.table.batch_dependencies}
        read = {each.table for each in self.table.managed_dependencies}

        def cover(conn: Connection) -> None:
            for name in sorted(read - delivering):
                grid = project.table(name).grid
                whole = TimeWindow(grid.origin, _FOREVER, zone=grid.zone)
                coverage.cover(conn, name, Status.SUCCESS, whole)

        self.run_log.write(cover)

    def _write_existing(self, project: Project, rows: Rows, first: Sequence[TimeWindow]) -> None:
        """Write the rows that the table has before the first window, by their windows."""
        from logdriven_dagster.plugins.table_tests.given.rows import create_frame, split_by_window

        name, reader = self.table.table, self.tests.reader
        declared = reader.known.get(name)
        found = reader.read(self.test, rows, ("existing",), declared)
        grid = self.table.grid
        before = grid.window((grid.index(first[0].start) if first else 0) - 1)
        try:
            column = _find_window_column(project.table(name).output)
            groups = split_by_window(found, column, grid, before)
        except ValueError as error:
            raise self.test.build_error(("existing",), str(error)) from None
        start = min(window.start for window in groups).astimezone(grid.zone)
        written = with_existing_rows(project, project.table(name), start)
        # Windows of time in the log of a table without them would be its next windows.
        run_log = RunLog.open("sqlite://") if self.table.is_sliced else self.run_log
        runner = self._open_runner(written, run_log)
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


def _find_window_column(target: Target) -> str | None:
    """Return the column whose value assigns an existing row to a window; None if there is none."""
    if isinstance(target, HistoryTarget) and target.write_mode.keeps_history:
        return target.valid_from
    return target.window_column if target.write_mode.keeps_windows_apart else None
