"""Changes of definitions that do not come from files: settings, imports, rollbacks."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.engine import Connection

from logdriven_dagster.errors import UsageError
from logdriven_dagster.model.definitions import Declared, Kind, Operation, VersionChange, build_code
from logdriven_dagster.runlog.definitions.effects import add_effect_version
from logdriven_dagster.runlog.definitions.registry import assign_file, build_modified_version
from logdriven_dagster.runlog.definitions.rows import (
    DEFINITIONS,
    Author,
    NewVersion,
    build_content_columns,
    lock_rows,
    read_contents,
    read_last_versions,
    read_latest_rows,
    store,
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A desired definition from any origin."""

    item: Declared
    settings: Mapping[str, Any]
    """The settings in force."""
    file_digest: str | None
    """The digest of the current file, which this definition overrides; None if there is no file."""
    version: int = 1
    """The version number of a definition that is new here."""


def set_columns(
    conn: Connection,
    project: str,
    kind: Kind,
    changes: Mapping[str, Mapping[str, Any]],
    author: Author,
) -> list[VersionChange]:
    """Set operational columns of definitions by name, and return the versions that this makes.

    A definition that has these values already gets no new version. Raises UsageError for an unknown
    name.
    """
    latest, _ = DEFINITIONS[kind]
    drafts = []
    lock_rows(conn, kind, [build_code(project, kind, name) for name in changes])
    for name, values in changes.items():
        code = build_code(project, kind, name)
        row = conn.execute(select(latest).where(latest.c.code == code)).one_or_none()
        if row is None:
            raise UsageError(f"{kind.value.lower()} {name!r} is not registered")
        differing = {key: value for key, value in values.items() if row._mapping[key] != value}
        if differing:
            drafts.append(build_modified_version(kind, row, row.content, differing))
    store(conn, project, kind, drafts, author)
    return [draft.change for draft in drafts]


def put(
    conn: Connection, project: str, kind: Kind, wanted: Collection[Wanted], author: Author
) -> list[VersionChange]:
    """Make definitions match `wanted`, and return the versions that this makes.

    A definition that matches already gets no new version. The current files count as applied, so
    they override the result only when they change again.
    """
    lock_rows(conn, kind, [build_code(project, kind, each.item.name) for each in wanted])
    rows = read_latest_rows(conn, project, kind)
    new = {build_code(project, kind, w.item.name): w for w in wanted if w.item.name not in rows}
    last = read_last_versions(conn, kind, new)
    drafts = [
        _build_added(kind, code, each, last[code] + 1 if code in last else each.version)
        for code, each in new.items()
    ]
    present = [(rows[each.item.name], each) for each in wanted if each.item.name in rows]
    before = read_contents(conn, kind, [row.code for row, _ in present])
    for row, each in present:
        values = {**each.item.columns, **each.settings}
        same = all(row._mapping[name] == value for name, value in each.settings.items())
        if not same or not each.item.has_digest(row.digest):
            values |= build_content_columns(each.item, each.file_digest)
            drafts.append(build_modified_version(kind, row, before[row.code], values))
        elif row.file_digest != each.file_digest:
            assign_file(conn, kind, row, each.file_digest)
    drafts = [add_effect_version(conn, draft) for draft in drafts]
    store(conn, project, kind, drafts, author)
    return [draft.change for draft in drafts]


def _build_added(kind: Kind, code: str, wanted: Wanted, version: int) -> NewVersion:
    item = wanted.item
    change = VersionChange(kind, item.name, code, Operation.ADD, version, None, item.content)
    values = {**build_content_columns(item, wanted.file_digest), **item.columns, **wanted.settings}
    return NewVersion(change, values)
