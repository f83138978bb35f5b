"""Export and import: all definitions of a project as one text, also for another database."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy.engine import Connection

from logdriven_dagster.config.checking.plain_secrets import (
    find_definition_secrets,
    find_plain_secrets,
)
from logdriven_dagster.config.derived.contents import declare_content, rename_content
from logdriven_dagster.config.derived.declaring import declare_all
from logdriven_dagster.config.derived.exchange import (
    FORMAT,
    SECTIONS,
    Content,
    Export,
    ExportedDefinition,
    ExportedHistory,
)
from logdriven_dagster.config.models.code_files import explain_misplaced_content
from logdriven_dagster.config.models.project import ProjectConfig
from logdriven_dagster.config.project import PROJECT_FILE
from logdriven_dagster.config.yaml.documents import Document
from logdriven_dagster.config.yaml.renamed_fields import rename_to_current
from logdriven_dagster.errors import InvalidProjectError, UsageError
from logdriven_dagster.execution.definitions.changes import ProjectRegistry
from logdriven_dagster.execution.definitions.in_force import DefinitionsInForce, Folder
from logdriven_dagster.execution.definitions.registering import (
    Registered,
    Writing,
    change,
)
from logdriven_dagster.execution.definitions.setting_values import validate_column
from logdriven_dagster.model.definitions import (
    Declared,
    Kind,
    Version,
    VersionChange,
    build_code,
    serialize_canonical,
)
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.definitions import history as definition_history
from logdriven_dagster.runlog.definitions import registry as definitions
from logdriven_dagster.runlog.definitions.changes import Wanted, put
from logdriven_dagster.runlog.definitions.rows import DEFINITIONS, OPERATIONAL, Author, lock

_DERIVED = (Kind.RELATION, Kind.STEP)


def export(root: Path | str, *, history: bool = False) -> dict[str, Any]:
    """Export every definition of the registry, optionally with its history; without secrets."""
    registry = ProjectRegistry.open(root)

    def read(conn: Connection) -> dict[str, Any]:
        lock(conn, registry.project)  # nothing changes between the parts
        definitions.adopt(conn, registry.project)
        exported: dict[str, Any] = {
            "logdriven_export": FORMAT,
            "project": registry.project,
            "definitions": {
                section: [
                    _export(version)
                    for version in definition_history.list_latest_versions(
                        conn, registry.project, kind
                    )
                ]
                for section, kind in SECTIONS.items()
            },
        }
        if history:
            exported["history"] = {
                section: list(_histories(conn, registry.project, kind))
                for section, kind in SECTIONS.items()
            }
        return exported

    return registry.run_log.write(read)


def _export(version: Version) -> dict[str, Any]:
    content = _content(version)
    settings = {
        name: version.columns[name]
        for name, value in sorted(content.get("settings", {}).items())
        if version.columns[name] != value
    }
    fields: dict[str, Any] = {
        "name": version.name,
        "code": version.code,
        "version": version.version,
    }
    if version.file_digest is not None and version.kind not in _DERIVED:
        fields["file_digest"] = version.file_digest
    return fields | ({"settings": settings} if settings else {}) | {"content": content}


def _histories(conn: Connection, project: str, kind: Kind) -> Iterator[dict[str, Any]]:
    by_code: dict[str, list[Version]] = {}
    codes = definition_history.list_logged_codes(conn, project, kind)
    for version in definition_history.list_versions(conn, kind, codes):
        by_code.setdefault(version.code, []).append(version)
    for code, versions in by_code.items():
        entries = [
            {
                "version": version.version,
                "operation": version.operation.value,
                "operator": version.operator,
                "time": version.time,
                "reason": version.reason,
                "file_digest": version.file_digest,
                "columns": dict(sorted(version.columns.items())),
                "content": _content(version),
            }
            for version in versions
        ]
        yield {"name": versions[-1].name, "code": code, "versions": entries}


def _content(version: Version) -> dict[str, Any]:
    """Order the parts of a content for readers."""
    parsed: dict[str, Any] = json.loads(version.content)
    return {part: parsed[part] for part in ("values", "settings", "files") if part in parsed}


@dataclass(frozen=True, slots=True)
class _DefinitionImport:
    """An export to import into a project, which is valid by itself."""

    folder: Folder
    export: Export

    def contents(self, kind: Kind) -> dict[str, dict[str, Any]]:
        """Return the contents of all definitions of a kind, by name."""
        return {item.name: item.content.as_dict for item in self.list_definitions(kind)}

    def list_definitions(self, kind: Kind) -> tuple[ExportedDefinition, ...]:
        """Return the definitions of one kind to import."""
        section = next(section for section, k in SECTIONS.items() if k is kind)
        return self.export.definitions.get(section, ())

    def write(
        self, conn: Connection, standing: DefinitionsInForce, author: Author
    ) -> list[VersionChange]:
        """Write the imported rows, then the rest from files, then the derived definitions."""
        name = self.folder.project.name
        changes = []
        for kind, histories in _history(self.export).items():
            changes += definition_history.restore(conn, name, kind, histories)
        for kind in (Kind.PROJECT, Kind.TABLE, Kind.JOB):
            changes += put(conn, name, kind, list(self._list_wanted(conn, kind, standing)), author)
        changes += self.folder.apply(conn, Author(author.operator, "apply"))
        for kind in _DERIVED:
            changes += put(conn, name, kind, list(self._following(kind, standing)), author)
        return changes + standing.derive(conn, author)

    def _list_wanted(
        self, conn: Connection, kind: Kind, standing: DefinitionsInForce
    ) -> Iterator[Wanted]:
        name = self.folder.project.name
        if kind is Kind.PROJECT:
            # logdriven.yaml always takes precedence; a new log continues with its version number.
            known = definition_history.find_kind(conn, name, name) is Kind.PROJECT
            for item in () if known else self.list_definitions(kind):
                current = rename_content(kind, item.content.as_dict)
                content = declare_content(kind, name, current)
                yield Wanted(content, {}, content.digest, item.version)
            return
        given = {item.name: item for item in self.list_definitions(kind)}
        for made in declare_all(standing.sources, standing.project):
            if made.kind is kind and made.name in given:
                item = given[made.name]
                digest = self.folder.file_digests.get((kind, made.name))
                yield Wanted(made, _settings(made, item), digest, item.version)

    def _following(self, kind: Kind, standing: DefinitionsInForce) -> Iterator[Wanted]:
        given = {item.name: item for item in self.list_definitions(kind)}
        for made in standing.follows.definitions:
            if made.kind is kind and made.name in given:
                item = given[made.name]
                yield Wanted(made, _settings(made, item), made.digest, item.version)


def import_export(
    root: Path | str, export: Export, by: Author, writing: Writing = RunLog.write
) -> Registered:
    """Import the definitions of an export into the registry of a project.

    New definitions get the exported version, changed ones a new version, unchanged ones none. The
    import is later than the project's files, which take precedence again when they change. Files
    that were not applied yet and are not imported are applied. The resulting project is validated
    as a whole. Raises InvalidProjectError, or UsageError for an invalid export; nothing is written
    then.
    """
    folder = Folder.to_look_at(root)
    _check(folder, export)
    wanted = _DefinitionImport(folder, export)
    return change(
        folder,
        lambda conn, standing: wanted.write(conn, standing, by),
        {kind: wanted.contents(kind) for kind in (Kind.TABLE, Kind.JOB)},
        writing,
    )


def _settings(made: Declared, item: ExportedDefinition) -> dict[str, Any]:
    """Return the settings in force: those of the definition, and operators' changes."""
    names = OPERATIONAL.get(made.kind, frozenset())
    return {name: value for name, value in made.columns.items() if name in names} | item.settings


def _check(folder: Folder, export: Export) -> None:
    """Raise UsageError for another project's export, or invalid sections, codes or settings."""
    name = folder.project.name
    if export.project != name:
        fix = f"codes are derived from names; write `project: {export.project}` into {PROJECT_FILE}"
        raise UsageError(
            f"the export is of project {export.project}, but this is project {name}; {fix}"
        )
    for section in {*export.definitions, *export.history}:
        if section not in SECTIONS:
            known = ", ".join(SECTIONS)
            raise UsageError(f"{section} is not part of an export; its sections are {known}")
    for section, kind in SECTIONS.items():
        latest, logged = export.definitions.get(section, ()), export.history.get(section, ())
        codes = [(item.name, item.code) for item in latest]
        for named, code in [*codes, *((item.name, item.code) for item in logged)]:
            if code != build_code(name, kind, named):
                raise UsageError(f"{named}: {code} is not its code in project {name}")
        for definition in latest:
            _check_definition(kind, definition)
    for section in SECTIONS:
        contents = [item.content for item in export.definitions.get(section, ())]
        contents += [v.content for item in export.history.get(section, ()) for v in item.versions]
        for content in contents:
            _check_secrets(folder, section, content)


def _check_definition(kind: Kind, item: ExportedDefinition) -> None:
    own = item.content.values.get(kind.value.lower())
    if kind in (Kind.TABLE, Kind.JOB) and own != item.name:
        raise UsageError(f"{item.name}: its content belongs to {own}")
    for name, value in item.settings.items():
        if name not in OPERATIONAL.get(kind, ()):
            raise UsageError(f"{item.name} has no setting {name!r}")
        try:
            validate_column(name, value)
        except ValueError as error:
            raise UsageError(f"{item.name}: {error}") from None
    if problem := explain_misplaced_content(item.content.as_dict):
        raise UsageError(f"{item.name}: {problem}")


def _check_secrets(folder: Folder, section: str, content: Content) -> None:
    document = Document(folder.sources.main.path, content.values, {}, "as exported")
    if section != "project":
        if errors := list(find_definition_secrets(document)):
            raise InvalidProjectError(errors)
        return
    try:
        current = rename_to_current(content.values, ProjectConfig)
        config = ProjectConfig.model_validate(current)
    except ValidationError:
        return  # of a newer or older version; it is never in force
    if errors := list(find_plain_secrets(document, config)):
        raise InvalidProjectError(errors)


def _history(export: Export) -> Mapping[Kind, list[list[Version]]]:
    return {
        kind: [list(_versions(kind, item)) for item in export.history.get(section, ())]
        for section, kind in SECTIONS.items()
    }


def _versions(kind: Kind, history: ExportedHistory) -> Iterator[Version]:
    expected = set(DEFINITIONS[kind][1].columns.keys()) - _NOT_OF_KIND
    for number, item in enumerate(history.versions, history.versions[0].version):
        if item.version != number or set(item.columns) != expected:
            raise UsageError(f"{history.name}: version {item.version} of its history is invalid")
        if problem := explain_misplaced_content(item.content.as_dict):
            raise UsageError(f"{history.name}, version {item.version}: {problem}")
        for name in OPERATIONAL.get(kind, frozenset()):
            try:
                validate_column(name, item.columns[name])
            except ValueError as error:
                raise UsageError(f"{history.name}, version {item.version}: {error}") from None
        yield Version(
            kind=kind,
            name=history.name,
            code=history.code,
            version=item.version,
            operation=item.operation,
            operator=item.operator,
            time=item.time,
            reason=item.reason,
            content=serialize_canonical(item.content.as_dict),
            file_digest=item.file_digest,
            columns=item.columns,
        )


_NOT_OF_KIND = set(DEFINITIONS[Kind.PROJECT][1].columns.keys())
