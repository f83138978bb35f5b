"""Upserts within a database: rows of known keys are updated in place, rows of new keys inserted.

A row that a newer window wrote stays. Rows that others put there have no `_window_start`: nobody
knows how old they are, and any window is newer. Columns that the result lacks keep their values.
"""

from functools import reduce
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.jdbc import JdbcTarget
from logdriven_dagster.engine.databases.tables import column_of
from logdriven_dagster.engine.queries.schemas import WINDOW_START
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import Merged

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table


def refuse_bad_keys(conn: "Connection", staging: "Table", target: JdbcTarget) -> None:
    """TerminalStepError if two staged rows have one key, or a key is null."""
    from sqlalchemy import func, or_, select

    key = [column_of(staging, name) for name in target.key]
    twice = select(*key, func.count().label("n")).group_by(*key)
    empty = or_(*(column.is_(None) for column in key))
    for row in conn.execute(twice.having(or_(func.count() > 1, empty)).limit(1)):
        *values, number = row
        shown = ", ".join(f"{name}={v!r}" for name, v in zip(target.key, values, strict=True))
        problem = "a key must not be null" if None in values else f"{number} rows have one key"
        raise TerminalStepError(f"{target.table}: {problem}: {shown}")


def upsert(conn: "Connection", staging: "Table", target: "Table", key: tuple[str, ...]) -> Merged:
    """Bring staged rows, whose keys are unique, into the target. Two statements.

    Rows are updated and not replaced: what refers to them, and columns of others, stay.
    """
    from sqlalchemy import and_, exists, insert, or_, select, update

    same = reduce(and_, (column_of(target, name) == column_of(staging, name) for name in key))
    old, new = column_of(target, WINDOW_START), column_of(staging, WINDOW_START)
    pairs = [(column_of(target, column.name), column) for column in staging.columns]
    changed = update(target).where(same, or_(old.is_(None), old <= new)).values(dict(pairs))
    fresh = select(*staging.columns).where(~exists().where(same))
    added = insert(target).from_select([known for known, _ in pairs], fresh)
    updated = conn.execute(changed).rowcount
    inserted = conn.execute(added, execution_options={"preserve_rowcount": True}).rowcount
    return Merged(inserted, updated)
