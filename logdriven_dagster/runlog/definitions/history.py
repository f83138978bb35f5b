"""Queries of the registry: all versions, the users of an object, and the export."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, func, insert, select, union_all
from sqlalchemy.engine import Connection

from logdriven_dagster.model.definitions import (
    USED_LENGTH,
    Kind,
    Operation,
    Version,
    VersionChange,
    build_code,
    compute_digest,
    serialize_canonical,
)
from logdriven_dagster.runlog.definitions.rows import DEFINITIONS
from logdriven_dagster.runlog.schema import definitions as tables
from logdriven_dagster.runlog.sql.chunks import split_into_chunks

_COMMON = frozenset(tables.project_definition_log.columns.keys())
_NAMED = (Kind.TABLE, Kind.JOB, Kind.STEP, Kind.RELATION, Kind.PROJECT)


@dataclass(frozen=True, slots=True)
class Finding:
    """A search result: an object and its definition, or one of its users."""

    kind: Kind
    """The kind of the object found."""
    name: str
    uses: str
    """The kind of use: connection, source, …; `name` for the object that has the name itself."""
    used: str
    step: str


def find_kind(conn: Connection, project: str, name: str) -> Kind | None:
    """Return the kind that has, or had, this name; tables before jobs, steps, relations."""
    for kind in _NAMED:
        if kind is Kind.PROJECT and name != project:
            continue  # its code follows from its own name alone
        _, log = DEFINITIONS[kind]
        query = select(log.c.code).where(log.c.code == build_code(project, kind, name)).limit(1)
        if conn.execute(query).first() is not None:
            return kind
    return None


def list_names(conn: Connection, project: str) -> list[str]:
    """Return the names of all registered tables, jobs and steps."""
    project_code = build_code(project, Kind.PROJECT, project)
    queries = [
        select(latest.c.name).where(latest.c.project_code == project_code)
        for latest, _ in (DEFINITIONS[kind] for kind in (Kind.TABLE, Kind.JOB, Kind.STEP))
    ]
    return sorted(conn.execute(union_all(*queries)).scalars())


def list_versions(conn: Connection, kind: Kind, codes: Collection[str]) -> list[Version]:
    """Return every version of some definitions, oldest first, in the order of names."""
    _, log = DEFINITIONS[kind]
    found = [
        row
        for part in split_into_chunks(list(codes))
        for row in conn.execute(select(log).where(log.c.code.in_(part)))
    ]
    return [_build_version(kind, row) for row in sorted(found, key=lambda r: (r.name, r.version))]


def list_latest_versions(conn: Connection, project: str, kind: Kind) -> list[Version]:
    """Return the latest version of each definition, with its author, in the order of names."""
    latest, log = DEFINITIONS[kind]
    joined = select(log).join(
        latest, (latest.c.code == log.c.code) & (latest.c.version == log.c.version)
    )
    project_code = build_code(project, Kind.PROJECT, project)
    rows = conn.execute(joined.where(latest.c.project_code == project_code))
    return [_build_version(kind, row) for row in sorted(rows, key=lambda row: row.name)]


def list_logged_codes(conn: Connection, project: str, kind: Kind) -> list[str]:
    """Return the codes of a kind that are in the log, including deleted definitions."""
    _, log = DEFINITIONS[kind]
    project_code = build_code(project, Kind.PROJECT, project)
    query = select(log.c.code).where(log.c.project_code == project_code).distinct()
    return sorted(conn.execute(query).scalars())


def restore(
    conn: Connection, project: str, kind: Kind, history: Sequence[Sequence[Version]]
) -> list[VersionChange]:
    """Write the versions of definitions that are missing in the log, and return the new ones.

    The last version of each becomes the latest one, unless it is a deletion.
    """
    latest, log = DEFINITIONS[kind]
    last = [each[-1] for each in history]
    known: set[str] = set()
    for part in split_into_chunks([version.code for version in last]):
        known |= set(conn.execute(select(log.c.code).where(log.c.code.in_(part))).scalars())
    new = [each for each in history if each[-1].code not in known]
    rows = [_build_log_row(project, version, each[0].time) for each in new for version in each]
    if rows:
        conn.execute(insert(log), rows)
    present = [
        {name: row[name] for name in latest.columns.keys()}  # noqa: SIM118 - a collection of columns
        for each in new
        if each[-1].operation is not Operation.DELETE
        for row in [_build_log_row(project, each[-1], each[0].time)]
    ]
    if present:
        conn.execute(insert(latest), present)
    return [
        VersionChange(
            kind, v.name, v.code, Operation.ADD, v.version, None, serialize_canonical(v.in_force)
        )
        for v in last
        if v.code not in known and v.operation is not Operation.DELETE
    ]


def find_users(
    conn: Connection, project: str, kinds: Collection[str], wanted: str
) -> list[Finding]:
    """Return the users of objects of these kinds; `*` in `wanted` matches anything."""
    rows = conn.execute(build_users_query(project, kinds, wanted))
    found = [
        Finding(Kind(row.code.partition("_")[0]), row.name, row.kind, row.used, row.step_id)
        for row in rows
        if row.name is not None
    ]
    return sorted(found, key=lambda f: (f.uses, f.used, f.name, f.step))


def build_users_query(project: str, kinds: Collection[str], wanted: str) -> Select[Any]:
    """Build the single query of `users`, which uses an index unless there is a `*`."""
    use, table = tables.definition_use, tables.table_definition
    job, step = tables.job_definition, tables.step_definition
    name = func.coalesce(table.c.name, job.c.name, step.c.name).label("name")
    joined = use
    for user in (table, job, step):
        joined = joined.outerjoin(user, user.c.code == use.c.code)  # type: ignore[assignment]
    return (
        select(use.c.code, use.c.kind, use.c.used, use.c.step_id, name)
        .select_from(joined)
        .where(
            use.c.project_code == build_code(project, Kind.PROJECT, project),
            use.c.kind.in_(sorted(kinds)),
            _match(use.c.used, wanted[:USED_LENGTH]),
        )
    )


def find_by_name(conn: Connection, project: str, wanted: str) -> list[Finding]:
    """Return the tables, jobs and steps with this name; `*` matches anything."""
    project_code = build_code(project, Kind.PROJECT, project)
    found = []
    for kind in (Kind.TABLE, Kind.JOB, Kind.STEP):
        latest, _ = DEFINITIONS[kind]
        query = select(latest.c.name).where(
            latest.c.project_code == project_code, _match(latest.c.name, wanted)
        )
        found += [Finding(kind, n, "name", n, "") for n in sorted(conn.execute(query).scalars())]
    return found


def _match(column: ColumnElement[str], wanted: str) -> ColumnElement[bool]:
    """Match equal values; a pattern ignores case, since databases differ in this."""
    if "*" not in wanted:
        return column == wanted
    escaped = re.sub(r"([!%_])", r"!\1", wanted.lower()).replace("*", "%")
    return func.lower(column).like(escaped, escape="!")


def _build_version(kind: Kind, row: Row[Any]) -> Version:
    columns = {str(name): row._mapping[name] for name in row._mapping if name not in _COMMON}
    instant: datetime = row.operation_time
    return Version(
        kind=kind,
        name=row.name,
        code=row.code,
        version=row.version,
        operation=Operation(row.operation),
        operator=row.operator,
        time=f"{instant.isoformat(timespec='microseconds')}Z",
        reason=row.reason,
        content=row.content,
        file_digest=row.file_digest,
        columns=columns,
    )


def _build_log_row(project: str, version: Version, created: str) -> dict[str, Any]:
    """Return a row of the log with all columns of the latest row."""
    return {
        "code": version.code,
        "version": version.version,
        "project_code": build_code(project, Kind.PROJECT, project),
        "name": version.name,
        "content": version.content,
        "digest": compute_digest(version.content),
        "file_digest": version.file_digest,
        "create_time": _parse_time(created),
        "update_time": _parse_time(version.time),
        "operation": version.operation.value,
        "operator": version.operator,
        "operation_time": _parse_time(version.time),
        "reason": version.reason,
        **version.columns,
    }


def _parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).replace(tzinfo=None)
