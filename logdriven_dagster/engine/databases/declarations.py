"""Column declarations of a table, from the database's own catalog."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logdriven_dagster.engine.databases.tables import plain_quoted
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

MARIADB = ("mysql", "mariadb")
_POSTGRESQL = """
    SELECT a.attname, format_type(t.oid, -1), NULLIF(c.collname, 'default'),
        concat_ws(' ', format_type(a.atttypid, a.atttypmod), NULLIF(c.collname, 'default'),
            NULLIF(a.attidentity, ''), NULLIF(a.attgenerated, '')),
        CASE WHEN a.attgenerated <> '' THEN NULL
            WHEN a.atttypid = 'varchar'::regtype THEN COALESCE(NULLIF(a.atttypmod, -1) - 4, 1 << 30)
        END
    FROM pg_attribute a
    JOIN pg_type given ON given.oid = a.atttypid
    JOIN pg_type t ON t.oid = COALESCE(NULLIF(given.typbasetype, 0), given.oid)
    LEFT JOIN pg_collation c ON c.oid = a.attcollation
    WHERE a.attrelid = to_regclass(:quoted) AND a.attnum > 0 AND NOT a.attisdropped
"""
# Strict servers refuse NULL in a NOT NULL column, but a TIMESTAMP stores the current time instead.
# The limit of TEXT columns is in bytes; a character has at most four.
_MARIADB = """
    SELECT COLUMN_NAME, DATA_TYPE, COLLATION_NAME,
        CONCAT_WS(' ', COLUMN_TYPE, COLLATION_NAME,
            IF(IS_NULLABLE = 'NO' AND DATA_TYPE = 'timestamp', 'NOT NULL', NULL),
            NULLIF(EXTRA, '')),
        CASE WHEN EXTRA <> '' THEN NULL
            WHEN DATA_TYPE = 'varchar' THEN CHARACTER_MAXIMUM_LENGTH
            WHEN DATA_TYPE LIKE '%text' THEN CHARACTER_OCTET_LENGTH DIV 4
        END
    FROM information_schema.COLUMNS
    WHERE TABLE_SCHEMA = COALESCE(:schema, DATABASE()) AND TABLE_NAME = :name
"""
_SQLITE = """
    SELECT name, lower(type), NULL, type || CASE WHEN pk > 0 THEN ' PRIMARY KEY' ELSE '' END, NULL
    FROM pragma_table_xinfo(:name, :schema)
"""
_COLUMNS = {
    "postgresql": _POSTGRESQL,
    "mysql": _MARIADB,
    "mariadb": _MARIADB,
    "sqlite": _SQLITE,
}
_PLAIN_MARIADB = """
    SELECT 1 FROM information_schema.TABLES t
    WHERE t.TABLE_SCHEMA = COALESCE(:schema, DATABASE()) AND t.TABLE_NAME = :name
    AND t.TABLE_TYPE = 'BASE TABLE' AND NOT EXISTS (
        SELECT 1 FROM information_schema.TRIGGERS g
        WHERE g.EVENT_OBJECT_SCHEMA = t.TABLE_SCHEMA AND g.EVENT_OBJECT_TABLE = t.TABLE_NAME
    ) AND (
        EXISTS (SELECT 1 FROM information_schema.USER_PRIVILEGES p
            WHERE p.PRIVILEGE_TYPE = 'TRIGGER' AND p.GRANTEE = :grantee)
        OR EXISTS (SELECT 1 FROM information_schema.SCHEMA_PRIVILEGES p
            WHERE p.PRIVILEGE_TYPE = 'TRIGGER' AND p.GRANTEE = :grantee
            AND REPLACE(p.TABLE_SCHEMA, '\\\\', '') = t.TABLE_SCHEMA)
        OR EXISTS (SELECT 1 FROM information_schema.TABLE_PRIVILEGES p
            WHERE p.PRIVILEGE_TYPE = 'TRIGGER' AND p.GRANTEE = :grantee
            AND p.TABLE_SCHEMA = t.TABLE_SCHEMA AND p.TABLE_NAME = t.TABLE_NAME)
    )
"""
_PLAIN = {
    "postgresql": """
        SELECT 1 FROM pg_class WHERE oid = to_regclass(:quoted) AND relkind = 'r'
        AND NOT relhastriggers AND NOT relhasrules AND NOT relrowsecurity
    """,
    "mysql": _PLAIN_MARIADB,
    "mariadb": _PLAIN_MARIADB,
    "sqlite": """
        SELECT 1 FROM sqlite_master t WHERE t.name = :name AND t.type = 'table' AND NOT EXISTS (
            SELECT 1 FROM sqlite_master g WHERE g.type = 'trigger' AND g.tbl_name = :name)
    """,
}
_ENGINES = """
    SELECT t.TABLE_NAME, t.ENGINE FROM information_schema.TABLES t
    JOIN information_schema.ENGINES e ON e.ENGINE = t.ENGINE
    WHERE t.TABLE_SCHEMA = :schema AND t.TABLE_NAME = :name
    AND COALESCE(e.TRANSACTIONS, 'NO') <> 'YES'
"""
_VIEWS = """
    SELECT VIEW_DEFINITION FROM information_schema.VIEWS
    WHERE TABLE_SCHEMA = :schema AND TABLE_NAME = :name
"""
_TWO_NAMES = re.compile(r"`((?:[^`]|``)+)`[.]`((?:[^`]|``)+)`")
"""Schema and table, or alias and column, in the definition of a view."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """The declaration of a column; two columns with an equal `text` accept the same values."""

    kind: str
    """The type without length or precision; for a domain, its base type."""
    collation: str | None
    text: str
    holds: int | None
    """Number of characters up to which any text of the column's collation is stored unchanged; None
    if it is not known.
    """


def has_declarations(backend: str) -> bool:
    """Return whether the catalog of this kind of database is supported."""
    return backend in _COLUMNS


def declarations(conn: "Connection", table: "Table") -> Mapping[str, Declaration]:
    """Return declarations by lower-case column name; empty if there is no such table."""
    from sqlalchemy import text

    query = text(_COLUMNS[conn.dialect.name])
    known = {name: value for name, value in _names(conn, table).items() if f":{name}" in query.text}
    return {
        str(name).lower(): Declaration(kind, collation, declared, holds)
        for name, kind, collation, declared, holds in conn.execute(query, known)
    }


def collations_of(conn: "Connection", table: "Table") -> Mapping[str, str]:
    """Return the collations of a table's text columns, by which its keys are compared."""
    known = declarations(conn, table) if has_declarations(conn.dialect.name) else {}
    return {name: each.collation for name, each in known.items() if each.collation}


def stores_what_it_is_given(conn: "Connection", table: "Table") -> bool:
    """Return whether this is a table without triggers, rules and policies visible to this user.

    In MariaDB, only users with the privilege TRIGGER can verify that there are none.
    """
    from sqlalchemy import text

    query = text(_PLAIN[conn.dialect.name])
    known = _names(conn, table)
    if conn.dialect.name in MARIADB:
        user = str(conn.scalar(text("SELECT CURRENT_USER()")))
        known["grantee"] = "@".join(f"'{part}'" for part in user.rsplit("@", 1))
    known = {name: value for name, value in known.items() if f":{name}" in query.text}
    return conn.execute(query, known).first() is not None


def refuse_without_transactions(conn: "Connection", schema: str | None, *names: str) -> None:
    """Raise TerminalStepError for MariaDB tables whose storage engine has no transactions.

    Tables behind views of these names are checked, too.
    """
    from sqlalchemy import text

    if conn.dialect.name not in MARIADB:
        return
    in_schema = schema or str(conn.scalar(text("SELECT DATABASE()")))
    for each in _with_tables_of_views(conn, [(in_schema, name) for name in names]):
        found = conn.execute(
            text(_ENGINES), dict(zip(("schema", "name"), each, strict=True))
        ).first()
        if found is not None:
            name, engine = found
            raise TerminalStepError(
                f"{name}: the engine {engine} has no transactions, so a window that fails would "
                f"lose rows; change it with ALTER TABLE {name} ENGINE=InnoDB"
            )


def _with_tables_of_views(
    conn: "Connection", names: list[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yield the names, and all names in the definitions of views among them, with their schemas."""
    from sqlalchemy import text

    known, left = set(names), list(names)
    while left:
        schema, name = each = left.pop()
        yield each
        view = conn.scalar(text(_VIEWS), {"schema": schema, "name": name})
        pairs = {
            (a.replace("``", "`"), b.replace("``", "`")) for a, b in _TWO_NAMES.findall(view or "")
        }
        left += pairs - known
        known |= pairs


def _names(conn: "Connection", table: "Table") -> dict[str, str | None]:
    schema = table.schema or ("main" if conn.dialect.name == "sqlite" else None)
    return {
        "name": table.name,
        "schema": schema,
        "quoted": plain_quoted(conn, table.schema, table.name),
    }
