"""Scripts of a transformation that may run at publication instead of before the read."""

from collections.abc import Sequence

from logdriven_dagster.config.sql.committing import find_ending_statement
from logdriven_dagster.config.sql.references import (
    UnreadableSqlError,
    find_named_tables,
    parse_query,
)
from logdriven_dagster.plugins.importers.drafts import Values


def can_wait(
    scripts: Sequence[Values],
    source: Values,
    target: Values,
    dialect_read: str | None,
    dialect_written: str | None,
) -> bool:
    """Return True if the scripts change only the target, which the source does not read.

    The dialects are sqlglot's names for the databases of the source and the target.
    """
    table, connection = target["table"], target["connection"]
    if any(script["connection"] != connection for script in scripts):
        return False
    if source["connection"] == connection and _may_read(source["query"], table, dialect_read):
        return False
    texts = [sql for script in scripts for sql in script["sql"]]
    return all(_changes_only(sql, table, dialect_written) for sql in texts)


def find_order(query: str, dialect: str | None) -> list[tuple[str, bool]] | None:
    """Return the columns of a query's ORDER BY, in lower case, and True for descending ones.

    Returns None if it orders by expressions, or cannot be parsed.
    """
    from sqlglot import exp

    try:
        order = parse_query(query, dialect).args.get("order")
    except UnreadableSqlError:
        return None
    names = []
    for each in order.expressions if order is not None else ():
        if not isinstance(each, exp.Ordered) or not isinstance(each.this, exp.Column):
            return None
        names.append((each.this.name.lower(), bool(each.args.get("desc"))))
    return names


def find_columns(query: str, dialect: str | None) -> list[str] | None:
    """Return the columns of a query; None if it selects `*`, an expression, or cannot be parsed."""
    from sqlglot import exp

    try:
        tree = parse_query(query, dialect)
    except UnreadableSqlError:
        return None
    if not isinstance(tree, exp.Select) or any(not each for each in tree.named_selects):
        return None
    return None if "*" in tree.named_selects else list(tree.named_selects)


def _may_read(query: str, table: str, dialect: str | None) -> bool:
    try:
        names = [name for name, _ in find_named_tables(parse_query(query, dialect))]
    except UnreadableSqlError:
        return True
    return _plain(table) in {_plain(name) for name in names}


def _plain(name: str) -> str:
    """Return the name without its schema, which may be omitted."""
    return name.rpartition(".")[2].lower()


def _changes_only(statement: str, table: str, dialect: str | None) -> bool:
    """Return True if the statement reads and changes only rows of one table."""
    from sqlglot import exp

    try:
        tree = parse_query(statement, dialect)
    except UnreadableSqlError:
        return False
    if not isinstance(tree, exp.Delete | exp.Insert | exp.TruncateTable | exp.Update):
        return False
    # A database function may read anything.
    others = {name.lower() for name, _ in find_named_tables(tree)} != {table.lower()}
    return not others and tree.find(exp.Anonymous) is None


def deleting(statement: str, backend: str | None) -> str:
    """Return the statement, or DELETE FROM instead of a TRUNCATE that commits implicitly."""
    if backend is None or find_ending_statement(statement, backend) != "TRUNCATE":
        return statement
    from sqlglot import exp

    (table,) = parse_query(statement, "mysql").find_all(exp.Table)
    return f"DELETE FROM {table.sql('mysql')}"  # noqa: S608 - a name of the script
