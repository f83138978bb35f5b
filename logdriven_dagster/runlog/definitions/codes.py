"""Codes of definitions that change: a renamed table, or all definitions of a renamed project."""

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Table, delete, func, select, update
from sqlalchemy.engine import Connection

from logdriven_dagster.model.definitions import Kind, build_code
from logdriven_dagster.runlog.definitions.rows import DEFINITIONS
from logdriven_dagster.runlog.schema import definitions as tables
from logdriven_dagster.runlog.schema.observations import job_run

_DERIVED = (tables.definition_use, tables.table_property)


def change_code(
    conn: Connection, kind: Kind, before: str, after: str, values: Mapping[str, Any]
) -> None:
    """Give all versions of a definition another code, and set further columns of theirs.

    Versions that `after` has already follow the moved ones. Derived rows of `before` are removed;
    the next registration derives those of `after`.
    """
    latest, log = DEFINITIONS[kind]
    last = conn.execute(select(func.max(log.c.version)).where(log.c.code == before)).scalar() or 0
    own = update(log).where(log.c.code == after)
    # In two steps: some databases check the key row by row.
    conn.execute(own.values(version=-log.c.version))
    conn.execute(own.values(version=last - log.c.version))
    replaced = update(latest).where(latest.c.code == after)
    if "effect_version" in log.c and last:
        for rows in (log, latest):
            shifted = update(rows).where(rows.c.code == after)
            conn.execute(shifted.values(effect_version=rows.c.effect_version + last))
    if conn.execute(replaced.values(version=latest.c.version + last)).rowcount:
        conn.execute(delete(latest).where(latest.c.code == before))
    for rows in (latest, log):
        conn.execute(update(rows).where(rows.c.code == before).values(code=after, **values))
    for derived in _DERIVED:
        conn.execute(delete(derived).where(derived.c.code == before))


def rename_project(conn: Connection, project_id: int, old: str, new: str) -> None:
    """Give all definitions of a project, and runs of its jobs, the codes of its new name."""
    project_code = build_code(new, Kind.PROJECT, new)
    codes = {before: (kind, name) for kind, before, name in _list_codes(conn, old)}
    after = {
        before: build_code(new, kind, new if kind is Kind.PROJECT else name)
        for before, (kind, name) in codes.items()
    }
    for before, (kind, _) in codes.items():
        named = {"name": new} if kind is Kind.PROJECT else {}
        change_code(conn, kind, before, after[before], {"project_code": project_code, **named})
    for rows, column in _list_references():
        of_new = rows.c.project_code == project_code
        for before in conn.execute(select(rows.c[column]).where(of_new).distinct()).scalars().all():
            if before in after:
                changed = update(rows).where(of_new, rows.c[column] == before)
                conn.execute(changed.values({column: after[before]}))
    for before, (kind, _) in codes.items():
        if kind is Kind.JOB:
            runs = (job_run.c.project_id == project_id) & (job_run.c.job_code == before)
            conn.execute(update(job_run).where(runs).values(job_code=after[before]))


def _list_codes(conn: Connection, project: str) -> Iterator[tuple[Kind, str, str]]:
    for kind, (_, log) in DEFINITIONS.items():
        project_code = build_code(project, Kind.PROJECT, project)
        query = select(log.c.code, log.c.name).where(log.c.project_code == project_code)
        for row in conn.execute(query.distinct()).all():
            yield kind, row.code, row.name


def _list_references() -> Iterator[tuple[Table, str]]:
    """Yield the columns that hold codes of other definitions."""
    for rows in DEFINITIONS[Kind.RELATION]:
        yield from ((rows, name) for name in ("job_code", "pre_code", "post_code"))
    yield from ((rows, "job_code") for rows in DEFINITIONS[Kind.STEP])
