"""A project and the registry: what its files change, and what is in force.

The last change wins: a file that has changed since it was applied makes a new version; one that has
not undoes neither a rollback nor an import. Settings that an operator has changed stay.
"""

import atexit
import getpass
import json
import logging
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

from sqlalchemy.engine import Connection

from logdriven_dagster.config import Project
from logdriven_dagster.config.derived.declaring import declared, derived, in_place_of
from logdriven_dagster.config.loading import build_project, read_sources
from logdriven_dagster.config.models.jobs import with_enabled_steps
from logdriven_dagster.config.models.settings import with_settings
from logdriven_dagster.config.project_files import ProjectFiles
from logdriven_dagster.errors import ConfigError, InvalidProjectError, RunLogError
from logdriven_dagster.model.definitions import Declared, Derived, Kind, VersionChange, code_of
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.definitions import registry as definitions
from logdriven_dagster.runlog.definitions.registry import Survey
from logdriven_dagster.runlog.definitions.rows import Author, lock

Contents: TypeAlias = Mapping[Kind, Mapping[str, Mapping[str, Any]]]
"""Contents of tables and jobs by name, to be in force instead of what there is."""
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


@dataclass(frozen=True)
class Folder:
    """What the files of a project say, and its run log."""

    sources: ProjectFiles
    project: Project
    """The project that the files declare."""
    run_log: RunLog
    items: tuple[Declared, ...] = field(repr=False)

    @classmethod
    def to_look_at(cls, root: Path | str) -> "Folder":
        """Read a project folder and open its run log; InvalidProjectError and RunLogError.

        Files of the registry's versions are written to a folder of this process alone.
        """
        return cls._of(replace(read_sources(root), recorded_in=_private_folder()))

    @classmethod
    def to_run(cls, root: Path | str) -> "Folder":
        """The folder with the files of the registry's versions where runs find them."""
        return cls._of(read_sources(root))

    @classmethod
    def _of(cls, sources: ProjectFiles) -> "Folder":
        project = build_project(sources)
        return cls.read(sources, project, RunLog.open(project.run_log_url))

    @classmethod
    def read(cls, sources: ProjectFiles, project: Project, run_log: RunLog) -> "Folder":
        """The folder whose files have been read."""
        return cls(sources, project, run_log, tuple(declared(sources, project)))

    def apply(self, conn: Connection, author: Author) -> list[VersionChange]:
        """Write what changed in files."""
        return definitions.apply(conn, self.project.name, self.items, author)

    @cached_property
    def file_digests(self) -> Mapping[tuple[Kind, str], str]:
        """Kind and name → the digest of what the file says; nothing for what no file declares."""
        return {(item.kind, item.name): item.digest for item in self.items}

    def survey(self) -> Survey:
        """How the files compare with the registry."""
        return self.run_log.ask(
            lambda conn: definitions.survey(conn, self.project.name, self.items)
        )


@dataclass(frozen=True)
class Standing:
    """What is in force: files, and contents of the registry in the place of some of them."""

    sources: ProjectFiles
    project: Project

    def derive(self, conn: Connection, author: Author) -> list[VersionChange]:
        """Write what follows from the tables and jobs."""
        return definitions.derive(conn, self.project.name, self.follows, author)

    @cached_property
    def follows(self) -> Derived:
        """What follows from the tables and jobs."""
        return derived(self.project)


Work: TypeAlias = Callable[[Connection, Standing], list[VersionChange]]
"""What to write, given what is in force then."""


def rehearse(run_log: RunLog, work: Callable[[Connection], Any]) -> Any:
    """Do some work in a transaction and undo it: what it would write."""

    def undone(conn: Connection) -> Any:
        savepoint = conn.begin_nested()
        try:
            return work(conn)
        finally:
            savepoint.rollback()

    return run_log.write(undone)


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

    def work(conn: Connection, standing: Standing) -> list[VersionChange]:
        changes = folder.apply(conn, changed_by)
        return changes + (standing.derive(conn, changed_by) if changes else [])

    return change(folder, work, writing=writing)


def located(root: Path | str) -> Project:
    """The project as a code location shows it: reading the run log, and writing nothing.

    `open_runner` applies the files, as they were read here, before the first run or tick of the
    process. Until then, and where the run log is out of reach, its definitions are those of the
    files; `InvalidProjectError` if they are not valid.
    """
    sources = read_sources(root)
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
        private = replace(sources, recorded_in=_private_folder())
        folder = Folder.read(private, project, run_log)
        return in_force(folder, folder.survey()).project
    except RunLogError as error:
        logging.getLogger(__name__).warning("definitions_not_read: %s", error)
        return project


def consult(root: Path | str) -> Registered:
    """What would change, and the project as it would be in force; nothing is written."""
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
            conn: Connection, found: Survey = found, standing: Standing = standing
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


def in_force(folder: Folder, found: Survey, replaced: Contents | None = None) -> Standing:
    """The project with what the registry holds instead of the files, where it wins.

    InvalidProjectError where that does not fit together; it names version, code and the fix.
    """
    sources, name = folder.sources, folder.project.name
    replacements = []
    for kind in (Kind.TABLE, Kind.JOB):
        contents = {kept: json.loads(text) for kept, text in found.kept[kind].items()}
        labels = {}
        for kept in contents:
            code = code_of(name, kind, kept)
            labels[kept] = f"version {found.versions[code]} in the registry, {code}"
        for other, content in (replaced or {}).get(kind, {}).items():
            contents[other], labels[other] = content, "as it would be"
        replacements.append((kind, contents, labels))
    if not any(contents for _, contents, _ in replacements):
        return Standing(sources, replace(folder.project, versions=found.versions))
    try:
        for kind, contents, labels in replacements:
            sources = in_place_of(sources, kind, contents, labels) if contents else sources
        built = build_project(sources)
    except InvalidProjectError as invalid:
        raise InvalidProjectError([_with_fix(error) for error in invalid.errors]) from None
    elsewhere = _other_versions(folder, found)
    return Standing(sources, replace(built, versions=found.versions, other_versions=elsewhere))


def _other_versions(folder: Folder, found: Survey) -> dict[str, str]:
    """Table → which version is in force, where its file says otherwise."""
    project = folder.project.name
    versions = {
        name: found.versions[code_of(project, Kind.TABLE, name)]
        for name in found.kept[Kind.TABLE]
        if name in folder.project.tables
    }
    return {
        name: f"version {version} of the registry, not that of its file"
        for name, version in versions.items()
    }


def _with_fix(error: ConfigError) -> ConfigError:
    if error.item is None or "in the registry" not in error.item:
        return error
    fix = f"`logdriven rollback {error.path.stem} VERSION` or a change of its file replaces it"
    hint = f"{error.hint}; {fix}" if error.hint else fix
    place = (error.path, error.line, error.field)
    return ConfigError(*place, error.bare_problem, hint, item=error.item)


@cache
def _private_folder() -> Path:
    """A folder that only this user can read, and that is gone when this process ends."""
    folder, owner = Path(tempfile.mkdtemp(prefix="logdriven-definitions-")), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not when a child ends that was forked
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder


def author(reason: str, operator: str | None = None) -> Author:
    """Who changes definitions: by default LOGDRIVEN_OPERATOR, else the user of this process."""
    named = operator or os.environ.get("LOGDRIVEN_OPERATOR")
    return Author(named or f"{getpass.getuser()}@{platform.node()}", reason)


def with_settings_in_force(run_log: RunLog, project: Project) -> Project:
    """The project with what operators have set since: enabled, retries and so on."""
    if not project.versions:
        return project  # it is not registered

    def read(conn: Connection) -> dict[Kind, dict[str, Mapping[str, Any]]]:
        kinds = (Kind.TABLE, Kind.JOB, Kind.STEP)
        return {kind: definitions.settings(conn, project.name, kind) for kind in kinds}

    settings = run_log.ask(read)
    tables, jobs, steps = settings[Kind.TABLE], settings[Kind.JOB], settings[Kind.STEP]
    return replace(
        project,
        tables={
            name: with_settings(table, tables[name]) if name in tables else table
            for name, table in project.tables.items()
        },
        jobs={
            name: with_enabled_steps(with_settings(job, jobs[name]) if name in jobs else job, steps)
            for name, job in project.jobs.items()
        },
    )


def _registered(folder: Folder, found: Survey, changes: tuple[VersionChange, ...]) -> Registered:
    project = in_force(folder, found).project
    return Registered(project, folder.run_log, changes, _names(found))


def _names(found: Survey) -> dict[Kind, frozenset[str]]:
    return {kind: frozenset(names) for kind, names in found.kept.items()}
