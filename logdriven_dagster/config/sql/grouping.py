"""The columns by which a query groups its rows."""

from typing import Any

from logdriven_dagster.config.sql.references import UnreadableSqlError, parse_query


def find_grouping(sql: str) -> tuple[str, ...]:
    """Return the grouping columns of a query's result; none if the query has no GROUP BY.

    Within one window they identify a row if the result has all columns of GROUP BY.
    """
    from sqlglot import exp

    try:
        tree: Any = parse_query(sql)
    except UnreadableSqlError:
        return ()
    if not isinstance(tree, exp.Select) or tree.args.get("group") is None:
        return ()
    if any(isinstance(each, exp.Star) or not each.alias_or_name for each in tree.selects):
        return ()
    return tuple(
        each.alias_or_name
        for each in tree.selects
        if not any(True for _ in each.find_all(exp.AggFunc, exp.Anonymous, exp.Window))
    )
