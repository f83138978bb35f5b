"""Moving columns from a staging table into the target: SQL to insert and compare values.

A staging table holds values exactly, in our types; a target has the types that its creator chose.
The expressions here are in the database's own SQL, where `{v}` is a column.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.databases.declarations import (
    MARIADB,
    Declaration,
    declarations,
    has_declarations,
    stores_what_it_is_given,
)
from logdriven_dagster.engine.databases.tables import column_of, plain_quoted

if TYPE_CHECKING:
    from sqlalchemy import Column, ColumnElement, Connection, FromClause, Table

_ASSIGNABLE = ("text", "character varying", "bpchar")
"""PostgreSQL types that accept text without a cast."""
_ELEMENTS = ("text", "smallint", "integer", "bigint", "numeric", "boolean", "uuid", "inet")
_LOSSLESS = {
    "uuid": "true",
    "jsonb": "true",
    "inet": "true",
    "cidr": "true",
    "macaddr": "true",
    "macaddr8": "true",
    **{f"{kind}[]": "true" for kind in _ELEMENTS},
    "time without time zone": r"{v} ~ '^\d{1,2}:\d{2}(:\d{2}([.]\d{1,6})?)?$'",
    "interval": r"{v} !~ '[.]\d{7}'",
}
"""PostgreSQL types that parse a text to the same value → the condition on the text.

Texts of any other type are compared with the text output of the type.
"""
_NUMBERS = ("boolean", "integer", "numeric", "double")
_POSTGRESQL = {
    "boolean": "CAST({v} AS boolean)",
    "integer": "CAST({v} AS numeric)",
    "numeric": "CAST({v} AS numeric)",
    "double": "CAST({v} AS double precision)",
    "date": "CAST({v} AS date)",
    "instant": "CAST({v} AS timestamp with time zone)",
    "wall": "CAST({v} AS timestamp without time zone)",
    "binary": "{v}",
}
_MARIADB = {
    "boolean": "{v} + 0",
    "integer": "{v} + 0",
    "numeric": "CAST({v} AS DECIMAL(65, {scale}))",
    "double": "CAST({v} AS DOUBLE)",
    "date": "{v}",
    "instant": "CAST({v} AS DATETIME(6))",
    "wall": "CAST({v} AS DATETIME(6))",
    "binary": "CAST({v} AS BINARY)",
    "text": "CAST(CAST({v} AS CHAR CHARACTER SET utf8mb4) AS BINARY)",
}


@dataclass(frozen=True, slots=True)
class Move:
    """A staged column, and the column of the target that receives its values."""

    staged: "Column[Any]"
    target: "Column[Any]"
    value: "ColumnElement[Any]"
    """The inserted expression of the staged value; its table is the alias passed to `list_moves`.
    """
    sent: str
    found: str
    """Expressions of the staged and the published value, equal if nothing was lost; `{v}` is the
    column.
    """
    is_proven: bool
    """True if the database cannot change the value, by the declarations of both columns, or if its
    catalog is not known.
    """
    unchanged: str | None
    """A condition on the staged value, `{v}`, under which the database stores it unchanged, by the
    declarations; NULL always is. None if there is no such condition.
    """
    declared: str


def list_moves(
    conn: "Connection", source: "FromClause", target: "Table", names: Sequence[str] | None = None
) -> tuple[Move, ...]:
    """Return the moves of the named columns, by default all, of an alias of a staging table."""
    alias: Any = source
    staging: Table = alias.element
    given = _read_declarations(conn, staging)
    known = _read_declarations(conn, target)
    stores = has_declarations(conn.dialect.name) and stores_what_it_is_given(conn, target)
    return tuple(
        _move(conn, column, source, target, (given, known), stores=stores)
        for column in staging.columns
        if names is None or column.name in names
    )


def _read_declarations(conn: "Connection", table: "Table") -> Mapping[str, Declaration]:
    return declarations(conn, table) if has_declarations(conn.dialect.name) else {}


def _move(
    conn: "Connection",
    staged: "Column[Any]",
    source: "FromClause",
    target: "Table",
    known: tuple[Mapping[str, Declaration], Mapping[str, Declaration]],
    *,
    stores: bool,
) -> Move:
    """Return the move of one column; `known` holds the declarations of both tables' columns."""
    from sqlalchemy import literal_column

    column = column_of(target, staged.name)
    ours, theirs = (declared.get(staged.name.lower()) for declared in known)
    backend, kind = conn.dialect.name, _kind(staged)
    base = theirs.kind if theirs else ""
    inserted = "{v}"
    if kind == "text" and backend == "postgresql" and base and base not in _ASSIGNABLE:
        inserted = f"CAST({{v}} AS {base})"
    elif kind == "text" and backend in MARIADB and base == "bit":
        inserted = "CAST({v} AS UNSIGNED)"
    elif _is_label(backend, kind, base):
        inserted = "CAST({v} AS CHAR)"
    value = source.c[staged.name]
    if inserted != "{v}":
        value = literal_column(fill_template(conn, inserted, value), column.type)
    scale = max(getattr(each.type, "scale", None) or 0 for each in (staged, column))
    sent, found = _build_comparison(backend, kind, base)
    return Move(
        staged,
        column,
        value,
        sent.replace("{scale}", str(scale)),
        found.replace("{scale}", str(scale)),
        is_proven=not has_declarations(backend)
        or (stores and theirs is not None and ours == theirs),
        unchanged=_build_unchanged_condition(kind, ours, theirs) if stores else None,
        declared=theirs.text if theirs else str(column.type),
    )


def _build_unchanged_condition(
    kind: str, ours: Declaration | None, theirs: Declaration | None
) -> str | None:
    if kind != "text" or ours is None or theirs is None or theirs.holds is None:
        return None
    if ours.collation != theirs.collation:
        return None
    return f"CHAR_LENGTH({{v}}) <= {theirs.holds}"


def fill_template(conn: "Connection", template: str, column: "ColumnElement[Any]") -> str:
    """Fill a template with a column of an alias."""
    found: Any = column
    return template.replace("{v}", f"{found.table.name}.{plain_quoted(conn, found.name)}")


def _kind(staged: "Column[Any]") -> str:
    """Return the kind of a staged column, by the type that `define` gave it."""
    import sqlalchemy as sa

    from logdriven_dagster.engine.databases.connections import holds_instants

    if isinstance(staged.type, sa.DateTime):
        return "instant" if holds_instants(staged.type) else "wall"
    families: tuple[tuple[type[Any], str], ...] = (
        (sa.Boolean, "boolean"),
        (sa.Integer, "integer"),
        (sa.Float, "double"),
        (sa.Numeric, "numeric"),
        (sa.Date, "date"),
        (sa.LargeBinary, "binary"),
    )
    is_binary = getattr(staged.type, "__visit_name__", "") == "LONGBLOB"
    found = (name for family, name in families if isinstance(staged.type, family))
    return "binary" if is_binary else next(found, "text")


def _is_label(backend: str, kind: str, base: str) -> bool:
    """Return True for a number that MariaDB would take as the position of a label."""
    return backend in MARIADB and base in ("enum", "set") and kind in _NUMBERS


def _build_comparison(backend: str, kind: str, base: str) -> tuple[str, str]:
    """Return the expressions of a staged and a published value that are equal if the values are."""
    if backend == "sqlite" or not has_declarations(backend):
        return "quote({v})", "quote({v})"
    if kind == "date" and base.startswith(("timestamp", "datetime")):
        kind = "wall"  # a day is its midnight
    if _is_label(backend, kind, base):
        kind = "text"
    if backend in MARIADB:
        found = "CAST({v} + 0 AS CHAR)" if base == "bit" else _MARIADB[kind]
        return _MARIADB[kind], found
    if kind == "integer" and base == "oid":
        return _POSTGRESQL[kind], "CAST(CAST({v} AS bigint) AS numeric)"
    if kind != "text":
        return _POSTGRESQL[kind], _POSTGRESQL[kind]
    # Casting blank-padded text would strip its blanks, which no reader does.
    found = "CAST(bpcharout({v}) AS text)" if base == "bpchar" else "CAST({v} AS text)"
    sent = "CAST({v} AS text)"
    if base in _LOSSLESS:
        parsed = f"CAST(CAST({{v}} AS {base}) AS text)"
        sent = f"CASE WHEN {_LOSSLESS[base]} THEN {parsed} ELSE {{v}} END"
    # Other collations may treat different texts as equal.
    return f'({sent}) COLLATE "C"', f'({found}) COLLATE "C"'
