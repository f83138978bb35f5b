"""A project and the registry: what its files change, and what is in force.

The last change wins: a file that has changed since it was applied makes a new version; one that has
not undoes neither a rollback nor an import. Settings that an operator has changed stay.
"""

import getpass
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from logdriven_dagster.config import Project
from logdriven_dagster.config.declaring import declared, derived, in_place_of
from logdriven_dagster.config.loading import Sources, build_project, read_sources
from logdriven_dagster.config.settings import with_settings
from logdriven_dagster.model.definitions import Change, Kind
from logdriven_dagster.runlog import RunLog, definitions
from logdriven_dagster.runlog.definition_rows import Author
from logdriven_dagster.runlog.definitions import Survey


@dataclass(frozen=True, slots=True)
class Registered:
    """A project as it is in force, its run log, and how its files differ from the registry."""

    project: Project
    run_log: RunLog
    changes: tuple[Change, ...]
    """What was written, or what applying the files would write."""
    kept: Mapping[Kind, frozenset[str]]
    """Definitions of which the registry's version is in force, not that of the file."""


def register(root: Path | str, reason: str = "apply") -> Registered:
    """Apply the files of a project folder to the registry; unchanged ones write nothing.

    InvalidProjectError and RunLogError; nothing is written then.
    """
    sources = read_sources(root)
    project = build_project(sources)
    run_log = RunLog.open(project.run_log_url)
    found = _survey(run_log, sources, project)
    author = Author(operator(), reason)
    in_force = _in_force(sources, project, found)
    changes = list(found.changes)

    def write(conn: Connection) -> list[Change]:
        applied = definitions.apply(conn, project.name, declared(sources, project), author)
        definitions.adopt(conn, project.name)
        if applied:
            applied += definitions.derive(conn, project.name, derived(in_force), author)
        return applied

    if changes:
        changes = run_log.write(write)
        found = _survey(run_log, sources, project)
        in_force = _in_force(sources, project, found)
    return Registered(in_force, run_log, tuple(changes), _names(found))


def consult(root: Path | str) -> Registered:
    """The same without writing: what would change, and the project as it would be in force."""
    sources = read_sources(root)
    project = build_project(sources)
    run_log = RunLog.open(project.run_log_url)
    found = _survey(run_log, sources, project)
    return Registered(_in_force(sources, project, found), run_log, found.changes, _names(found))


def operator() -> str:
    """Who changes definitions: LOGDRIVEN_OPERATOR, else the user of this process."""
    return os.environ.get("LOGDRIVEN_OPERATOR") or f"{getpass.getuser()}@{platform.node()}"


def with_settings_in_force(run_log: RunLog, project: Project) -> Project:
    """The project with what operators have set since: enabled, retries and so on."""
    if not project.versions:
        return project  # it is not registered

    def read(conn: Connection, kind: Kind) -> dict[str, Mapping[str, Any]]:
        return definitions.settings(conn, project.name, kind)

    tables = run_log.ask(lambda conn: read(conn, Kind.TABLE))
    jobs = run_log.ask(lambda conn: read(conn, Kind.JOB))
    return replace(
        project,
        tables={
            name: with_settings(table, tables[name]) if name in tables else table
            for name, table in project.tables.items()
        },
        jobs={
            name: with_settings(job, jobs[name]) if name in jobs else job
            for name, job in project.jobs.items()
        },
    )


def _survey(run_log: RunLog, sources: Sources, project: Project) -> Survey:
    items = list(declared(sources, project))
    return run_log.ask(lambda conn: definitions.survey(conn, project.name, items))


def _in_force(sources: Sources, project: Project, found: Survey) -> Project:
    replaced = sources
    for kind in (Kind.TABLE, Kind.JOB):
        contents = {name: json.loads(text) for name, text in found.kept[kind].items()}
        if contents:
            replaced = in_place_of(replaced, kind, contents)
    in_force = project if replaced is sources else build_project(replaced)
    return replace(in_force, versions=found.versions)


def _names(found: Survey) -> dict[Kind, frozenset[str]]:
    return {kind: frozenset(names) for kind, names in found.kept.items()}
