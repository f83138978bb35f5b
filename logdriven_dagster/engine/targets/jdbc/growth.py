"""Creating a JDBC target, and adding its missing columns."""

from typing import TYPE_CHECKING

from logdriven_dagster.engine.databases.tables import column_of, plain_quoted, reflect_table
from logdriven_dagster.engine.queries.schemas import WINDOW_START

if TYPE_CHECKING:
    from sqlalchemy import Engine, Table

LONGEST_NAME = 63


def grow_table(engine: "Engine", wanted: "Table", key: tuple[str, ...]) -> "Table":
    """Create the table, or add its missing columns, and return it as reflected."""
    from sqlalchemy import Index, text

    target = reflect_table(wanted.name, wanted.schema, engine)
    if target is None:
        if WINDOW_START in wanted.c:
            Index(f"ix_{wanted.name}{WINDOW_START}"[:LONGEST_NAME], wanted.c[WINDOW_START])
        if key:
            columns = [column_of(wanted, name) for name in key]
            Index(f"ix_{wanted.name}_key"[:LONGEST_NAME], *columns)
        wanted.create(engine, checkfirst=True)
        return wanted
    known = {column.name.lower() for column in target.columns}
    place = plain_quoted(engine, target.schema, target.name)
    for column in wanted.columns:
        if column.name.lower() not in known:
            added = f"{plain_quoted(engine, column.name)} {column.type.compile(engine.dialect)}"
            with engine.begin() as conn:
                conn.execute(text(f"ALTER TABLE {place} ADD COLUMN {added}".replace(":", "\\:")))
    grown = reflect_table(wanted.name, wanted.schema, engine)
    assert grown is not None
    return grown
