"""Columns and functions that a query names and that do not exist, by sqlglot.

A name is unknown only if nothing in the whole query can define it: no table, alias, common table
expression or parameter of a lambda. Queries that define names in other ways (pivots, generators,
table functions, fields of all kinds of structs) are not examined.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from logdriven_dagster.config.sql.references import (
    UnreadableSqlError,
    find_named_tables,
    parse_query,
)
from logdriven_dagster.config.sql.spark_functions import FUNCTIONS

Columns: TypeAlias = frozenset[str]
"""Names of columns, as written."""

_GENERATORS = re.compile(
    r"\b(explode|posexplode|inline|stack|json_tuple|variant_explode)(_outer)?\s*\(", re.IGNORECASE
)
_NAMES_WITHOUT_COLUMN = """
current_catalog current_database current_date current_schema current_time current_timestamp
current_timezone current_user localtimestamp now session_user user default
microsecond microseconds millisecond milliseconds second seconds minute minutes hour hours
day days dayofyear week weeks month months quarter quarters year years _metadata
"""
_WITHOUT_COLUMN = frozenset(_NAMES_WITHOUT_COLUMN.split())
"""Functions, units of time and hidden columns that are parsed as columns."""


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A column or function that does not exist."""

    problem: str
    place: str
    """The place in the query, in brackets."""
    hint: str | None
    line: int
    """The line in the query, from 1."""

    def __str__(self) -> str:
        return f"{self.problem}{self.place}" + (f"; {self.hint}" if self.hint else "")


@dataclass(frozen=True, slots=True)
class ExaminedQuery:
    """The findings in one query."""

    unknown: tuple[UnknownName, ...] = ()
    columns: Columns | None = None
    """The columns that its result may have, or None if they are not known."""


def examine_query(
    sql: str, tables: Mapping[str, Columns | None], *, examines_functions: bool
) -> ExaminedQuery:
    """Find the unknown columns and functions of a query, all at once.

    `tables` maps lower-case names to the columns of the tables and steps that it may read; None if
    they are not known. `examines_functions` is False if there may be functions of users.
    """
    try:
        tree = parse_query(sql)
    except UnreadableSqlError:
        return ExaminedQuery()
    functions = tuple(_find_unknown_functions(sql, tree)) if examines_functions else ()
    known = _find_columns(sql, tree, tables)
    if known is None:
        return ExaminedQuery(functions, _list_result(tree, None))
    defined = _find_defined(tree)
    columns = _find_unknown_columns(sql, tree, known, defined)
    unknown = sorted((*columns, *functions), key=lambda name: (name.line, name.problem))
    return ExaminedQuery(tuple(unknown), _list_result(tree, known | defined))


def _find_columns(sql: str, tree: Any, tables: Mapping[str, Columns | None]) -> Columns | None:
    """Return the columns of all tables that a query reads; None if it may have others."""
    from sqlglot import exp

    unusual = (exp.Pivot, exp.Lateral, exp.Unnest, exp.Explode, exp.Posexplode, exp.Inline)
    if not isinstance(tree, exp.Query) or tree.find(*unusual) or _GENERATORS.search(sql):
        return None
    if any(isinstance(table.this, exp.Func) for table in tree.find_all(exp.Table)):
        return None
    if any(not values.alias_column_names for values in tree.find_all(exp.Values)):
        return None
    if _expands_struct(tree):
        return None
    found: set[str] = set()
    for name, _ in find_named_tables(tree):
        columns = tables.get(name.lower())
        if columns is None:
            return None
        found |= columns
    return frozenset(found)


def _expands_struct(tree: Any) -> bool:
    """Return True if a query selects all fields of a struct, such as `message.*`."""
    from sqlglot import exp

    relations = tree.find_all(exp.Table, exp.Subquery, exp.CTE)
    names = {relation.alias_or_name.lower() for relation in relations}
    stars = (column for column in tree.find_all(exp.Column) if column.is_star)
    return any(star.table and star.table.lower() not in names for star in stars)


def _find_defined(tree: Any) -> Columns:
    """Return the names that a query defines by itself."""
    from sqlglot import exp

    names: set[str] = set()
    for alias in tree.find_all(exp.Alias, exp.TableAlias, exp.Aliases):
        names.add(alias.alias or alias.name)
        for part in (*(alias.args.get("columns") or ()), *(alias.expressions or ())):
            names.add(part.name)
    for function in tree.find_all(exp.Lambda):
        names |= {part.name for part in function.expressions}
    for argument in tree.find_all(exp.Kwarg, exp.PropertyEQ):
        names.add(argument.this.name)
    return frozenset(filter(None, names))


def _find_unknown_columns(
    sql: str, tree: Any, known: Columns, defined: Columns
) -> Iterator[UnknownName]:
    from sqlglot import exp

    names = {name.lower() for name in (*known, *defined)} | _WITHOUT_COLUMN
    tables = {table.alias_or_name.lower() for table in tree.find_all(exp.Table)}
    reported = set()
    for column in tree.find_all(exp.Column):
        parts = [part.name for part in column.parts]
        is_field = len(parts) == 2 and parts[0].lower() not in tables
        name = parts[0] if is_field else parts[-1]
        if len(parts) > 2 or isinstance(column.this, exp.Star) or name.lower() in names:
            continue
        if isinstance(column.parent, (exp.Collate, exp.Dot)) or not column.parts[0].meta:
            continue
        if not name.isidentifier():
            continue  # Spark names unnamed columns by their text, such as `count(1)`
        start = column.parts[0].meta["start"]
        text = ".".join(parts)
        if "${" in sql[start : column.parts[-1].meta["end"] + 1] or text.lower() in reported:
            continue
        reported.add(text.lower())
        near = difflib.get_close_matches(name.lower(), sorted(each.lower() for each in known), n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else _list_known(known)
        yield UnknownName(f"unknown column {text}", _place(sql, start), hint, _line(sql, start))


def _find_unknown_functions(sql: str, tree: Any) -> Iterator[UnknownName]:
    from sqlglot import exp

    names = {str(call.this) for call in tree.find_all(exp.Anonymous)}
    for name in sorted(names):
        place = re.search(rf"(?<![\w.`]){re.escape(name)}\s*\(", sql)
        if place is None or name.lower() in FUNCTIONS:
            continue
        near = difflib.get_close_matches(name.lower(), sorted(FUNCTIONS), n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else None
        start = place.start()
        yield UnknownName(f"unknown function {name}", _place(sql, start), hint, _line(sql, start))


def _list_result(tree: Any, names: Columns | None) -> Columns | None:
    """Return the columns of a result; a star may select any of `names`, if they are known."""
    from sqlglot import exp

    while isinstance(tree, (exp.SetOperation, exp.Subquery)):
        tree = tree.this
    if not isinstance(tree, exp.Select):
        return None
    found: set[str] = set()
    for item in tree.selects:
        if item.is_star:
            if names is None:
                return None
            found |= names
        elif isinstance(item, (exp.Alias, exp.Column)):
            found.add(item.alias_or_name)
        else:
            return None  # Spark makes up a name
    return frozenset(found)


def _list_known(names: Iterable[str]) -> str | None:
    listed = sorted(names)
    return f"known: {', '.join(listed)}" if 0 < len(listed) <= _MOST_LISTED else None


_MOST_LISTED = 12


def _line(sql: str, start: int) -> int:
    return sql.count("\n", 0, start) + 1


def _place(sql: str, start: int) -> str:
    column = start - (sql.rfind("\n", 0, start) + 1) + 1
    return f" (line {_line(sql, start)}, column {column} of the query)"
