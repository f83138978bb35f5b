"""Files of a window whose path names it, such as `in/${DATA_RANGE:yyyy/MM/dd}`.

The range of the window takes the place of the times of their rows, so nothing is read. Folders are
recorded as well: a file that arrives later changes the time of its folder.
"""

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from logdriven_dagster.config.derived.clock_formats import cut_after_times
from logdriven_dagster.config.locations import as_path, is_remote, resolve_location
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.files import FilesSource
from logdriven_dagster.config.models.types.time_columns import TimeColumn
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.sources.known_sources import (
    PATTERN,
    is_hidden,
    list_local_versions,
    read_version,
)
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.source_rows import ABSENT, FileRows, FileVersion
from logdriven_dagster.model.windows import TimeWindow


def is_named_by_window(table: TableConfig, step: StepConfig) -> bool:
    """Return True if the path of a step's source contains a time of the window."""
    source = step.source
    return (
        isinstance(source, FilesSource)
        and cut_after_times(source.path) is not None
        and not isinstance(source.window_column, TimeColumn)
        and not (table.is_sliced or table.incremental.is_snapshot)
    )


def list_window_files(
    project: Project, table: TableConfig, step: StepConfig, run: WindowRun
) -> tuple[FileRows, ...]:
    """Return the local files and folders of a window whose path names it; empty for other sources.

    With a `window_column`, only folders are returned, since the rows of the files are counted.
    """
    from logdriven_dagster.engine.queries.rendering import render_paths

    source, window = step.source, run.window
    if not is_named_by_window(table, step) or not isinstance(window, TimeWindow):
        return ()
    assert isinstance(source, FilesSource)
    paths = render_paths(source.path, run, project)
    try:
        versions = list(chain.from_iterable(map(_list_versions, paths)))
    except OSError:
        return ()  # the read of the window reports it
    if source.window_column is not None:
        versions = [each for each in versions if each.size == ABSENT or Path(each.path).is_dir()]
    start, end = (int(bound.timestamp()) * 1_000_000 for bound in (window.start, window.end))
    return tuple(FileRows("", version, 0, 0, 0, 0, start, end - 1) for version in versions)


def find_source_folder(project: Project, table: TableConfig, step_id: str) -> str | None:
    """Return the folder that holds all files of a step's source, if its path shows it."""
    source = next((step.source for step in table.steps if step.step == step_id), None)
    return (
        project.find_source_folder(table, source.path) if isinstance(source, FilesSource) else None
    )


def is_within(path: str, folder: str) -> bool:
    """Return True for a folder and all paths below it, also if a link leads there."""
    return any(
        each == place or each.startswith(f"{place.rstrip('/')}/")
        for each, place in ((path, folder), (os.path.realpath(path), os.path.realpath(folder)))
    )


def list_new_files(folder: FileVersion, known: Iterable[str]) -> Iterator[str]:
    """Yield the visible files of a recorded folder, or of a place without files, that are new."""
    paths = set(known) - {folder.path}  # a place without files may be one now
    for each in list_local_versions(folder.path) or ():
        if each.path not in paths and not is_hidden(Path(each.path).name):
            yield each.path


def _list_versions(path: str) -> Iterator[FileVersion]:
    """Yield the versions of the visible files and folders of a path or pattern."""
    place = as_path(resolve_location(path))
    if is_remote(path):
        return
    found = list_local_versions(path) or frozenset()
    files = [each for each in found if not is_hidden(Path(each.path).name)]
    yield from files
    if PATTERN & set(place):
        return
    if not files:
        yield FileVersion(place, ABSENT, 0, 0)
    elif Path(place).is_dir():
        folders = {place, *(str(Path(each.path).parent) for each in files)}
        yield from map(read_version, sorted(folders))
