"""The rows of the registry: latest versions, their log, and the rows derived from them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Table, delete, func, insert, literal, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from logdriven_dagster.config.models.settings import SETTINGS
from logdriven_dagster.errors import RunLogError
from logdriven_dagster.model.definitions import Declared, Kind, Operation, VersionChange, build_code
from logdriven_dagster.runlog.schema import definitions as tables
from logdriven_dagster.runlog.sql.chunks import split_into_chunks
from logdriven_dagster.runlog.sql.clock import utc_now
from logdriven_dagster.runlog.store import OvertakenError

DEFINITIONS: Mapping[Kind, tuple[Table, Table]] = {
    Kind.PROJECT: (tables.project_definition, tables.project_definition_log),
    Kind.TABLE: (tables.table_definition, tables.table_definition_log),
    Kind.JOB: (tables.job_definition, tables.job_definition_log),
    Kind.RELATION: (tables.relation_definition, tables.relation_definition_log),
    Kind.STEP: (tables.step_definition, tables.step_definition_log),
}
"""The tables of the latest versions of each kind, and of all versions."""

OPERATIONAL: Mapping[Kind, frozenset[str]] = {
    Kind.TABLE: SETTINGS,
    Kind.JOB: SETTINGS,
    Kind.STEP: frozenset({"enabled"}),
}
"""Columns that operators change without a deploy."""


@dataclass(frozen=True, slots=True)
class Author:
    """The operator who makes a version of a definition, and the reason."""

    operator: str
    reason: str


@dataclass(frozen=True, slots=True)
class NewVersion:
    """A version to be written."""

    change: VersionChange
    values: Mapping[str, Any]
    """Columns of its row; for a modification, only the changed ones."""


def build_content_columns(item: Declared, file_digest: str | None) -> dict[str, Any]:
    """Return the columns of a row for a declared content."""
    return {"content": item.content, "digest": item.digest, "file_digest": file_digest}


def lock(conn: Connection, project: str) -> None:
    """Lock the definitions of a project, so that one process at a time changes them.

    For a new project, the process that writes its row first wins (see `store`).
    """
    row = tables.project_definition
    code = build_code(project, Kind.PROJECT, project)
    conn.execute(select(row.c.code).where(row.c.code == code).with_for_update())


def lock_rows(conn: Connection, kind: Kind, codes: Collection[str]) -> None:
    """Lock latest versions until the transaction ends."""
    latest, _ = DEFINITIONS[kind]
    for part in split_into_chunks(list(codes)):
        query = select(latest.c.code).where(latest.c.code.in_(part)).order_by(latest.c.code)
        conn.execute(query.with_for_update()).all()


def read_latest_rows(conn: Connection, project: str, kind: Kind) -> dict[str, Row[Any]]:
    """Return the latest versions by name, without their contents."""
    latest, _ = DEFINITIONS[kind]
    names = ["code", "version", "name", "digest", "file_digest", *sorted(OPERATIONAL.get(kind, ()))]
    names += ["effect_version"] if kind is Kind.TABLE else []
    project_code = build_code(project, Kind.PROJECT, project)
    query = select(*(latest.c[name] for name in names))
    return {r.name: r for r in conn.execute(query.where(latest.c.project_code == project_code))}


def store(
    conn: Connection, project: str, kind: Kind, drafts: Collection[NewVersion], author: Author
) -> None:
    """Write versions to the latest rows and to the log.

    Raises OvertakenError if another process registers the same new project at the same time.
    """
    latest, _ = DEFINITIONS[kind]
    by_operation: dict[Operation, list[NewVersion]] = {operation: [] for operation in Operation}
    for draft in drafts:
        by_operation[draft.change.operation].append(draft)
    # This order frees names and positions before other rows take them.
    deleted = [draft.change.code for draft in by_operation[Operation.DELETE]]
    for part in split_into_chunks(deleted):
        gone = latest.c.code.in_(part)
        values = {"version": latest.c.version + 1, "update_time": utc_now()}
        conn.execute(update(latest).where(gone).values(**values))
        log_versions(conn, kind, part, Operation.DELETE, author)
        conn.execute(delete(latest).where(gone))
    modified = by_operation[Operation.MODIFY]
    if kind is Kind.STEP:
        _step_aside(conn, modified)
    for draft in modified:
        _modify(conn, latest, draft)
    log_versions(conn, kind, [d.change.code for d in modified], Operation.MODIFY, author)
    added = [_build_new_row(project, draft) for draft in by_operation[Operation.ADD]]
    if added:
        try:
            conn.execute(insert(latest).values(create_time=utc_now(), update_time=utc_now()), added)
        except IntegrityError:
            if kind is not Kind.PROJECT:
                raise
            raise OvertakenError(
                f"another process is registering project {project}; try again"
            ) from None
        log_versions(conn, kind, [row["code"] for row in added], Operation.ADD, author)


def _build_new_row(project: str, draft: NewVersion) -> dict[str, Any]:
    return {
        "code": draft.change.code,
        "version": draft.change.version,
        "name": draft.change.name,
        "project_code": build_code(project, Kind.PROJECT, project),
        **draft.values,
    }


def _modify(conn: Connection, latest: Table, draft: NewVersion) -> None:
    change = draft.change
    row = (latest.c.code == change.code) & (latest.c.version == change.version - 1)
    written = conn.execute(
        update(latest)
        .where(row)
        .values(version=change.version, update_time=utc_now(), **draft.values)
    )
    if written.rowcount != 1:
        raise RunLogError(f"another process has just changed {change.name}; try again")


def _step_aside(conn: Connection, modified: Collection[NewVersion]) -> None:
    """Move steps to temporary positions, so that steps can swap their unique positions."""
    steps = tables.step_definition
    moving = [d.change.code for d in modified if "exec_order" in d.values]
    for part in split_into_chunks(moving):
        aside = update(steps).where(steps.c.code.in_(part), steps.c.exec_order >= 0)
        conn.execute(aside.values(exec_order=-1 - steps.c.exec_order))


def log_versions(
    conn: Connection, kind: Kind, codes: Collection[str], operation: Operation, author: Author
) -> None:
    """Copy the latest versions into the log."""
    latest, log = DEFINITIONS[kind]
    names = [column.name for column in latest.columns]
    logged = {
        "operation": literal(operation.value),
        "operator": literal(author.operator),
        "operation_time": utc_now(),
        "reason": literal(author.reason),
    }
    for part in split_into_chunks(list(codes)):
        rows = select(*(latest.c[name] for name in names), *logged.values())
        rows = rows.where(latest.c.code.in_(part))
        conn.execute(insert(log).from_select([*names, *logged], rows))


def read_last_versions(conn: Connection, kind: Kind, codes: Collection[str]) -> dict[str, int]:
    """Return the last versions of definitions that were deleted and are added again, by code."""
    _, log = DEFINITIONS[kind]
    found: dict[str, int] = {}
    for part in split_into_chunks(list(codes)):
        query = select(log.c.code, func.max(log.c.version).label("version")).where(
            log.c.code.in_(part)
        )
        rows = conn.execute(query.group_by(log.c.code))
        found |= {row.code: row.version for row in rows}
    return found


def read_contents(conn: Connection, kind: Kind, codes: Collection[str]) -> dict[str, str]:
    """Return the content of the latest versions, by code."""
    latest, _ = DEFINITIONS[kind]
    query = select(latest.c.code, latest.c.content)
    return {
        row.code: row.content
        for part in split_into_chunks(list(codes))
        for row in conn.execute(query.where(latest.c.code.in_(part)))
    }


def sync_rows(
    conn: Connection, project: str, table: Table, wanted: Collection[Mapping[str, str]]
) -> None:
    """Make the rows of a project in a table match `wanted`, changing only codes that differ."""
    project_code = build_code(project, Kind.PROJECT, project)
    names = [column.name for column in table.columns if column.name != "project_code"]

    def group_by_code(rows: Iterable[Mapping[str, str]]) -> dict[str, set[tuple[str, ...]]]:
        found: dict[str, set[tuple[str, ...]]] = {}
        for row in rows:
            found.setdefault(row["code"], set()).add(tuple(row[name] for name in names))
        return found

    query = select(table).where(table.c.project_code == project_code)
    present = group_by_code(dict(row._mapping) for row in conn.execute(query))
    new = group_by_code(wanted)
    differing = [code for code in {*present, *new} if present.get(code) != new.get(code)]
    for part in split_into_chunks(differing):
        conn.execute(delete(table).where(table.c.code.in_(part)))
    rows = [
        {"project_code": project_code, **dict(zip(names, values, strict=True))}
        for code in differing
        for values in new.get(code, ())
    ]
    if rows:
        conn.execute(insert(table), rows)
