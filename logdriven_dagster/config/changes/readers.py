"""Readers of a changed table: the downstream tables and columns that see a change of it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from logdriven_dagster.config.changes.canonical import parse_exactly
from logdriven_dagster.config.changes.fields import Effect
from logdriven_dagster.config.changes.tables import TableChange
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.column_lineage import trace_lineage
from logdriven_dagster.config.sql.references import UnreadableSqlError
from logdriven_dagster.model.lineage import Container, Query

_Changed: TypeAlias = frozenset[str] | None
"""Lower-case names of changed columns; None: the rows themselves, and so every column."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A downstream table that sees a change."""

    table: str
    columns: tuple[str, ...] | None
    """The columns that see it; None: all rows."""
    through: str | None
    """The table through which it sees it; None if it reads the changed table itself."""


def find_changed_columns(changes: Sequence[TableChange]) -> _Changed:
    """Return the columns of a table that several changes concern; none if no reader sees any."""
    found: set[str] = set()
    for change in changes:
        if not change.ages_windows:
            continue
        if change.columns is None:
            return None
        found |= {name.lower() for name in change.columns}
    return frozenset(found)


def find_readers(
    project: Project, table: str, changes: Sequence[TableChange]
) -> tuple[Reader, ...]:
    """Return the downstream tables that see the changes of a table, in running order.

    A query that cannot be traced sees every change of the tables that it reads.
    """
    is_additive = all(c.effect is Effect.ADDITIVE for c in changes if c.ages_windows)
    changed: dict[str, _Changed] = {table: find_changed_columns(changes)}
    if changed[table] == frozenset():
        return ()
    found = []
    for name, reader in project.tables.items():  # upstreams first
        inputs = {
            dependency.table: changed[dependency.table]
            for dependency in reader.table_dependencies
            if dependency.table in changed and dependency.read != "none"
        }
        if not inputs or name == table:
            continue
        new = is_additive and set(inputs) == {table}
        columns = _find_affected(project, reader, inputs, by_star_only=new)
        if columns != frozenset():
            changed[name] = columns
            through = next((each for each in inputs if each != table), None)
            direct = None if table in inputs else through
            shown = None if columns is None else tuple(sorted(columns))
            found.append(Reader(name, shown, direct))
    return tuple(found)


def _find_affected(
    project: Project, table: TableConfig, inputs: Mapping[str, _Changed], *, by_star_only: bool
) -> _Changed:
    """Return the columns of a table that see changes of its inputs.

    `by_star_only` is true for new columns, which only a `*` reads.
    """
    known: dict[str, _Changed] = {name.lower(): columns for name, columns in inputs.items()}
    result: _Changed = frozenset()
    for step in table.steps:
        sql = project.step_sql(table, step)
        if step.python is not None or sql is None:
            # A function may read any table. A source without a query reads no managed one.
            affected: _Changed = None if step.python is not None else frozenset()
        else:
            affected = _trace_query(table, sql, known, by_star_only=by_star_only)
        known[step.step.lower()] = affected
        if step.target is not None:
            result = affected
    return result


def _trace_query(
    table: TableConfig, sql: str, known: Mapping[str, _Changed], *, by_star_only: bool
) -> _Changed:
    """Return the columns of a query's result that see changes of the tables that it reads."""
    from sqlglot import exp

    try:
        tree = parse_exactly(sql)
    except UnreadableSqlError:
        return None
    read = {
        ".".join(part.name for part in each.parts).lower() for each in tree.find_all(exp.Table)
    } & {name for name, columns in known.items() if columns != frozenset()}
    if not read:
        return frozenset()
    if any(known[name] is None for name in read):
        return None
    names = frozenset[str]().union(*(known[name] or () for name in read))
    stars = [star for star in tree.find_all(exp.Star) if not isinstance(star.parent, exp.Count)]
    if stars:
        return None if not by_star_only else names
    if by_star_only or not _mentions(tree, names):
        return frozenset()
    if _decides_rows(tree, names):
        return None
    return _trace_columns(table, sql, tree, {name: known[name] or frozenset() for name in read})


def _mentions(tree: Any, names: Collection[str]) -> bool:
    from sqlglot import exp

    columns = (column.name.lower() for column in tree.find_all(exp.Column))
    return any(name in names for name in columns)


def _decides_rows(tree: Any, names: Collection[str]) -> bool:
    """Return True if a name is used outside of the columns of SELECT, such as in a filter."""
    from sqlglot import exp

    for column in tree.find_all(exp.Column):
        if column.name.lower() not in names:
            continue
        node = column
        while node.parent is not None and not isinstance(node.parent, exp.Select):
            node = node.parent
        if node.parent is None or node.arg_key != "expressions":
            return True
        if node.parent.args.get("distinct") is not None:
            return True
    return any(isinstance(each, exp.SetOperation) for each in tree.walk())


def _trace_columns(
    table: TableConfig, sql: str, tree: Any, known: Mapping[str, frozenset[str]]
) -> _Changed:
    names = [each.alias_or_name for each in tree.selects]
    if not all(names):
        return None
    containers = {name: Container(name) for name in known}
    query = Query(
        table.table, "changed", "spark", sql, Container(table.table), tuple(names), containers
    )
    lineage = trace_lineage(query, {})
    if lineage.absent:
        return None
    changed = {(name, column) for name, columns in known.items() for column in columns}
    found = set()
    for column in lineage.columns:
        refs = {(ref.container.name.lower(), (ref.column or "").lower()) for ref in column.origins}
        if refs & changed:
            found.add(column.column)
    # A changed column that the query uses has an effect; if none is found, it was not traced.
    return frozenset(found) if found else None
