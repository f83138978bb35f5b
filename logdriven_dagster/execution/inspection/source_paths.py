"""Comparison of the paths of sources with the files that exist."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase

from logdriven_dagster.config.derived.clock_formats import (
    FORMATTED,
    RANGE,
    build_glob,
    cut_after_times,
    read_time,
)
from logdriven_dagster.config.locations import is_remote
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.files import FilesSource
from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import LogdrivenError
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.windows import TimeWindow


@dataclass(frozen=True, slots=True)
class PathNote:
    """A difference between the path of a source and the files that exist."""

    table: str
    step: str
    text: str


def find_path_notes(project: Project, *, connect: bool) -> Iterator[PathNote]:
    """Yield the sources without files, and those with files that no window reads.

    Only with `connect` are places listed that are not local. Files before the first window are
    ignored. Sources whose paths depend on rows are ignored, too.
    """
    for table in project.tables.values():
        for step in table.steps:
            source = step.source
            if not isinstance(source, FilesSource) or step.loop_over is not None:
                continue
            if is_remote(source.path) and not connect:
                continue
            try:
                text = _SourcePath(project, table, source.path).describe_problem()
            except (LogdrivenError, OSError, ValueError):
                continue  # the window's run reports it
            if text is not None:
                yield PathNote(table.table, step.step, text)


class _SourcePath:
    """The path of a source, up to its last folder that depends on the window."""

    def __init__(self, project: Project, table: TableConfig, path: str) -> None:
        self._project, self._table = project, table
        self._cut = None if table.is_sliced else cut_after_times(path)
        self._path = path

    def describe_problem(self) -> str | None:
        """Describe the files that are missing or not read; None if all are read."""
        from logdriven_dagster.engine.sources.files.arrivals import find_visible, has_files

        if self._cut is None:
            path = self._resolve(self._path)
            return None if has_files(self._project, path) else f"there are no files in {path}"
        pattern = self._resolve(build_glob(self._cut))
        found = find_visible(self._project, pattern)
        if not found:
            return f"there are no files in {pattern}"
        unread = [path for path in found if not self._is_read(path)]
        return self._describe_unread(unread, len(found), pattern) if unread else None

    def _describe_unread(self, unread: list[str], total: int, pattern: str) -> str:
        window = self._table.grid.window(0)
        fix = ""
        if any(found[1] != RANGE for found in FORMATTED.finditer(str(self._cut))):
            fix = f"; ${{{RANGE}:…}} reads the files of every time of a window"
        return (
            f"no window reads {len(unread):,} of the {total:,} files and folders in {pattern}, "
            f"such as {unread[0]}; the window {window} reads {self._list_read(window)[0]}{fix}"
        )

    def _resolve(self, path: str) -> str:
        from logdriven_dagster.engine.queries.rendering import render_path

        return render_path(path, self._run(self._table.example_window), self._project)

    def _run(self, window: TimeWindow) -> WindowRun:
        variables = self._project.variables(self._table)
        return WindowRun(0, self._table.table, window, 0, variables)

    def _is_read(self, path: str) -> bool:
        """Return True if a window reads the path, or if its time is not one of the table."""
        clock = read_time(str(self._cut), path)
        if clock is None:
            return False
        grid = self._table.grid
        instant = clock.replace(tzinfo=grid.zone)
        if grid.end is not None and instant > grid.end:
            return True
        number = grid.index(instant)
        near = {number, grid.index(instant - timedelta(microseconds=1)), 0}
        windows = [grid.window(n) for n in near if n >= 0]
        return number < 0 or any(
            fnmatchcase(path, pattern) for each in windows for pattern in self._list_read(each)
        )

    def _list_read(self, window: TimeWindow) -> list[str]:
        """Return the paths and patterns of a window."""
        from logdriven_dagster.engine.queries.rendering import render_paths

        return render_paths(str(self._cut), self._run(window), self._project)
