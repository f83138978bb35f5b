"""Conditions in a query's WHERE that concern a single table.

Spark pushes such predicates down to the table, so its reader delivers only the filtered rows.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from logdriven_dagster.config.sql.references import find_named_tables, get_span, parse_query


@dataclass(frozen=True, slots=True)
class TableUse:
    """One place where a query reads a table."""

    table: str
    """Table name as written, without backticks."""
    start: int
    end: int
    """End of the name in the text."""
    alias: str
    """Alias that may qualify its columns."""
    has_alias: bool
    """True if the query declares that alias explicitly."""
    condition: str
    """Condition that the query requires of each row; empty if none is known."""


def find_table_uses(
    sql: str, tables: Collection[str], columns: Callable[[str], Collection[str]]
) -> list[TableUse]:
    """Return the places where a query reads one of `tables`, with the conditions on each.

    `columns` returns the columns of a table. Includes only deterministic conditions that may be
    evaluated anywhere: below an outer join, those of its preserved side. Raises UnreadableSqlError.
    """
    wanted = {name.lower(): name for name in tables}
    return [
        TableUse(
            table=wanted[name.lower()],
            start=get_span(node)[0],
            end=get_span(node)[1],
            alias=node.alias or node.name,
            has_alias=bool(node.alias),
            condition=" AND ".join(
                f"({text})" for text in _find_own_filters(sql, node, wanted[name.lower()], columns)
            ),
        )
        for name, node in find_named_tables(parse_query(sql))
        if name.lower() in wanted
    ]


def reads_whole(sql: str, tables: Collection[str]) -> bool:
    """Return True if a query reads only these tables, and each row once per mention of its table.

    A LIMIT makes the number of rows read arbitrary. Spark reads sorted input twice, and may read
    the sides of a join without an equality several times.
    """
    from sqlglot import exp

    tree = parse_query(sql)
    functions = [node for node in tree.find_all(exp.Table) if isinstance(node.this, exp.Func)]
    names = {name for name, _ in find_named_tables(tree)}
    is_sorted = any(isinstance(node.parent, exp.Query) for node in tree.find_all(exp.Order))
    is_sorted |= "REPARTITION_BY_RANGE" in sql.upper()
    joined = all(map(_has_equation, tree.find_all(exp.Join)))
    ends_early = tree.find(exp.Limit, exp.Fetch) is not None
    return joined and not (functions or is_sorted or ends_early) and names <= set(tables)


def _has_equation(join) -> bool:  # type: ignore[no-untyped-def]
    """Return True if a join has an equality, or joins rows that are literals of the query."""
    from sqlglot import exp

    if join.args.get("using") or join.method == "NATURAL" or not join.this.find(exp.Table):
        return True
    condition = join.args.get("on")
    return condition is not None and condition.find(exp.EQ, exp.NullSafeEQ) is not None


def _find_own_filters(sql, node, table, columns) -> Iterator[str]:  # type: ignore[no-untyped-def]
    """Yield the conjuncts of the WHERE that use only columns of this table."""
    if not _is_filtered_first(node) or not (where := node.parent.parent.args.get("where")):
        return
    known = {name.lower() for name in columns(table)}
    alias = (node.alias or node.name).lower()
    texts = _split_texts(sql[get_span(node)[1] :])
    trees = (
        list(where.this.flatten(unnest=False))
        if type(where.this).__name__ == "And"
        else [where.this]
    )
    if list(map(_parse_condition, texts)) != trees:
        texts, trees = [" AND ".join(texts)], [where.this]
    for text, tree in zip(texts, trees, strict=True):
        if _parse_condition(text) == tree and _is_own(tree, alias, known):
            yield text


def _is_filtered_first(node) -> bool:  # type: ignore[no-untyped-def]
    """Return True if a condition on the joined rows may be evaluated on the table's own rows."""
    from sqlglot import exp

    clause = node.parent
    if not isinstance(clause, exp.From | exp.Join) or not isinstance(clause.parent, exp.Select):
        return False
    joins = clause.parent.args.get("joins") or ()
    if any(join.side not in ("", "LEFT") or join.method for join in joins):
        return False
    inner = isinstance(clause, exp.Join) and not clause.side and clause.kind in _INNER
    return isinstance(clause, exp.From) or inner


_INNER = ("", "INNER", "CROSS")


def _split_texts(behind: str) -> list[str]:
    """Return the texts between the ANDs of the WHERE that follows, conjunction or not.

    `behind` begins inside a FROM clause.
    """
    from sqlglot import tokenize

    depth, begun, between = 0, -1, False
    end, found = len(behind), list[str]()
    for token in tokenize(behind, read="spark"):
        kind = token.token_type.name
        depth += (kind == "L_PAREN") - (kind == "R_PAREN")
        if depth < 0 or (depth == 0 and kind in _ENDS):
            end = token.start
            break
        if depth == 0 and kind == "WHERE":
            begun = token.end + 1
        elif depth == 0 and begun >= 0:
            if kind == "AND" and not between:
                found.append(behind[begun : token.start].strip())
                begun = token.end + 1
            between = kind == "BETWEEN" or (between and kind != "AND")
    return [*found, behind[begun:end].strip()] if begun >= 0 else []


_ENDS = {
    *("GROUP_BY", "HAVING", "ORDER_BY", "WINDOW", "LIMIT", "FETCH", "OFFSET", "QUALIFY", "UNION"),
    *("EXCEPT", "INTERSECT", "CLUSTER_BY", "DISTRIBUTE_BY", "SORT_BY", "SEMICOLON"),
}


def _parse_condition(condition: str):  # type: ignore[no-untyped-def]
    """Parse a condition; returns None if it is not valid."""
    from sqlglot import parse_one
    from sqlglot.errors import SqlglotError

    try:
        return parse_one(f"SELECT 1 WHERE {condition}", read="spark").args["where"].this
    except SqlglotError:
        return None


def _is_own(condition, alias: str, columns: Collection[str]) -> bool:  # type: ignore[no-untyped-def]
    """Return True if a condition is deterministic and uses only these columns."""
    from sqlglot import exp

    # An unknown function may be user-defined and non-deterministic.
    if condition.find(exp.Query, exp.Anonymous, exp.Rand, exp.Randn, exp.Uuid):
        return False
    for column in condition.find_all(exp.Column):
        *qualifier, name = (part.name.lower() for part in column.parts)
        if name not in columns or qualifier not in ([], [alias]):
            return False
    return True
