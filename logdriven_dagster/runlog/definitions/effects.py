"""Effects of versions: the first version of a table that has the same effect as each one.

The number is stored with a version when it is made, so that a later release, which may compare
definitions in another way, does not change which windows are old.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from sqlalchemy import select
from sqlalchemy.engine import Connection

from logdriven_dagster.model.definitions import Kind
from logdriven_dagster.runlog.definitions.rows import NewVersion
from logdriven_dagster.runlog.schema.definitions import table_definition_log
from logdriven_dagster.runlog.sql.chunks import split_into_chunks

_LOG = table_definition_log.c


def add_effect_version(conn: Connection, draft: NewVersion) -> NewVersion:
    """Return a new version of a table with the first version that has its effect.

    Other definitions, and versions without a changed content, are returned as they are.
    """
    change = draft.change
    if change.kind is not Kind.TABLE or change.after is None or "content" not in draft.values:
        return draft
    content = draft.values["content"]
    first = _find_same_effect(conn, change.code, content, draft.values["digest"])
    added: dict[str, object] = {"effect_version": change.version if first is None else first}
    if change.before is not None:
        from logdriven_dagster.config.changes.tables import (
            compare_tables,
            describe_changes,
        )

        changes = compare_tables(json.loads(change.before), json.loads(content))
        added["effect_change"] = describe_changes(changes) or None
    return replace(draft, values={**draft.values, **added})


def _find_same_effect(conn: Connection, code: str, content: str, digest: str) -> int | None:
    """Return the effect version of an earlier version with the same effect; None if none has it."""
    query = select(_LOG.version, _LOG.effect_version, _LOG.digest).where(_LOG.code == code)
    rows = conn.execute(query.order_by(_LOG.version.desc())).all()
    newest: dict[int, int] = {}
    for row in rows:
        effect = row.effect_version or row.version
        if row.digest == digest:
            return int(effect)
        newest.setdefault(effect, row.version)
    if not newest:
        return None
    from logdriven_dagster.config.changes.effects import compute_effect

    wanted = compute_effect(json.loads(content))
    for effect, version in newest.items():
        earlier = select(_LOG.content).where(_LOG.code == code, _LOG.version == version)
        if compute_effect(json.loads(conn.execute(earlier).scalar_one())) == wanted:
            return effect
    return None


@dataclass(frozen=True, slots=True)
class EffectVersion:
    """The effect of a version of a table."""

    effect_version: int
    """The first version with the same effect."""
    change: str | None
    """The change since the version before, in words; None if it makes no window old."""


def read_effect_versions(
    conn: Connection, codes: Collection[str]
) -> Mapping[str, Mapping[int, EffectVersion]]:
    """Return code → version → its effect, of every version of some tables."""
    found: dict[str, dict[int, EffectVersion]] = {}
    columns = (_LOG.code, _LOG.version, _LOG.effect_version, _LOG.effect_change)
    for part in split_into_chunks(list(codes)):
        query = select(*columns).where(_LOG.code.in_(part)).order_by(_LOG.code, _LOG.version)
        for row in conn.execute(query):
            versions = found.setdefault(row.code, {})
            effect = row.effect_version or row.version
            before = versions[max(versions)].effect_version if versions else effect
            # A version that only changes settings copies the text of the one before.
            change = row.effect_change if effect != before else None
            versions[row.version] = EffectVersion(effect, change)
    return found
