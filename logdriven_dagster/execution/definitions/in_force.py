"""Definitions in force: a project's files, and the registry's versions that override them."""

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy.engine import Connection

from logdriven_dagster.config.derived.declaring import (
    declare_all,
    derive_definitions,
    replace_definitions,
)
from logdriven_dagster.config.loading import build_project, read_sources
from logdriven_dagster.config.models.jobs import apply_enabled_steps
from logdriven_dagster.config.models.settings import apply_settings
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.project_files import ProjectFiles
from logdriven_dagster.errors import ConfigError, InvalidProjectError
from logdriven_dagster.execution.definitions.homes import enter
from logdriven_dagster.model.definitions import Declared, Derived, Kind, VersionChange, build_code
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.definitions import registry as definitions
from logdriven_dagster.runlog.definitions.registry import Survey
from logdriven_dagster.runlog.definitions.rows import Author

Contents: TypeAlias = Mapping[Kind, Mapping[str, Mapping[str, Any]]]
"""Contents of tables and jobs by name that replace those in force."""


@dataclass(frozen=True)
class Folder:
    """A project folder with the definitions of its files, and its run log."""

    sources: ProjectFiles
    project: Project
    """The project that the files declare."""
    run_log: RunLog
    items: tuple[Declared, ...] = field(repr=False)

    @classmethod
    def to_look_at(cls, root: Path | str) -> "Folder":
        """Read a project folder and open its run log. Raises InvalidProjectError and RunLogError.

        Files of the registry's versions are written to a private folder of this process.
        """
        return cls._from_sources(replace(read_sources(root), recorded_in=private_folder()))

    @classmethod
    def to_run(cls, root: Path | str) -> "Folder":
        """Read a project folder, with files of the registry's versions where runs find them."""
        return cls._from_sources(read_sources(root))

    @classmethod
    def _from_sources(cls, sources: ProjectFiles) -> "Folder":
        project = build_project(sources)
        return cls.read(sources, project, RunLog.open(project.run_log_url))

    @classmethod
    def read(cls, sources: ProjectFiles, project: Project, run_log: RunLog) -> "Folder":
        """Build the folder from read files.

        Raises RunLogError if another project has the tables.
        """
        enter(project, run_log)
        return cls(sources, project, run_log, tuple(declare_all(sources, project)))

    def apply(self, conn: Connection, author: Author) -> list[VersionChange]:
        """Write the changes of files to the registry."""
        return definitions.apply(conn, self.project.name, self.items, author)

    @cached_property
    def file_digests(self) -> Mapping[tuple[Kind, str], str]:
        """Kind and name → the digest of the file's content, for definitions in files only."""
        return {(item.kind, item.name): item.digest for item in self.items}

    def survey(self) -> Survey:
        """Compare the files with the registry."""
        return self.run_log.ask(
            lambda conn: definitions.survey(conn, self.project.name, self.items)
        )


@dataclass(frozen=True)
class DefinitionsInForce:
    """The definitions in force: files, and the registry's contents in place of some of them."""

    sources: ProjectFiles
    project: Project

    def derive(self, conn: Connection, author: Author) -> list[VersionChange]:
        """Write the definitions derived from the tables and jobs."""
        return definitions.derive(conn, self.project.name, self.follows, author)

    @cached_property
    def follows(self) -> Derived:
        """Relations and uses derived from the tables and jobs."""
        return derive_definitions(self.project)


def in_force(folder: Folder, found: Survey, replaced: Contents | None = None) -> DefinitionsInForce:
    """Return the project with the registry's contents in place of the files that they override.

    Raises InvalidProjectError if these do not fit together, with the version, the code and the fix.
    """
    sources, name = folder.sources, folder.project.name
    replacements = []
    for kind in (Kind.TABLE, Kind.JOB):
        contents = {kept: json.loads(text) for kept, text in found.kept[kind].items()}
        labels = {}
        for kept in contents:
            code = build_code(name, kind, kept)
            labels[kept] = f"version {found.versions[code]} in the registry, {code}"
        for other, content in (replaced or {}).get(kind, {}).items():
            contents[other], labels[other] = content, "as it would be"
        replacements.append((kind, contents, labels))
    if not any(contents for _, contents, _ in replacements):
        known = replace(folder.project, versions=found.versions, effect_versions=found.effects)
        return DefinitionsInForce(sources, known)
    try:
        for kind, contents, labels in replacements:
            sources = replace_definitions(sources, kind, contents, labels) if contents else sources
        built = build_project(sources)
    except InvalidProjectError as invalid:
        raise InvalidProjectError([_with_fix(error) for error in invalid.errors]) from None
    elsewhere = _other_versions(folder, found)
    return DefinitionsInForce(
        sources,
        replace(
            built,
            versions=found.versions,
            effect_versions=found.effects,
            other_versions=elsewhere,
        ),
    )


def _other_versions(folder: Folder, found: Survey) -> dict[str, str]:
    """Return table → the version in force, where it differs from the file."""
    project = folder.project.name
    versions = {
        name: found.versions[build_code(project, Kind.TABLE, name)]
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
    fix = f"replace it with `logdriven rollback {error.path.stem} VERSION` or by changing its file"
    hint = f"{error.hint}; {fix}" if error.hint else fix
    place = (error.path, error.line, error.field)
    return ConfigError(*place, error.bare_problem, hint, item=error.item)


def with_settings_in_force(run_log: RunLog, project: Project) -> Project:
    """Return the project with the settings of operators: enabled, retries and so on."""
    if not project.versions:
        return project  # it is not registered

    def read(conn: Connection) -> dict[Kind, dict[str, Mapping[str, Any]]]:
        kinds = (Kind.TABLE, Kind.JOB, Kind.STEP)
        return {kind: definitions.read_settings(conn, project.name, kind) for kind in kinds}

    settings = run_log.ask(read)
    tables, jobs, steps = settings[Kind.TABLE], settings[Kind.JOB], settings[Kind.STEP]
    return replace(
        project,
        tables={
            name: apply_settings(table, tables[name]) if name in tables else table
            for name, table in project.tables.items()
        },
        jobs={
            name: apply_enabled_steps(
                apply_settings(job, jobs[name]) if name in jobs else job, steps
            )
            for name, job in project.jobs.items()
        },
    )


@cache
def private_folder() -> Path:
    """Return a folder that only this user can read, and that is removed when this process ends."""
    folder, owner = Path(tempfile.mkdtemp(prefix="logdriven-definitions-")), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not when a forked child ends
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
