"""The registry: all definitions, in the latest version and in every version before.

The last change wins. A definition keeps the digest of the file from which it was applied. A file
that has not changed since then overrides neither a rollback nor an import; a changed file makes a
new version. Settings changed by an operator stay in force until they are set again, regardless of
the file. Source: DolphinScheduler, version management: latest and log are written in one
transaction.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import Row, Select, and_, bindparam, or_, select, update
from sqlalchemy.engine import Connection

from logdriven_dagster.config.derived.contents import rename_content
from logdriven_dagster.model.definitions import (
    Declared,
    Derived,
    Kind,
    Operation,
    VersionChange,
    build_code,
    get_content_in_force,
    serialize_canonical,
)
from logdriven_dagster.runlog.definitions.effects import add_effect_version
from logdriven_dagster.runlog.definitions.rows import (
    DEFINITIONS,
    OPERATIONAL,
    Author,
    NewVersion,
    build_content_columns,
    lock_rows,
    read_contents,
    read_last_versions,
    read_latest_rows,
    store,
    sync_rows,
)
from logdriven_dagster.runlog.schema import definitions as tables
from logdriven_dagster.runlog.sql.chunks import split_into_chunks

_FROM_FILES = (Kind.PROJECT, Kind.TABLE, Kind.JOB)


@dataclass(frozen=True, slots=True)
class Survey:
    """The differences between a project's files and the registry."""

    changes: tuple[VersionChange, ...]
    """The versions that applying would write, for files that changed since they were last applied.
    """
    kept: Mapping[Kind, Mapping[str, str]]
    """Content by name where the registry wins: rolled back or imported since."""
    versions: Mapping[str, int]
    """The versions in force once the changes are written, by code."""
    present: Mapping[str, int]
    """The current versions, by code."""
    effects: Mapping[str, int]
    """The first version with the effect of the version in force, by code of a table."""
    waits: bool
    """True if applying writes anything: versions, or files that now match the kept content."""
    strays: bool
    """True if an SQL client has changed settings that are in no version yet."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The planned changes of the rows of one kind."""

    added: list[Declared] = field(default_factory=list)
    changed: list[tuple[Row[Any], Declared]] = field(default_factory=list)
    deleted: list[Row[Any]] = field(default_factory=list)
    met: list[tuple[Row[Any], Declared]] = field(default_factory=list)
    """Files that changed to the registry's content: no new version, but theirs from now on."""
    kept: dict[str, Row[Any]] = field(default_factory=dict)


def survey(conn: Connection, project: str, declared: Iterable[Declared]) -> Survey:
    """Compare the definitions in the files with the registry; nothing is written."""
    by_kind = _group_by_kind(declared)
    changes: list[VersionChange] = []
    kept: dict[Kind, dict[str, str]] = {}
    present: dict[str, int] = {}
    effects: dict[str, int] = {}
    met = False
    for kind in _FROM_FILES:
        rows = read_latest_rows(conn, project, kind)
        planned = _plan_kind(rows, by_kind[kind])
        drafts = list(_find_drafts(conn, project, kind, planned))
        changes += (draft.change for draft in drafts)
        if kind is Kind.TABLE:
            effects = {row.code: row.effect_version or row.version for row in rows.values()}
            effects |= _list_new_effects(drafts)
        found = read_contents(conn, kind, [row.code for row in planned.kept.values()])
        kept[kind] = {name: found[row.code] for name, row in planned.kept.items()}
        present |= {row.code: row.version for row in rows.values()}
        met = met or bool(planned.met)
    versions = present | {change.code: change.version for change in changes}
    strays = next(_find_strays(conn, project), None) is not None
    waits = bool(changes) or met
    return Survey(tuple(changes), kept, versions, present, effects, waits, strays)


def _list_new_effects(drafts: Iterable[NewVersion]) -> dict[str, int]:
    return {
        draft.change.code: draft.values["effect_version"]
        for draft in drafts
        if "effect_version" in draft.values
    }


def present(conn: Connection, project: str) -> dict[str, int]:
    """Return the versions of the project, its tables and jobs by code, as `Survey.present`."""
    project_code = build_code(project, Kind.PROJECT, project)
    return {
        row.code: row.version
        for latest, _ in (DEFINITIONS[kind] for kind in _FROM_FILES)
        for row in conn.execute(
            select(latest.c.code, latest.c.version).where(latest.c.project_code == project_code)
        )
    }


def read_effects(conn: Connection, project: str) -> dict[str, int]:
    """Return the first version with the effect of each table's version, as `Survey.effects`."""
    rows = read_latest_rows(conn, project, Kind.TABLE)
    return {row.code: row.effect_version or row.version for row in rows.values()}


def apply(
    conn: Connection, project: str, declared: Iterable[Declared], author: Author
) -> list[VersionChange]:
    """Write a new version of every definition whose file has changed, and return the changes."""
    by_kind = _group_by_kind(declared)
    return [
        change
        for kind in _FROM_FILES
        for change in _write(conn, project, kind, by_kind[kind], author)
    ]


def derive(conn: Connection, project: str, derived: Derived, author: Author) -> list[VersionChange]:
    """Update the rows derived from tables and jobs: relations, steps, uses."""
    by_kind = _group_by_kind(derived.definitions)
    changes = [
        change
        for kind in (Kind.RELATION, Kind.STEP)
        for change in _write(conn, project, kind, by_kind[kind], author)
    ]
    sync_rows(conn, project, tables.definition_use, [asdict(use) for use in derived.uses])
    sync_rows(conn, project, tables.table_property, derived.properties)
    return changes


def adopt(conn: Connection, project: str) -> list[VersionChange]:
    """Make versions of settings that an SQL client has changed and that no version has."""
    author = Author("an SQL client", "found changed")
    strays = list(_find_strays(conn, project))
    for kind in OPERATIONAL:
        store(conn, project, kind, [d for d in strays if d.change.kind is kind], author)
    return [draft.change for draft in strays]


def read_settings(
    conn: Connection, project: str, kind: Kind, names: Collection[str] | None = None
) -> dict[str, Mapping[str, Any]]:
    """Return the settings in force and the `version` by name; of all definitions by default."""
    latest, _ = DEFINITIONS[kind]
    if names is None:
        project_code = build_code(project, Kind.PROJECT, project)
        of_project = _select_settings_in_force(kind).where(latest.c.project_code == project_code)
        found = conn.execute(of_project).all()
    else:
        codes = [build_code(project, kind, name) for name in names]
        found = [
            row
            for part in split_into_chunks(codes)
            for row in conn.execute(_build_settings_query(kind), {"codes": part})
        ]
    return {row.name: dict(row._mapping) for row in found}


@cache
def _select_settings_in_force(kind: Kind) -> Select[Any]:
    latest, _ = DEFINITIONS[kind]
    columns = [latest.c[name] for name in sorted(OPERATIONAL[kind])]
    return select(latest.c.name, latest.c.version, *columns)


@cache
def _build_settings_query(kind: Kind) -> Select[Any]:
    """Build the query of the settings in force, which every window executes."""
    latest, _ = DEFINITIONS[kind]
    return _select_settings_in_force(kind).where(
        latest.c.code.in_(bindparam("codes", expanding=True))
    )


def read_content(conn: Connection, kind: Kind, code: str, version: int) -> dict[str, Any] | None:
    """Return the content of one version; None if there is no such version."""
    _, log = DEFINITIONS[kind]
    query = select(log.c.content).where(log.c.code == code, log.c.version == version)
    content = conn.execute(query).scalar()
    return None if content is None else dict(json.loads(content))


def _group_by_kind(declared: Iterable[Declared]) -> dict[Kind, list[Declared]]:
    found: dict[Kind, list[Declared]] = {kind: [] for kind in Kind}
    for item in declared:
        found[item.kind].append(item)
    return found


def _plan_kind(rows: Mapping[str, Row[Any]], declared: Collection[Declared]) -> _Plan:
    planned = _Plan()
    for item in declared:
        row = rows.get(item.name)
        if row is None:
            planned.added.append(item)
        elif item.has_digest(row.file_digest):
            if not item.has_digest(row.digest):
                planned.kept[item.name] = row
        elif item.has_digest(row.digest):
            planned.met.append((row, item))
        else:
            planned.changed.append((row, item))
    names = {item.name for item in declared}
    for name, row in rows.items():
        if name not in names and row.file_digest is not None:
            planned.deleted.append(row)
        elif name not in names:
            planned.kept[name] = row
    return planned


def _find_drafts(
    conn: Connection, project: str, kind: Kind, planned: _Plan
) -> Iterator[NewVersion]:
    for draft in _build_drafts(conn, project, kind, planned):
        yield add_effect_version(conn, draft)


def _build_drafts(
    conn: Connection, project: str, kind: Kind, planned: _Plan
) -> Iterator[NewVersion]:
    new = {build_code(project, kind, item.name): item for item in planned.added}
    last = read_last_versions(conn, kind, new)
    for code, item in new.items():
        version = last.get(code, 0) + 1
        change = VersionChange(kind, item.name, code, Operation.ADD, version, None, item.content)
        yield NewVersion(change, {**build_content_columns(item, item.digest), **item.columns})
    replaced = [row for row, _ in planned.changed] + planned.deleted
    before = read_contents(conn, kind, [row.code for row in replaced])
    for row, item in planned.changed:
        declared_before = json.loads(before[row.code])
        overridden = _find_overrides(row, declared_before.get("settings", {}))
        values = {**item.columns, **overridden, **build_content_columns(item, item.digest)}
        yield build_modified_version(kind, row, before[row.code], values)
    for row in planned.deleted:
        text = serialize_canonical(get_content_in_force(before[row.code], dict(row._mapping)))
        change = VersionChange(kind, row.name, row.code, Operation.DELETE, row.version + 1, text)
        yield NewVersion(change, {})


def build_modified_version(
    kind: Kind, row: Row[Any], content: str, values: Mapping[str, Any]
) -> NewVersion:
    """Return the next version of a row whose content is `content`, with some columns changed."""
    before = get_content_in_force(content, dict(row._mapping))
    after = get_content_in_force(values.get("content", content), {**row._mapping, **values})
    texts = (
        serialize_canonical(rename_content(kind, before)),
        serialize_canonical(rename_content(kind, after)),
    )
    change = VersionChange(kind, row.name, row.code, Operation.MODIFY, row.version + 1, *texts)
    return NewVersion(change, values)


def _find_overrides(row: Row[Any], declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that an operator has changed."""
    return {
        name: row._mapping[name] for name, value in declared.items() if row._mapping[name] != value
    }


def _write(
    conn: Connection, project: str, kind: Kind, declared: Collection[Declared], author: Author
) -> list[VersionChange]:
    planned = _plan_kind(read_latest_rows(conn, project, kind), declared)
    if planned.changed:
        # An SQL client may be changing their settings, which have to stay.
        lock_rows(conn, kind, [row.code for row, _ in planned.changed])
        planned = _plan_kind(read_latest_rows(conn, project, kind), declared)
    for row, item in planned.met:
        assign_file(conn, kind, row, item.digest)
    drafts = list(_find_drafts(conn, project, kind, planned))
    store(conn, project, kind, drafts, author)
    return [draft.change for draft in drafts]


def assign_file(conn: Connection, kind: Kind, row: Row[Any], file_digest: str | None) -> None:
    """Assign a definition to a file, or to none; its content stays unchanged."""
    for table in DEFINITIONS[kind]:
        present = (table.c.code == row.code) & (table.c.version == row.version)
        conn.execute(update(table).where(present).values(file_digest=file_digest))


def _find_strays(conn: Connection, project: str) -> Iterator[NewVersion]:
    project_code = build_code(project, Kind.PROJECT, project)
    for kind, names in OPERATIONAL.items():
        latest, log = DEFINITIONS[kind]
        same = and_(log.c.code == latest.c.code, log.c.version == latest.c.version)
        differs = or_(*(latest.c[name].is_distinct_from(log.c[name]) for name in sorted(names)))
        logged = [log.c[name].label(f"logged_{name}") for name in sorted(names)]
        query = select(latest, *logged).join(log, same)
        for row in conn.execute(query.where(latest.c.project_code == project_code, differs)).all():
            versioned = {name: row._mapping[f"logged_{name}"] for name in names}
            texts = [
                serialize_canonical(get_content_in_force(row.content, columns))
                for columns in (versioned, dict(row._mapping))
            ]
            change = VersionChange(
                kind, row.name, row.code, Operation.MODIFY, row.version + 1, *texts
            )
            yield NewVersion(change, {})
