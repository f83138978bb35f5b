"""Registration of a project: the changes of its files are written to the registry, or only shown.

The last change is in force: a file that has changed since it was applied makes a new version. An
unchanged file undoes neither a rollback nor an import. Operators' changes of settings remain.
"""

import getpass
import logging
import os
import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

from sqlalchemy.engine import Connection

from logdriven_dagster.config.loading import build_project, read_sources
from logdriven_dagster.config.models.project import ProjectConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.project_files import ProjectFiles
from logdriven_dagster.errors import RunLogError
from logdriven_dagster.execution.definitions.homes import settle_project
from logdriven_dagster.execution.definitions.in_force import (
    Contents,
    DefinitionsInForce,
    Folder,
    in_force,
    private_folder,
)
from logdriven_dagster.execution.definitions.old_windows import find_old_windows
from logdriven_dagster.execution.definitions.renames import apply_renames
from logdriven_dagster.model.definitions import Kind, VersionChange
from logdriven_dagster.processes import garbage_kept
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.definitions import registry as definitions
from logdriven_dagster.runlog.definitions.registry import Survey
from logdriven_dagster.runlog.definitions.rows import Author, lock

Writing: TypeAlias = Callable[[RunLog, Callable[[Connection], Any]], Any]
"""The way to write: `RunLog.write`, or `rehearse`."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A project with the definitions in force, its run log, and the changes in its files."""

    project: Project
    run_log: RunLog
    changes: tuple[VersionChange, ...]
    """The written changes, or those that applying the files would write."""
    kept: Mapping[Kind, frozenset[str]]
    """Definitions whose version of the registry is in force, not that of the file."""


Work: TypeAlias = Callable[[Connection, DefinitionsInForce], list[VersionChange]]
"""A function that writes changes, given the definitions in force."""


def rehearse(run_log: RunLog, work: Callable[[Connection], Any]) -> Any:
    """Run a function in a transaction and roll it back; return the changes it would make."""

    def undone(conn: Connection) -> Any:
        savepoint = conn.begin_nested()
        try:
            return work(conn)
        finally:
            savepoint.rollback()

    return RunLog(run_log.engine).write(undone)  # which records no project


@garbage_kept()
def register(
    root: Path | str,
    reason: str = "apply",
    *,
    by: str | None = None,
    writing: Writing = RunLog.write,
) -> Registered:
    """Apply the files of a project folder to the registry; unchanged ones write nothing.

    `by` is the operator, as in `author`. Raises InvalidProjectError and RunLogError; nothing is
    written then.
    """
    return _register(Folder.to_run(root), reason, by, writing)


def _register(
    folder: Folder, reason: str, by: str | None = None, writing: Writing = RunLog.write
) -> Registered:
    _continue_under_new_names(folder, writing)
    found = folder.survey()
    if not found.waits and not found.strays:
        return _build_registered(folder, found, found.changes)
    changed_by = author(reason, by)

    def work(conn: Connection, standing: DefinitionsInForce) -> list[VersionChange]:
        changes = folder.apply(conn, changed_by)
        return changes + (standing.derive(conn, changed_by) if changes else [])

    return change(folder, work, writing=writing)


def _continue_under_new_names(folder: Folder, writing: Writing) -> None:
    """Apply renames of the project and its tables, before definitions are compared."""
    if writing is RunLog.write:
        settle_project(folder.project, folder.run_log)
        apply_renames(folder.project, folder.run_log)


def load_for_code_location(
    root: Path | str, changed: Callable[[ProjectConfig], ProjectConfig] | None = None
) -> Project:
    """Load the project as a code location shows it: read the run log, and write nothing.

    `open_runner` applies the files, as they were read here, before the first run or tick of the
    process. Until then, and if the run log is unreachable, its definitions are those of the files.
    `changed` returns the configuration with the code location's own settings. Raises
    InvalidProjectError if the files are not valid.
    """
    sources = read_sources(root)
    if changed is not None:
        sources = replace(sources, config=changed(sources.config))
    project = build_project(sources)
    unapplied, applied = [sources], list[Project]()
    applying = Lock()

    def registering(run_log: RunLog) -> Project:
        with applying:
            if not applied:
                folder = Folder.read(unapplied[0], project, run_log)
                applied.append(_register(folder, "code location").project)
                unapplied.clear()  # the process keeps this function, but not the parsed files
            return applied[0]

    return replace(_apply_registry(sources, project), registering=registering)


def _apply_registry(sources: ProjectFiles, project: Project) -> Project:
    try:
        run_log = RunLog.open_to_look(project.run_log_url)
        if run_log is None:
            return project
        private = replace(sources, recorded_in=private_folder())
        folder = Folder.read(private, project, run_log)
        return in_force(folder, folder.survey()).project
    except RunLogError as error:
        logging.getLogger(__name__).warning("definitions_not_read: %s", error)
        return project


def consult(root: Path | str) -> Registered:
    """Return the project with the pending changes of its files, as if applied; writes nothing."""
    folder = Folder.to_look_at(root)
    found = folder.survey()
    return _build_registered(folder, found, found.changes)


def change(
    folder: Folder, work: Work, replaced: Contents | None = None, writing: Writing = RunLog.write
) -> Registered:
    """Change the registry in one transaction, and return the definitions in force afterwards.

    `replaced` holds the contents that the work replaces. The resulting project is built before,
    outside of the transaction. If another process changes the registry meanwhile, it is built
    again. Changes by an SQL client are recorded first, as a version of their own.
    """
    name = folder.project.name
    _continue_under_new_names(folder, writing)
    while True:
        found = folder.survey()
        standing = in_force(folder, found, replaced)

        def write(
            conn: Connection, found: Survey = found, standing: DefinitionsInForce = standing
        ) -> tuple[list[VersionChange], dict[str, int], dict[str, int]] | None:
            lock(conn, name)
            if definitions.present(conn, name) != found.present:
                return None
            changes = definitions.adopt(conn, name) + work(conn, standing)
            present, effects = definitions.present(conn, name), definitions.read_effects(conn, name)
            return changes, present, effects

        if (written := writing(folder.run_log, write)) is not None:
            changes, versions, effects = written
            project = replace(standing.project, versions=versions, effect_versions=effects)
            project = _with_states(project, folder.run_log, changes)
            return Registered(project, folder.run_log, tuple(changes), _names(found))


def author(reason: str, operator: str | None = None) -> Author:
    """Return the author of changes: LOGDRIVEN_OPERATOR by default, else this process's user."""
    named = operator or os.environ.get("LOGDRIVEN_OPERATOR")
    return Author(named or f"{getpass.getuser()}@{platform.node()}", reason)


def _build_registered(
    folder: Folder, found: Survey, changes: tuple[VersionChange, ...]
) -> Registered:
    project = _with_states(in_force(folder, found).project, folder.run_log, changes)
    return Registered(project, folder.run_log, changes, _names(found))


def _with_states(project: Project, run_log: RunLog, changes: Sequence[VersionChange]) -> Project:
    """Return the project with the states that select tables, see `select_tables`."""
    changed = [change.name for change in changes if change.kind is Kind.TABLE]

    def find_stale() -> Collection[str]:
        return find_old_windows(run_log, project, project.tables).keys()

    return replace(project, states={"changed": lambda: changed, "stale": find_stale})


def _names(found: Survey) -> dict[Kind, frozenset[str]]:
    return {kind: frozenset(names) for kind, names in found.kept.items()}
