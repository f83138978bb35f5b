"""Operations on definitions: set, list versions, roll back, find uses."""

import difflib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from sqlalchemy.engine import Connection

from logdriven_dagster.config.derived.contents import declare_content, rename_content
from logdriven_dagster.config.derived.uses import USED_KINDS
from logdriven_dagster.config.loading import read_sources
from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import InvalidProjectError, UsageError
from logdriven_dagster.execution.definitions.in_force import DefinitionsInForce, Folder
from logdriven_dagster.execution.definitions.registering import (
    author,
    change,
    register,
)
from logdriven_dagster.execution.definitions.setting_values import parse_setting
from logdriven_dagster.model.definitions import (
    Difference,
    Kind,
    Operation,
    Version,
    VersionChange,
    build_code,
    list_content_differences,
)
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.definitions import history as definition_history
from logdriven_dagster.runlog.definitions import registry as definitions
from logdriven_dagster.runlog.definitions.changes import Wanted, put, set_columns
from logdriven_dagster.runlog.definitions.history import Finding
from logdriven_dagster.runlog.definitions.rows import OPERATIONAL, Author, lock, read_contents

T = TypeVar("T")

Side: TypeAlias = int | Literal["file"]
"""One side of a diff: a version, or the current content of the file."""


@dataclass(frozen=True, slots=True)
class ProjectRegistry:
    """The registry of a project, independent of its other files."""

    project: str
    run_log: RunLog

    @classmethod
    def open(cls, root: Path | str) -> "ProjectRegistry":
        """Open the registry of a folder.

        Raises InvalidProjectError without a valid `logdriven.yaml`.
        """
        sources = read_sources(root)
        project = Project(sources.root, sources.config, {}, {}, {})
        return cls(project.name, RunLog.open(project.run_log_url))

    def ask(self, query: Callable[..., T], *arguments: Any) -> T:
        """Return the result of a store query that takes a connection and the project first."""
        return self.run_log.ask(lambda conn: query(conn, self.project, *arguments))

    def kind(self, name: str) -> Kind:
        """Return the kind of a present or former definition.

        Raises UsageError for an unknown name.
        """
        kind = self.ask(definition_history.find_kind, name)
        if kind is None:
            near = difflib.get_close_matches(name, self.ask(definition_history.list_names), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "; `logdriven apply` registers files"
            raise UsageError(f"{name!r} is not registered{hint}")
        return kind

    def versions(self, name: str) -> list[Version]:
        """Return every version of a definition, oldest first."""
        kind = self.kind(name)
        code = build_code(self.project, kind, name)
        return self.run_log.ask(lambda conn: definition_history.list_versions(conn, kind, [code]))


Settings: TypeAlias = Mapping[str, Mapping[str, str | None]]
"""Name of a definition → setting → text of the value; None resets it to its definition."""


def set_settings(root: Path | str, wanted: Settings, by: Author) -> list[VersionChange]:
    """Change settings of tables, jobs and steps; unchanged ones make no version.

    Files are applied only if a name is not registered yet. Raises UsageError for unknown names and
    settings, and for invalid values; nothing is written then.
    """
    registry = ProjectRegistry.open(root)
    if any(registry.ask(definition_history.find_kind, name) is None for name in wanted):
        register(root)
    kinds = {name: registry.kind(name) for name in wanted}
    parsed = {
        name: dict(_parse_settings(kinds[name], name, given)) for name, given in wanted.items()
    }

    def write(conn: Connection) -> list[VersionChange]:
        lock(conn, registry.project)
        changes = definitions.adopt(conn, registry.project)
        for kind in OPERATIONAL:
            values = {
                name: _complete_values(conn, registry.project, kind, name, parsed[name])
                for name in wanted
                if kinds[name] is kind
            }
            changes += set_columns(conn, registry.project, kind, values, by)
        return changes

    return registry.run_log.write(write)


_RESET = object()


def _parse_settings(
    kind: Kind, name: str, given: Mapping[str, str | None]
) -> Iterator[tuple[str, Any]]:
    allowed = OPERATIONAL.get(kind, frozenset())
    if not allowed:
        raise UsageError(f"{name} is a {kind.value.lower()}, which has no settings")
    for setting, text in given.items():
        if setting not in allowed:
            near = difflib.get_close_matches(setting, allowed, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(sorted(allowed))}"
            raise UsageError(f"{name} has no setting {setting!r}; {hint}")
        try:
            yield setting, _RESET if text is None else parse_setting(setting, text)
        except ValueError as error:
            raise UsageError(f"{setting}: {error}") from None


def _complete_values(
    conn: Connection, project: str, kind: Kind, name: str, values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values, with those of the definition where they are reset."""
    if _RESET not in values.values():
        return dict(values)
    code = build_code(project, kind, name)
    content = read_contents(conn, kind, [code]).get(code)
    declared = json.loads(content)["settings"] if content else {}
    return {n: declared.get(n) if value is _RESET else value for n, value in values.items()}


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The changes of a rollback, and the file that contradicts it."""

    changes: tuple[VersionChange, ...]
    version: int
    """The version that is in force now."""
    file: Path | None
    """The file that still differs; None if it is the same, or there is none."""


def rollback(root: Path | str, name: str, version: int, operator: str | None = None) -> RolledBack:
    """Make an older version of a table or job the latest again, with its settings.

    Changed files are applied before, so that the rollback is the last change. Raises UsageError if
    there is no such version, or it does not fit the project any more; nothing is written then.
    """
    folder = Folder.to_look_at(root)
    registry = ProjectRegistry(folder.project.name, folder.run_log)
    old = _old_version(registry, name, version)
    applying, rolling = author("apply", operator), author(f"rollback to {version}", operator)
    settings = {n: value for n, value in old.columns.items() if n in OPERATIONAL[old.kind]}
    columns = {n: value for n, value in old.columns.items() if n not in settings}
    content = rename_content(old.kind, json.loads(old.content))
    if old.kind is Kind.TABLE:
        content["values"]["table"] = name  # the table may have had another name
    item = declare_content(old.kind, name, content, columns)
    digest = folder.file_digests.get((old.kind, name))

    def work(conn: Connection, standing: DefinitionsInForce) -> list[VersionChange]:
        changes = folder.apply(conn, applying)
        wanted = [Wanted(item, settings, digest)]
        changes += put(conn, registry.project, old.kind, wanted, rolling)
        return changes + (standing.derive(conn, rolling) if changes else [])

    try:
        registered = change(folder, work, {old.kind: {name: content}})
    except InvalidProjectError as error:
        problem = f"version {version} of {name} is not valid in the project any more"
        raise UsageError(f"{problem}; nothing was changed:\n{error}") from None
    files = folder.project.files if old.kind is Kind.TABLE else folder.project.job_files
    file = files.get(name) if digest != item.digest else None
    return RolledBack(registered.changes, registered.project.versions[old.code], file)


def _old_version(registry: ProjectRegistry, name: str, version: int) -> Version:
    kind = registry.kind(name)
    if kind not in (Kind.TABLE, Kind.JOB):
        hint = "roll back the table or job from which it is derived"
        if kind is Kind.PROJECT:
            hint = "logdriven.yaml has no versions to set; change the file"
        raise UsageError(f"{name} is a {kind.value.lower()}; {hint}")
    known = {found.version: found for found in registry.versions(name)}
    if version not in known:
        raise UsageError(f"{name} has no version {version}; it has {min(known)} to {max(known)}")
    if known[version].operation is Operation.DELETE:
        raise UsageError(f"version {version} of {name} is a deletion; give an earlier version")
    return known[version]


def diff(root: Path | str, name: str, first: Side | None, second: Side | None) -> "Compared":
    """Compare two versions of a definition: the last two by default, else with the latest one.

    Raises UsageError for an unknown version.
    """
    versions = {version.version: version for version in ProjectRegistry.open(root).versions(name)}
    numbers = sorted(versions)
    if first is None:
        first, second = numbers[max(len(numbers) - 2, 0)], numbers[-1]
    elif second is None:
        second = numbers[-1]

    def content(side: Side) -> Mapping[str, Any]:
        if side == "file":
            return _file_content(root, name)
        if side not in versions:
            raise UsageError(f"{name} has no version {side}; it has {numbers[0]} to {numbers[-1]}")
        return rename_content(versions[side].kind, versions[side].in_force)

    return Compared(first, second, list_content_differences(content(first), content(second)))


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of two versions of a definition, field by field."""

    first: Side
    second: Side
    differences: Sequence[Difference]


def _file_content(root: Path | str, name: str) -> dict[str, Any]:
    folder = Folder.to_look_at(root)
    for item in (
        *folder.items,
        *DefinitionsInForce(folder.sources, folder.project).follows.definitions,
    ):
        if item.name == name:
            return dict(json.loads(item.content))
    raise UsageError(f"{name} is not declared in any file")


def find(root: Path | str, wanted: Mapping[str, str], text: str | None = None) -> list[Finding]:
    """Find definitions by name or by use, as far as files are applied.

    `wanted` maps kinds of use (connection, source, …) to names; a definition has to use all of
    them.
    """
    registry = ProjectRegistry.open(root)
    found: list[list[Finding]] = [
        registry.ask(definition_history.find_users, [kind], used) for kind, used in wanted.items()
    ]
    if text is not None:
        named = registry.ask(definition_history.find_by_name, text)
        found.append(named + registry.ask(definition_history.find_users, USED_KINDS, text))
    return _common(found)


def _common(found: Sequence[Collection[Finding]]) -> list[Finding]:
    names = [{(item.kind, item.name) for item in part} for part in found]
    common = set.intersection(*names) if names else set()
    return [item for part in found for item in part if (item.kind, item.name) in common]
