"""Source files that changed after their windows ran (`on_source_change`).

The run log holds a version of each file that windows have read. Comparing them with the present
files needs neither Spark nor a listing. New files are found by the next window of the table, which
counts their rows.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from logdriven_dagster.config.locations import is_remote
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.files import FilesSource
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.sources.known_sources import read_version
from logdriven_dagster.execution.source_files.window_files import (
    find_source_folder,
    is_named_by_window,
    is_within,
    list_new_files,
)
from logdriven_dagster.model.logs import ChangedWindow, TableLog
from logdriven_dagster.model.source_rows import (
    ABSENT,
    ChangedFile,
    FileChange,
    FileRows,
    FileVersion,
)
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.observed import source_changes, source_files
from logdriven_dagster.runlog.observed.source_files import Step

_NAMED = 3


@dataclass(frozen=True, slots=True)
class OutdatedWindows:
    """The finished windows of a table whose source files changed after they ran."""

    table: str
    windows: Sequence[ChangedWindow]
    reruns: bool
    """True if windows with other rows run again by themselves."""

    @classmethod
    def build(cls, table: TableConfig, log: TableLog) -> "OutdatedWindows":
        """Return the outdated windows of a table with its log; possibly none."""
        return cls(table.table, log.changed, table.on_source_change == "rerun")

    @property
    def description(self) -> str:
        """The windows and the files: `2 windows in [2026-10-08, …) ran: in/a.csv (changed)`."""
        first, last = self.windows[0].window, self.windows[-1].window
        number, span = len(self.windows), first.up_to_end_of(last)
        which = f"{number:,} windows in {span} ran" if number > 1 else f"{first} ran"
        files = list(dict.fromkeys(str(each) for of in self.windows for each in of.files))
        more = f" and {len(files) - _NAMED} more" if len(files) > _NAMED else ""
        return f"{which}: {', '.join(files[:_NAMED])}{more}"

    def left_by_runs(self) -> "OutdatedWindows":
        """Return those of the windows that do not run again by themselves."""
        left = [each for each in self.windows if not (self.reruns and each.has_new_rows)]
        return replace(self, windows=left)

    @property
    def text(self) -> str:
        """One sentence for display that begins with the table."""
        left = self.left_by_runs().windows
        fix = "; `logdriven refresh` runs these windows again" if left else ""
        changes = {of.change for each in left for of in each.files}
        without = ", without the rows of files that are gone" if FileChange.GONE in changes else ""
        return f"{self.table}: source files changed after {self.description}{fix}{without}"

    def as_json(self) -> list[dict[str, Any]]:
        """Return `source_changes` of a table in JSON."""
        return [
            {
                "data_range_start": each.window.bounds[0],
                "data_range_end": each.window.bounds[1],
                "files": [
                    {
                        "step": of.step_id,
                        "change": of.change.value,
                        "path": of.path,
                        "files": of.files,
                    }
                    for of in each.files
                ],
            }
            for each in self.windows
        ]


class _Detected(NamedTuple):
    """A file that differs from its recorded version."""

    file: ChangedFile
    present: FileVersion | None
    """The present version of the file, or of the folder that it is new in; None if it is gone."""


def list_outdated_windows(
    logs: Iterable[tuple[TableConfig, TableLog]],
) -> dict[str, OutdatedWindows]:
    """Return the tables, of these, with windows whose source files changed after they ran."""
    return {table.table: OutdatedWindows.build(table, log) for table, log in logs if log.changed}


def detect(
    run_log: RunLog, project: Project, names: Collection[str], logs: Mapping[str, TableLog]
) -> dict[str, TableLog]:
    """Return the logs of those tables of which files have changed now, with their windows.

    Nothing is recorded. A file that cannot be reached for another reason than that it does not
    exist counts as unchanged.
    """
    tables = {table.table: table for table in list_observed_tables(project, names)}
    changed = (
        run_log.ask(partial(_find_changed_files, project=project, tables=tables)) if tables else {}
    )
    found: dict[str, list[ChangedWindow]] = {}

    def find(conn: Connection) -> None:
        for (name, step_id), items in changed.items():
            files = [item.file for item in items]
            windows = source_changes.find_changed_windows(conn, tables[name], step_id, files)
            found.setdefault(name, []).extend(windows)

    if changed:
        run_log.ask(find)
    return {
        name: replace(logs[name], changed=_merge(logs[name].changed, windows))
        for name, windows in found.items()
        if windows
    }


def record(run_log: RunLog, project: Project, names: Collection[str]) -> None:
    """Record which files of tables have other content than the windows have read.

    Files that do not exist any more are recorded by the next window, in case they come back.
    """
    tables = {table.table: table for table in list_observed_tables(project, names)}
    changed = (
        run_log.ask(partial(_find_changed_files, project=project, tables=tables)) if tables else {}
    )

    def write(conn: Connection) -> None:
        for (name, step_id), items in changed.items():
            present = dict.fromkeys(item.present for item in items if item.present is not None)
            first = {
                version
                for version in present
                if source_files.mark_uncounted(conn, name, step_id, version)
            }
            mine = [item.file for item in items if item.present in first]
            source_changes.record_changes(conn, tables[name], step_id, mine)

    if any(item.present is not None for items in changed.values() for item in items):
        run_log.write(write)


def close_settled(run_log: RunLog, logs: Iterable[TableLog]) -> None:
    """Record which changes concern no window any more; usually there is none."""
    done = [each for log in logs for each in log.settled]
    if done:
        run_log.write(lambda conn: source_changes.close_changes(conn, done))


def list_observed_tables(project: Project, names: Iterable[str]) -> list[TableConfig]:
    """Return the tables, of these, whose source files may be in the index."""
    tables = (project.tables[name] for name in names)
    return [
        table
        for table in tables
        if table.on_source_change != "ignore"
        and any(
            (isinstance(step.source, FilesSource) and step.source.window_column)
            or is_named_by_window(table, step)
            for step in table.steps
        )
    ]


def _find_changed_files(
    conn: Connection, project: Project, tables: Mapping[str, TableConfig]
) -> Mapping[Step, Sequence[_Detected]]:
    """Return the changes of the recorded files of each step.

    A file that is gone is left out if the source names another folder by now: the project was
    moved, or the path has changed.
    """
    found = {}
    for step, versions in source_files.read_versions(conn, tables).items():
        name, step_id = step
        folder = find_source_folder(project, tables[name], step_id)
        present = {
            path: version
            for path, version in _compare(versions)
            if version is not None or folder is None or is_within(path, folder)
        }
        if present:
            paths = {version.path for version in versions}
            rows = source_files.read_rows_of(conn, *step, present)
            pairs = ((each, present[each.version.path]) for each in rows)
            found[step] = [file for pair in pairs for file in _detect_files(*pair, paths)]
    return found


def _compare(versions: Iterable[FileVersion]) -> Iterator[tuple[str, FileVersion | None]]:
    """Yield the files and folders that differ from the recorded versions, with the present ones.

    That is None for one that does not exist.
    """
    for version in versions:
        if is_remote(version.path):  # the next window lists them
            continue
        try:
            present = read_version(version.path)
        except (FileNotFoundError, NotADirectoryError):
            if version.size != ABSENT:
                yield version.path, None
        except OSError:
            continue
        else:
            if not present.has_same_content(version):
                yield version.path, present


def _detect_files(
    rows: FileRows, present: FileVersion | None, known: Collection[str]
) -> Iterator["_Detected"]:
    """Yield a changed file, or the new files of a changed folder; `known` are the recorded ones."""
    recorded = rows.version
    if present is None:
        if not any(path.startswith(f"{recorded.path}/") for path in known):
            yield _Detected(ChangedFile(FileChange.GONE, rows), None)
    elif recorded.size == ABSENT or Path(recorded.path).is_dir():
        for path in list_new_files(recorded, known):
            version = recorded._replace(path=path)
            yield _Detected(ChangedFile(FileChange.NEW, replace(rows, version=version)), present)
    else:
        yield _Detected(ChangedFile(FileChange.CHANGED, rows), present)


def _merge(
    recorded: Iterable[ChangedWindow], detected: Iterable[ChangedWindow]
) -> tuple[ChangedWindow, ...]:
    """Return each window once, by ascending start, with all changes of its files."""
    found: dict[Any, ChangedWindow] = {}
    for each in (*recorded, *detected):
        known = found.get(each.window)
        files = (*known.files, *each.files) if known else each.files
        found[each.window] = ChangedWindow(each.window, tuple(dict.fromkeys(files)))
    return tuple(found[window] for window in sorted(found, key=lambda window: window.start))
