"""Upserts within a database: update rows of known keys in place, and insert rows of new keys.

A row that a newer window wrote stays. Rows of other programs have no `_window_start`, so their age
is unknown and any window is newer. Columns that the result lacks keep their values.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.types.jdbc import JdbcTarget
from logdriven_dagster.engine.databases.tables import column_of, utc_text
from logdriven_dagster.engine.queries.schemas import WINDOW_START
from logdriven_dagster.engine.targets.jdbc.moves import Move, list_moves
from logdriven_dagster.engine.targets.jdbc.rejections import name_rejected_column
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import Merged
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, FromClause, Select, Table


def refuse_bad_keys(
    conn: "Connection", staging: "Table", target: JdbcTarget, known: "Table | None"
) -> None:
    """Raise TerminalStepError if two staged rows have the same key, or a key is null.

    Keys are compared as the target compares them, as far as it is `known`.
    """
    from sqlalchemy import func, or_, select

    source = staging.alias("staged")
    values: Mapping[str, Any] = {c.name.lower(): c for c in source.columns}
    moves: Sequence[Move] = ()
    if known is not None:
        there = {column.name.lower() for column in known.columns}
        names = [values[name.lower()].name for name in target.key if name.lower() in there]
        moves = list_moves(conn, source, known, names)
        values = {**values, **{move.staged.name.lower(): move.value for move in moves}}
    key = [values[name.lower()].label(f"key_{n}") for n, name in enumerate(target.key)]
    twice = select(*key, func.count().label("n")).select_from(source).group_by(*key)
    empty = or_(*(column.element.is_(None) for column in key))
    with name_rejected_column(conn, moves, source, target.table):
        found = conn.execute(twice.having(or_(func.count() > 1, empty)).limit(1)).all()
    for row in found:
        *shown_values, number = row
        shown = ", ".join(f"{name}={v!r}" for name, v in zip(target.key, shown_values, strict=True))
        problem = (
            "a key must not be null" if None in shown_values else f"{number} rows have one key"
        )
        raise TerminalStepError(f"{target.table}: {problem}: {shown}")


def upsert(
    conn: "Connection",
    source: "FromClause",
    target: "Table",
    moves: Sequence[Move],
    *,
    key: tuple[str, ...],
    window: TimeWindow,
) -> Merged:
    """Merge staged rows, whose keys are unique, into the target by an UPDATE and an INSERT.

    Rows are updated and not replaced, so that references to them and other programs' columns stay.

    Args:
        source: An alias of the staging table.
        moves: The columns, with the values to insert.
        key: The names of the key columns.
        window: The window of the staged rows; rows of later windows stay.
    """
    from sqlalchemy import exists, insert, select, update

    same = _same_key(target, moves, key)
    pairs = [(move.target, move.value) for move in moves]
    changed = update(target).where(same, _is_not_newer(target, source, window)).values(dict(pairs))
    fresh = select(*(value for _, value in pairs)).select_from(source).where(~exists().where(same))
    added = insert(target).from_select([known for known, _ in pairs], fresh)
    updated = conn.execute(changed).rowcount
    inserted = conn.execute(added, execution_options={"preserve_rowcount": True}).rowcount
    return Merged(inserted, updated)


def select_upserted_rows(
    source: "FromClause",
    found: "FromClause",
    moves: Sequence[Move],
    *,
    key: tuple[str, ...],
    window: TimeWindow,
) -> "tuple[Select[Any], Select[Any]]":
    """Return the staged rows that no newer window's row overrides, and the resulting rows."""
    from sqlalchemy import select

    same, is_ours = _same_key(found, moves, key), _is_not_newer(found, source, window)
    staged = select().select_from(source.outerjoin(found, same)).where(is_ours)
    published = select().select_from(source.join(found, same)).where(is_ours)
    return staged, published


def _is_not_newer(
    table: "FromClause", source: "FromClause", window: TimeWindow
) -> "ColumnElement[bool]":
    """Return a condition: no later window wrote the row; one within it is of an earlier grid."""
    from sqlalchemy import or_

    old, new = column_of(table, WINDOW_START), column_of(source, WINDOW_START)
    # Where keys are cast, SQLAlchemy recognizes the join by `new` alone.
    return or_(old.is_(None), old <= new, old < utc_text(window.end))


def _same_key(
    target: "FromClause", moves: Sequence[Move], key: tuple[str, ...]
) -> "ColumnElement[bool]":
    values = {move.target.name.lower(): move.value for move in moves}
    return reduce(and_, (column_of(target, name) == values[name.lower()] for name in key))
