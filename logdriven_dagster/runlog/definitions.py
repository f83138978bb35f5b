"""The registry: what is defined, in its latest version and in every one before.

The last change wins. A definition remembers the digest of the file that it was applied from: a file
that has not changed since then undoes neither a rollback nor an import, one that has changed makes
a new version. Settings that an operator has changed stay as they are until they are set again,
whatever the file says. Source: DolphinScheduler, version management: latest and log are written in
one transaction.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import and_, delete, insert, or_, select, update
from sqlalchemy.engine import Connection, Row

from logdriven_dagster.config.settings import SETTINGS
from logdriven_dagster.model.definitions import (
    Change,
    Declared,
    Derived,
    Kind,
    Operation,
    code_of,
)
from logdriven_dagster.runlog import definition_schema as tables
from logdriven_dagster.runlog.chunks import chunks
from logdriven_dagster.runlog.clock import utc_now
from logdriven_dagster.runlog.definition_rows import (
    DEFINITIONS,
    Author,
    bring,
    contents,
    last_versions,
    log_versions,
)

_FROM_FILES = (Kind.PROJECT, Kind.TABLE, Kind.JOB)
_OPERATIONAL = {
    Kind.TABLE: SETTINGS,
    Kind.JOB: SETTINGS,
    Kind.STEP: frozenset({"enabled"}),
}
"""Columns that people change without a deploy."""


@dataclass(frozen=True, slots=True)
class Survey:
    """How the files of a project compare with the registry."""

    changes: tuple[Change, ...]
    """What applying them would write: files that changed since they were applied last."""
    kept: Mapping[Kind, Mapping[str, str]]
    """Content by name where the registry wins: rolled back or imported since."""
    versions: Mapping[str, int]
    """Code → the version that is in force once the changes are written."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The rows to write for one kind."""

    added: list[Declared] = field(default_factory=list)
    changed: list[tuple[Row[Any], Declared]] = field(default_factory=list)
    deleted: list[Row[Any]] = field(default_factory=list)
    kept: dict[str, Row[Any]] = field(default_factory=dict)


def survey(conn: Connection, project: str, declared: Iterable[Declared]) -> Survey:
    """Compare what the files declare with the registry; nothing is written."""
    by_kind = _by_kind(declared)
    changes: list[Change] = []
    kept: dict[Kind, dict[str, str]] = {}
    versions: dict[str, int] = {}
    for kind in _FROM_FILES:
        rows = _rows(conn, project, kind)
        planned = _planned(rows, by_kind[kind])
        made = list(_changes(conn, project, kind, planned))
        changes += made
        found = contents(conn, kind, [row.code for row in planned.kept.values()])
        kept[kind] = {name: found[row.code] for name, row in planned.kept.items()}
        versions |= {row.code: row.version for row in rows.values()}
        versions |= {change.code: change.version for change in made}
    return Survey(tuple(changes), kept, versions)


def apply(
    conn: Connection, project: str, declared: Iterable[Declared], author: Author
) -> list[Change]:
    """Write a new version of everything whose file has changed; the changes, nothing for none."""
    by_kind = _by_kind(declared)
    return [
        change
        for kind in _FROM_FILES
        for change in _write(conn, project, kind, by_kind[kind], author)
    ]


def derive(conn: Connection, project: str, derived: Derived, author: Author) -> list[Change]:
    """Bring the rows that follow from tables and jobs up to date: relations, steps, uses."""
    by_kind = _by_kind(derived.definitions)
    changes = [
        change
        for kind in (Kind.RELATION, Kind.STEP)
        for change in _write(conn, project, kind, by_kind[kind], author)
    ]
    bring(conn, project, tables.definition_use, [asdict(use) for use in derived.uses])
    bring(conn, project, tables.table_property, derived.properties)
    return changes


def adopt(conn: Connection, project: str) -> list[Change]:
    """Make versions of what an SQL client has changed: settings that no version has."""
    author = Author("an SQL client", "found changed")
    adopted: list[Change] = []
    for kind, names in _OPERATIONAL.items():
        latest, log = DEFINITIONS[kind]
        same = and_(log.c.code == latest.c.code, log.c.version == latest.c.version)
        differs = or_(*(latest.c[name].is_distinct_from(log.c[name]) for name in sorted(names)))
        project_code = code_of(project, Kind.PROJECT, project)
        query = select(latest).join(log, same).where(latest.c.project_code == project_code, differs)
        rows = conn.execute(query).all()
        adopted += [record(conn, kind, row.code, {}, author) for row in rows]
    return adopted


def record(
    conn: Connection, kind: Kind, code: str, values: Mapping[str, Any], author: Author
) -> Change:
    """A new version of one definition with some columns changed, in both of its tables."""
    latest, _ = DEFINITIONS[kind]
    before = conn.execute(select(latest).where(latest.c.code == code)).one()
    version = before.version + 1
    conn.execute(
        update(latest)
        .where(latest.c.code == code, latest.c.version == before.version)
        .values(version=version, update_time=utc_now(), **values)
    )
    log_versions(conn, kind, [code], Operation.MODIFY, author)
    after = values.get("content", before.content)
    return Change(kind, before.name, code, Operation.MODIFY, version, before.content, after)


def settings(
    conn: Connection, project: str, kind: Kind, names: Collection[str] | None = None
) -> dict[str, Mapping[str, Any]]:
    """Name → the settings in force, and the `version`; of all definitions by default."""
    latest, _ = DEFINITIONS[kind]
    columns = [latest.c[name] for name in sorted(_OPERATIONAL[kind])]
    query = select(latest.c.name, latest.c.version, *columns)
    if names is None:
        project_code = code_of(project, Kind.PROJECT, project)
        found = conn.execute(query.where(latest.c.project_code == project_code)).all()
    else:
        codes = [code_of(project, kind, name) for name in names]
        found = [
            row
            for part in chunks(codes)
            for row in conn.execute(query.where(latest.c.code.in_(part)))
        ]
    return {row.name: dict(row._mapping) for row in found}


def content_of(conn: Connection, kind: Kind, code: str, version: int) -> dict[str, Any] | None:
    """The content of one version; None if there is no such version."""
    _, log = DEFINITIONS[kind]
    query = select(log.c.content).where(log.c.code == code, log.c.version == version)
    content = conn.execute(query).scalar()
    return None if content is None else dict(json.loads(content))


def _by_kind(declared: Iterable[Declared]) -> dict[Kind, list[Declared]]:
    found: dict[Kind, list[Declared]] = {kind: [] for kind in Kind}
    for item in declared:
        found[item.kind].append(item)
    return found


def _rows(conn: Connection, project: str, kind: Kind) -> dict[str, Row[Any]]:
    """The latest versions by name, without their contents."""
    latest, _ = DEFINITIONS[kind]
    names = ("code", "version", "name", "digest", "file_digest")
    columns = [latest.c[name] for name in names] + [
        latest.c[name] for name in sorted(_OPERATIONAL.get(kind, ()))
    ]
    project_code = code_of(project, Kind.PROJECT, project)
    query = select(*columns).where(latest.c.project_code == project_code)
    return {row.name: row for row in conn.execute(query)}


def _planned(rows: Mapping[str, Row[Any]], declared: Collection[Declared]) -> _Plan:
    planned = _Plan()
    for item in declared:
        row = rows.get(item.name)
        if row is None:
            planned.added.append(item)
        elif row.file_digest != (digest := item.digest):
            if row.digest != digest or row.file_digest is not None:
                planned.changed.append((row, item))
        elif row.digest != digest:
            planned.kept[item.name] = row
    names = {item.name for item in declared}
    for name, row in rows.items():
        if name not in names and row.file_digest is not None:
            planned.deleted.append(row)
        elif name not in names:
            planned.kept[name] = row
    return planned


def _changes(conn: Connection, project: str, kind: Kind, planned: _Plan) -> Iterator[Change]:
    new = {code_of(project, kind, item.name): item for item in planned.added}
    last = last_versions(conn, kind, new)
    for code, item in new.items():
        version = last.get(code, 0) + 1
        yield Change(kind, item.name, code, Operation.ADD, version, None, item.content)
    changing = [row.code for row, _ in planned.changed]
    before = contents(conn, kind, [*changing, *(row.code for row in planned.deleted)])
    for row, item in planned.changed:
        version, old = row.version + 1, before[row.code]
        yield Change(kind, item.name, row.code, Operation.MODIFY, version, old, item.content)
    for row in planned.deleted:
        version, old = row.version + 1, before[row.code]
        yield Change(kind, row.name, row.code, Operation.DELETE, version, old)


def _write(
    conn: Connection, project: str, kind: Kind, declared: Collection[Declared], author: Author
) -> list[Change]:
    planned = _planned(_rows(conn, project, kind), declared)
    changes = list(_changes(conn, project, kind, planned))
    by_code = {change.code: change for change in changes}
    latest, _ = DEFINITIONS[kind]
    common = {"project_code": code_of(project, Kind.PROJECT, project)}
    added = [
        {
            "code": code,
            "version": by_code[code].version,
            "name": item.name,
            **_content_columns(item),
            **common,
            **item.columns,
        }
        for item in planned.added
        for code in [code_of(project, kind, item.name)]
    ]
    if added:
        conn.execute(insert(latest).values(create_time=utc_now(), update_time=utc_now()), added)
        log_versions(conn, kind, [row["code"] for row in added], Operation.ADD, author)
    for row, item in planned.changed:
        values = _content_columns(item) | _merged(row, item, str(by_code[row.code].before))
        changed = update(latest).where(latest.c.code == row.code, latest.c.version == row.version)
        conn.execute(changed.values(version=row.version + 1, update_time=utc_now(), **values))
    log_versions(conn, kind, [row.code for row, _ in planned.changed], Operation.MODIFY, author)
    deleted = [row.code for row in planned.deleted]
    for part in chunks(deleted):
        gone = latest.c.code.in_(part)
        conn.execute(update(latest).where(gone).values(version=latest.c.version + 1))
        log_versions(conn, kind, part, Operation.DELETE, author)
        conn.execute(delete(latest).where(gone))
    return changes


def _merged(row: Row[Any], item: Declared, before: str) -> dict[str, Any]:
    """The columns of a new version, in which settings stay that an operator has changed."""
    declared_before = json.loads(before).get("settings", {})
    overridden = {
        name: getattr(row, name)
        for name, value in declared_before.items()
        if getattr(row, name) != value
    }
    return {**item.columns, **overridden}


def _content_columns(item: Declared) -> dict[str, Any]:
    return {"content": item.content, "digest": item.digest, "file_digest": item.digest}
