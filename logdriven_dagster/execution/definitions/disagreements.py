"""Disagreements: differences of files and registry, with the one that is in force."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from logdriven_dagster.config.models.jobs import MaintenanceJob
from logdriven_dagster.config.models.settings import build_setting_columns
from logdriven_dagster.config.project import Project
from logdriven_dagster.execution.definitions.registering import Registered
from logdriven_dagster.model.definitions import Kind, Version, VersionChange, build_code
from logdriven_dagster.runlog.definitions import history as definition_history
from logdriven_dagster.runlog.definitions import registry as definitions
from logdriven_dagster.runlog.definitions.rows import OPERATIONAL


@dataclass(frozen=True, slots=True)
class Override:
    """A setting that differs from its definition; values as columns of the registry."""

    kind: Kind
    name: str
    field: str
    declared: Any
    in_force: Any
    operator: str | None
    """The user who set it; None if an SQL client did and no version records it yet."""
    time: str | None


@dataclass(frozen=True, slots=True)
class Disagreements:
    """The disagreements of files and registry that `status` shows below the tables."""

    unapplied: tuple[VersionChange, ...]
    """Versions that applying the files would make."""
    kept: Mapping[str, int]
    """Name → version, where the registry's version is in force: rolled back or imported."""
    overrides: tuple[Override, ...]
    disabled: tuple[str, ...]
    """Tables, jobs and steps."""
    offline: tuple[str, ...]

    @classmethod
    def find(cls, registered: Registered) -> "Disagreements":
        """Find the differences of files and registry of a project; reads only."""
        project = registered.project
        in_force = {kind: _settings(registered, kind) for kind in OPERATIONAL}
        kept = {
            name: project.versions[build_code(project.name, kind, name)]
            for kind in (Kind.TABLE, Kind.JOB)
            for name in sorted(registered.kept[kind])
        }
        everything = [
            (name, columns) for rows in in_force.values() for name, columns in rows.items()
        ]
        return cls(
            registered.changes,
            kept,
            tuple(_overrides(registered, in_force)),
            _where(everything, "enabled", 0),
            _where(everything, "release_state", "offline"),
        )


def _where(rows: list[tuple[str, Mapping[str, Any]]], field: str, value: Any) -> tuple[str, ...]:
    return tuple(sorted(name for name, columns in rows if columns.get(field) == value))


def _settings(registered: Registered, kind: Kind) -> dict[str, Mapping[str, Any]]:
    """Return name → the settings that will be in force once the files are applied."""
    project = registered.project.name
    rows = registered.run_log.ask(lambda conn: definitions.read_settings(conn, project, kind))
    for change in registered.changes:
        if change.kind is kind:
            rows.pop(change.name, None)
            if change.after is not None:
                rows[change.name] = json.loads(change.after)["settings"]
    return rows


def _overrides(
    registered: Registered, in_force: Mapping[Kind, Mapping[str, Mapping[str, Any]]]
) -> Iterator[Override]:
    declared = _build_declared_settings(registered.project)
    for kind, rows in in_force.items():
        differing = {
            name: [field for field, value in declared[kind][name].items() if row[field] != value]
            for name, row in rows.items()
            if name in declared[kind]
        }
        differing = {name: fields for name, fields in differing.items() if fields}
        project = registered.project.name
        codes = [build_code(project, kind, name) for name in differing]
        logged: dict[str, list[Version]] = {}
        for version in registered.run_log.ask(
            lambda conn, kind=kind, codes=codes: definition_history.list_versions(conn, kind, codes)  # type: ignore[misc]
        ):
            logged.setdefault(version.name, []).append(version)
        for name in sorted(differing):
            for field in sorted(differing[name]):
                value = rows[name][field]
                setter = _setter(logged.get(name, []), field, value)
                who = (setter.operator, setter.time) if setter else (None, None)
                yield Override(kind, name, field, declared[kind][name][field], value, *who)


def _setter(versions: list[Version], field: str, value: Any) -> Version | None:
    """Return the version since which a setting has had its value without a break."""
    setter = None
    for version in reversed(versions):
        if version.columns[field] != value:
            break
        setter = version
    return setter


def _build_declared_settings(project: Project) -> dict[Kind, dict[str, dict[str, Any]]]:
    """Return the settings of the definitions in force, without operators' changes."""
    return {
        Kind.TABLE: {name: build_setting_columns(table) for name, table in project.tables.items()},
        Kind.JOB: {name: build_setting_columns(job) for name, job in project.jobs.items()},
        Kind.STEP: {
            f"{name}.{step.step}": {"enabled": int(step.enabled)}
            for name, job in project.jobs.items()
            if isinstance(job, MaintenanceJob)
            for step in job.steps
        },
    }
