"""The rows of the registry: latest versions, their log, and what follows from them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Table, delete, func, insert, literal, select
from sqlalchemy.engine import Connection

from logdriven_dagster.model.definitions import Kind, Operation, code_of
from logdriven_dagster.runlog import definition_schema as tables
from logdriven_dagster.runlog.chunks import chunks
from logdriven_dagster.runlog.clock import utc_now

DEFINITIONS: Mapping[Kind, tuple[Table, Table]] = {
    Kind.PROJECT: (tables.project_definition, tables.project_definition_log),
    Kind.TABLE: (tables.table_definition, tables.table_definition_log),
    Kind.JOB: (tables.job_definition, tables.job_definition_log),
    Kind.RELATION: (tables.relation_definition, tables.relation_definition_log),
    Kind.STEP: (tables.step_definition, tables.step_definition_log),
}
"""The latest versions of each kind, and all of them."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who makes a version, and by what."""

    operator: str
    reason: str


def log_versions(
    conn: Connection, kind: Kind, codes: Collection[str], operation: Operation, author: Author
) -> None:
    """Copy the latest versions into the log."""
    latest, log = DEFINITIONS[kind]
    names = [column.name for column in latest.columns]
    told = {
        "operation": literal(operation.value),
        "operator": literal(author.operator),
        "operation_time": utc_now(),
        "reason": literal(author.reason),
    }
    for part in chunks(list(codes)):
        rows = select(*(latest.c[name] for name in names), *told.values())
        rows = rows.where(latest.c.code.in_(part))
        conn.execute(insert(log).from_select([*names, *told], rows))


def last_versions(conn: Connection, kind: Kind, codes: Collection[str]) -> dict[str, int]:
    """Code → the last version of what was deleted once and comes again."""
    _, log = DEFINITIONS[kind]
    found: dict[str, int] = {}
    for part in chunks(list(codes)):
        query = select(log.c.code, func.max(log.c.version).label("version")).where(
            log.c.code.in_(part)
        )
        rows = conn.execute(query.group_by(log.c.code))
        found |= {row.code: row.version for row in rows}
    return found


def contents(conn: Connection, kind: Kind, codes: Collection[str]) -> dict[str, str]:
    """Code → the content of the latest version."""
    latest, _ = DEFINITIONS[kind]
    query = select(latest.c.code, latest.c.content)
    return {
        row.code: row.content
        for part in chunks(list(codes))
        for row in conn.execute(query.where(latest.c.code.in_(part)))
    }


def bring(
    conn: Connection, project: str, table: Table, wanted: Collection[Mapping[str, str]]
) -> None:
    """Make the rows of a project in a table exactly these, touching only codes that differ."""
    project_code = code_of(project, Kind.PROJECT, project)
    names = [column.name for column in table.columns if column.name != "project_code"]

    def by_code(rows: Iterable[Mapping[str, str]]) -> dict[str, set[tuple[str, ...]]]:
        found: dict[str, set[tuple[str, ...]]] = {}
        for row in rows:
            found.setdefault(row["code"], set()).add(tuple(row[name] for name in names))
        return found

    query = select(table).where(table.c.project_code == project_code)
    present = by_code(dict(row._mapping) for row in conn.execute(query))
    new = by_code(wanted)
    differing = [code for code in {*present, *new} if present.get(code) != new.get(code)]
    for part in chunks(differing):
        conn.execute(delete(table).where(table.c.code.in_(part)))
    rows = [
        {"project_code": project_code, **dict(zip(names, values, strict=True))}
        for code in differing
        for values in new.get(code, ())
    ]
    if rows:
        conn.execute(insert(table), rows)
