"""Reflection of a database's schema from its system catalog."""

import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.connections import Connection, describe_missing_driver
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.engine.reflection import Inspector
    from sqlalchemy.types import TypeEngine


@dataclass(frozen=True, slots=True)
class DatabaseColumn:
    """A column; `grows` is True if the database generates ascending values."""

    name: str
    kind: "TypeEngine[Any]"
    nullable: bool = True
    grows: bool = False
    comment: str = ""


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns that refer to rows of another table."""

    columns: tuple[str, ...]
    table: str


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table or view of a database, as described by its system catalog."""

    name: str
    schema: str | None
    columns: tuple[DatabaseColumn, ...]
    key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    comment: str = ""

    @property
    def label(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name

    def column(self, name: str) -> DatabaseColumn:
        return next(column for column in self.columns if column.name == name)


def open_database(connection: Connection) -> "Engine":
    """Connect to a database. Raises UsageError, without secrets, if it cannot be reached."""
    import sqlalchemy as sa
    from sqlalchemy.exc import SQLAlchemyError

    try:
        engine = sa.create_engine(connection.url, poolclass=sa.NullPool)
        with engine.connect():
            return engine
    except ImportError as error:
        problem = describe_missing_driver(error)
        raise UsageError(f"connection {connection.name} {problem}") from None
    except SQLAlchemyError as error:
        problem = redact(str(getattr(error, "orig", None) or error))
        raise UsageError(f"connection {connection.name} does not answer: {problem}") from None


def reflect(
    engine: "Engine", schema: str | None, wanted: Collection[str], kinds: Collection[str]
) -> list[SourceTable]:
    """Return the tables of a schema by name.

    `wanted` restricts them to some names, `kinds` to `table` or `view`. Raises UsageError for a
    schema or a wanted table that does not exist.
    """
    import sqlalchemy as sa
    from sqlalchemy.engine.reflection import ObjectKind

    inspector = sa.inspect(engine)
    if schema is not None and schema not in inspector.get_schema_names():
        known = ", ".join(sorted(inspector.get_schema_names()))
        raise UsageError(f"--schema: unknown schema {schema!r}; known: {known}")
    kind = ObjectKind.TABLE
    if "view" in kinds:
        kind |= ObjectKind.VIEW | ObjectKind.MATERIALIZED_VIEW
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sa.exc.SAWarning)  # unknown types are NullType
        found = {
            table.name: table for table in _tables(inspector, schema, kind, _parts(engine, schema))
        }
    if missing := sorted(set(wanted) - found.keys()):
        hint = "" if "view" in kinds else "; use --views to include views"
        raise UsageError(f"--tables: unknown table {', '.join(missing)}{hint}")
    return [found[name] for name in sorted(found) if not wanted or name in wanted]


def _tables(
    inspector: "Inspector", schema: str | None, kind: Any, left_out: Collection[str]
) -> Iterator[SourceTable]:
    keys = inspector.get_multi_pk_constraint(schema, kind=kind)
    foreign = inspector.get_multi_foreign_keys(schema, kind=kind)
    comments = _comments(inspector, schema, kind)
    for place, columns in inspector.get_multi_columns(schema, kind=kind).items():
        if place[1] in left_out:
            continue
        primary = keys.get(place)
        key = tuple(primary["constrained_columns"]) if primary else ()
        yield SourceTable(
            name=place[1],
            schema=schema,
            columns=tuple(_column(column, key, inspector.dialect.name) for column in columns),
            key=key,
            foreign_keys=tuple(_foreign_key(each) for each in foreign.get(place) or ()),
            comment=comments.get(place) or "",
        )


def _column(column: Mapping[str, Any], key: tuple[str, ...], dialect: str) -> DatabaseColumn:
    import sqlalchemy as sa

    sole_key = key == (column["name"],)
    serial = str(column.get("default") or "").startswith("nextval(")
    counted = column.get("autoincrement") is True
    # SQLite generates values of an INTEGER primary key that are not given.
    rowid = dialect == "sqlite" and sole_key and type(column["type"]) is sa.INTEGER
    return DatabaseColumn(
        name=column["name"],
        kind=column["type"],
        nullable=bool(column.get("nullable", True)) and column["name"] not in key,
        grows=bool(column.get("identity")) or serial or counted or rowid,
        comment=column.get("comment") or "",
    )


def _foreign_key(key: Mapping[str, Any]) -> ForeignKey:
    schema = key.get("referred_schema")
    table = f"{schema}.{key['referred_table']}" if schema else str(key["referred_table"])
    return ForeignKey(tuple(key["constrained_columns"]), table)


def _comments(inspector: "Inspector", schema: str | None, kind: Any) -> dict[Any, str | None]:
    try:
        found = inspector.get_multi_table_comment(schema, kind=kind)
    except NotImplementedError:  # SQLite has no comments
        return {}
    return {place: comment["text"] for place, comment in found.items()}


def _parts(engine: "Engine", schema: str | None) -> set[str]:
    """Return PostgreSQL's partitions, whose rows are read through their parent table."""
    import sqlalchemy as sa

    if engine.dialect.name != "postgresql":
        return set()
    query = sa.text(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relispartition AND n.nspname = COALESCE(:schema, current_schema())"
    )
    with engine.connect() as conn:
        return set(conn.scalars(query, {"schema": schema}))


def least(engine: "Engine", table: SourceTable, column: str) -> Any:
    """Return the smallest value of a column, or None in an empty table."""
    import sqlalchemy as sa

    origin = sa.table(table.name, sa.column(column), schema=table.schema)
    # As text, as SQLite stores it: columns declared as times may contain anything.
    query = sa.select(sa.func.min(origin.c[column])).select_from(origin)
    with engine.connect() as conn:
        return conn.scalar(query)
