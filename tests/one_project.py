"""A guard: every statement of ours on rows of a project says which project, or names the rows.

A statement that forgets it would read or change the rows of all projects on the log, and most tests
would not notice, since their logs hold one.
"""

import sys
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Column, CompoundSelect, Delete, Insert, Select, Table, Update
from sqlalchemy.sql import operators, visitors
from sqlalchemy.sql.elements import BinaryExpression
from sqlalchemy.sql.selectable import FromClause, Join

OF_ALL_PROJECTS = {
    "logdriven_dagster.runlog.homes": "looks for places of other projects, or removes a project",
    "logdriven_dagster.runlog.schema.migrating": "copies whole tables",
}
"""Modules whose statements are about the rows of several projects, and why."""


class AnotherProjectsRowsError(AssertionError):
    """A statement does not say whose rows it is about."""


def refuse(_conn: Any, statement: Any, *_: Any) -> None:
    """Refuse a statement of ours that may meet rows of another project."""
    is_checked = isinstance(statement, (Select, Update, Delete, CompoundSelect, Insert))
    if is_checked and (found := _unnamed_once(statement)) and (place := _place()):
        raise AnotherProjectsRowsError(f"{place}: {', '.join(found)}")


def unnamed(statement: Any) -> list[str]:
    """The tables of which a statement does not say whose rows it is about."""
    parts = [p for p in visitors.iterate(statement) if isinstance(p, (Select, Update, Delete))]
    found = [(p, source) for p in parts for source in _sources(p) if "project_id" in source.c]
    # A subquery may ask for rows next to those of an alias around it, which is bound there.
    bound = {id(source) for part, source in found if _is_bound(part, source)}
    return sorted(
        {
            source.description
            for part, source in found
            if not _is_bound(part, source)
            and (isinstance(source, Table) or id(source) not in bound)
        }
    )


_known: dict[int, tuple[Any, list[str]]] = {}


def _unnamed_once(statement: Any) -> list[str]:
    """Statements that are made once are looked at once."""
    if id(statement) not in _known:
        if len(_known) > 5_000:
            _known.clear()
        _known[id(statement)] = (statement, unnamed(statement))
    return _known[id(statement)][1]


def _sources(part: Select[Any] | Update | Delete) -> set[FromClause]:
    """The tables that a statement names itself, not by its subqueries."""
    if not isinstance(part, Select):
        return set(_flat(part.table))
    named = [*part.columns_clause_froms, *part._from_obj]
    named += [each for join in part._setup_joins for each in (join[0], join[2]) if each is not None]
    for condition in _conditions(part):
        named += condition._from_objects
    return {each for source in named for each in _flat(source)}


def _flat(source: FromClause) -> Iterator[FromClause]:
    if isinstance(source, Join):
        yield from _flat(source.left)
        yield from _flat(source.right)
    elif isinstance(getattr(source, "element", source), Table):
        yield source


def _is_bound(part: Any, source: FromClause) -> bool:
    keys = [column for column in source.c if column.primary_key]
    names = [source.c.project_id, *(keys if len(keys) == 1 else ())]
    return any(_restricts(condition, names) for condition in _conditions(part))


def _conditions(part: Any) -> Iterator[Any]:
    if part.whereclause is not None:
        yield part.whereclause
    if isinstance(part, Select):
        yield from (join[1] for join in part._setup_joins if join[1] is not None)
        for source in part._from_obj:
            yield from _of_joins(source)


def _of_joins(source: FromClause) -> Iterator[Any]:
    if isinstance(source, Join):
        yield source.onclause
        yield from _of_joins(source.left)
        yield from _of_joins(source.right)


def _restricts(condition: Any, columns: list[Column[Any]]) -> bool:
    """Whether a condition says that one of the columns is, or is among, certain values."""
    return any(
        isinstance(part, BinaryExpression)
        and part.operator in (operators.eq, operators.in_op)
        and any(side is column for side in (part.left, part.right) for column in columns)
        for part in _conjuncts(condition)
    )


def _conjuncts(condition: Any) -> Iterator[Any]:
    if getattr(condition, "operator", None) is operators.and_:
        for part in condition.clauses:
            yield from _conjuncts(part)
    elif hasattr(condition, "element") and type(condition).__name__ == "Grouping":
        yield from _conjuncts(condition.element)
    else:
        yield condition


def _place() -> str | None:
    """The module of ours that executes the statement; None where a test does, or it may."""
    frame = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__"))
        if name.startswith("tests.") and name != __name__:
            return None
        if name.startswith("logdriven_dagster.") and name != "logdriven_dagster.runlog.store":
            return None if name in OF_ALL_PROJECTS else f"{name}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return None
