"""Rows that `writeMode=overwrite` replaces in tables of Spark's catalog.

Sharp ETL runs INSERT OVERWRITE. It replaces the partitions of its rows, or all rows of a table
without partitions. A workflow file does not contain the partitions. A column that holds a value of
the window in each row is the sign of partitions by window.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from logdriven_dagster.config.sql.references import UnreadableSqlError, parse_query
from logdriven_dagster.plugins.importers.sharpetl.parser import Workflow

if TYPE_CHECKING:
    from sqlglot import exp

_VALUE = "value_of_the_window"


def has_window_column(
    sql: str,
    names: Collection[str],
    temps: Mapping[str, str],
    among: Collection[str] | None = None,
) -> bool:
    """Return True if a column of the result has one value in all rows of a window.

    `names` are the variables that differ from window to window; `temps` has the queries of
    temporary tables by lower-case name, for `SELECT *`. The column must be one of `among`, in lower
    case, if it is given.
    """
    marked = re.sub("|".join(rf"\$\{{{re.escape(name)}\}}" for name in names), _VALUE, sql)
    try:
        tree = parse_query(marked)
    except UnreadableSqlError:
        return False
    return all(_selects_value(branch, names, temps, among) for branch in _list_branches(tree))


def list_temps(workflow: Workflow) -> dict[str, str]:
    """Return the queries of the workflow's temporary tables by lower-case name."""
    return {
        step.target.get("tableName").strip("`'\"").lower(): step.sql
        for step in workflow.steps
        if step.target.kind == "temp"
    }


def _list_branches(tree: "exp.Expr") -> "Iterator[exp.Expr]":
    """Yield the queries whose rows a UNION combines."""
    from sqlglot import exp

    if isinstance(tree, exp.SetOperation):
        yield from _list_branches(tree.left)
        yield from _list_branches(tree.right)
    else:
        yield tree.unnest()


def _selects_value(
    query: "exp.Expr",
    names: Collection[str],
    temps: Mapping[str, str],
    among: Collection[str] | None,
) -> bool:
    from sqlglot import exp

    if not isinstance(query, exp.Select):
        return False
    for column in query.selects:
        inputs = {each.name for each in column.find_all(exp.Column)}
        is_possible = among is None or column.alias_or_name.lower() in among
        if is_possible and _VALUE in column.sql() and inputs <= {_VALUE}:
            return True
    start = query.args.get("from_") or query.args.get("from")
    if not query.is_star or start is None or query.args.get("joins"):
        return False
    if isinstance(start.this, exp.Subquery):
        return all(_selects_value(b, names, temps, among) for b in _list_branches(start.this.this))
    name = start.this.name.lower()
    others = {key: value for key, value in temps.items() if key != name}
    return name in temps and has_window_column(temps[name], names, others, among)
