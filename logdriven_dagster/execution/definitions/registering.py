"""Registering a project: what its files change is written to the registry, or only shown.

The last change wins: a file that has changed since it was applied makes a new version; one that has
not undoes neither a rollback nor an import. Settings that an operator has changed stay.
"""

import getpass
import logging
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

from sqlalchemy.engine import Connection

from logdriven_dagster.config import Project
from logdriven_dagster.config.loading import build_project, read_sources
from logdriven_dagster.config.models.project import ProjectConfig
from logdriven_dagster.config.project_files import ProjectFiles
from logdriven_dagster.errors import RunLogError
from logdriven_dagster.execution.definitions.in_force import (
    Contents,
    DefinitionsInForce,
    Folder,
    in_force,
    private_folder,
)
from logdriven_dagster.model.definitions import Kind, VersionChange
from logdriven_dagster.processes import garbage_kept
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.definitions import registry as definitions
from logdriven_dagster.runlog.definitions.registry import Survey
from logdriven_dagster.runlog.definitions.rows import Author, lock

Writing: TypeAlias = Callable[[RunLog, Callable[[Connection], Any]], Any]
"""How to write: `RunLog.write`, or `rehearse`."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A project as it is in force, its run log, and how its files differ from the registry."""

    project: Project
    run_log: RunLog
    changes: tuple[VersionChange, ...]
    """What was written, or what applying the files would write."""
    kept: Mapping[Kind, frozenset[str]]
    """Definitions of which the registry's version is in force, not that of the file."""


Work: TypeAlias = Callable[[Connection, DefinitionsInForce], list[VersionChange]]
"""What to write, given what is in force then."""


def rehearse(run_log: RunLog, work: Callable[[Connection], Any]) -> Any:
    """Do some work in a transaction and undo it: what it would write."""

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

    `by` is who does it, as in `author`.
    InvalidProjectError and RunLogError; nothing is written then.
    """
    return _register(Folder.to_run(root), reason, by, writing)


def _register(
    folder: Folder, reason: str, by: str | None = None, writing: Writing = RunLog.write
) -> Registered:
    found = folder.survey()
    if not found.waits and not found.strays:
        return _registered(folder, found, found.changes)
    changed_by = author(reason, by)

    def work(conn: Connection, standing: DefinitionsInForce) -> list[VersionChange]:
        changes = folder.apply(conn, changed_by)
        return changes + (standing.derive(conn, changed_by) if changes else [])

    return change(folder, work, writing=writing)


def located(
    root: Path | str, changed: Callable[[ProjectConfig], ProjectConfig] | None = None
) -> Project:
    """Load the project as a code location shows it: read the run log, and write nothing.

    `open_runner` applies the files, as they were read here, before the first run or tick of the
    process. Until then, and where the run log is out of reach, its definitions are those of the
    files; `InvalidProjectError` if they are not valid. `changed` gives what this code
    location has of its own in the place of `logdriven.yaml`.
    """
    sources = read_sources(root)
    if changed is not None:
        sources = replace(sources, config=changed(sources.config))
    project = build_project(sources)
    applied: list[Project] = []
    applying = Lock()

    def registering(run_log: RunLog) -> Project:
        with applying:
            if not applied:
                folder = Folder.read(sources, project, run_log)
                applied.append(_register(folder, "code location").project)
            return applied[0]

    return replace(_looked_at(sources, project), registering=registering)


def _looked_at(sources: ProjectFiles, project: Project) -> Project:
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
    """Find out what would change, and the project as it would be in force; nothing is written."""
    folder = Folder.to_look_at(root)
    found = folder.survey()
    return _registered(folder, found, found.changes)


def change(
    folder: Folder, work: Work, replaced: Contents | None = None, writing: Writing = RunLog.write
) -> Registered:
    """Do some work on the registry in one transaction, and say what is in force afterwards.

    `replaced` is what the work puts in the place of what there is. The project as it will be is
    made before, outside of the transaction; if another process changes the registry meanwhile, it
    is made again. What an SQL client changed is a version of its own, before.
    """
    name = folder.project.name
    while True:
        found = folder.survey()
        standing = in_force(folder, found, replaced)

        def write(
            conn: Connection, found: Survey = found, standing: DefinitionsInForce = standing
        ) -> tuple[list[VersionChange], dict[str, int]] | None:
            lock(conn, name)
            if definitions.present(conn, name) != found.present:
                return None
            changes = definitions.adopt(conn, name) + work(conn, standing)
            return changes, definitions.present(conn, name)

        if (written := writing(folder.run_log, write)) is not None:
            changes, versions = written
            project = replace(standing.project, versions=versions)
            return Registered(project, folder.run_log, tuple(changes), _names(found))


def author(reason: str, operator: str | None = None) -> Author:
    """Who changes definitions: by default LOGDRIVEN_OPERATOR, else the user of this process."""
    named = operator or os.environ.get("LOGDRIVEN_OPERATOR")
    return Author(named or f"{getpass.getuser()}@{platform.node()}", reason)


def _registered(folder: Folder, found: Survey, changes: tuple[VersionChange, ...]) -> Registered:
    project = in_force(folder, found).project
    return Registered(project, folder.run_log, changes, _names(found))


def _names(found: Survey) -> dict[Kind, frozenset[str]]:
    return {kind: frozenset(names) for kind, names in found.kept.items()}
