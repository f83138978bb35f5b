"""What a query's WHERE says of one of its tables alone. Offline, by sqlglot.

Spark moves such conditions down to the table; so a table's rows behind them are what it delivers.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from logdriven_dagster.config.sql.references import named_tables, parse_query, span


@dataclass(frozen=True, slots=True)
class TableUse:
    """One place where a query reads a table."""

    table: str
    """The name as it is written, without backticks."""
    start: int
    end: int
    """Where the name stands in the text."""
    alias: str
    """The name that its columns may be qualified by."""
    has_alias: bool
    """Whether the query gives that alias itself."""
    condition: str
    """What the query's own text demands of each of its rows; empty if nothing is known."""


def table_uses(
    sql: str, tables: Collection[str], columns: Callable[[str], Collection[str]]
) -> list[TableUse]:
    """Return the places where a query reads one of these tables, of which `columns` are known.

    Only deterministic conditions count that hold wherever they are evaluated: below an outer join
    those of its preserved side. Raises UnreadableSqlError.
    """
    wanted = {name.lower(): name for name in tables}
    return [
        TableUse(
            table=wanted[name.lower()],
            start=span(node)[0],
            end=span(node)[1],
            alias=node.alias or node.name,
            has_alias=bool(node.alias),
            condition=" AND ".join(
                f"({text})" for text in _own(sql, node, wanted[name.lower()], columns)
            ),
        )
        for name, node in named_tables(parse_query(sql))
        if name.lower() in wanted
    ]


def reads_whole(sql: str, tables: Collection[str]) -> bool:
    """Whether a query reads these tables, each row once where it names a table, and nothing else.

    A LIMIT makes it an accident how many rows are looked at. Spark reads what it sorts twice, and
    may read the sides of a join without an equation many times.
    """
    from sqlglot import exp

    tree = parse_query(sql)
    functions = [node for node in tree.find_all(exp.Table) if isinstance(node.this, exp.Func)]
    names = {name for name, _ in named_tables(tree)}
    is_sorted = any(isinstance(node.parent, exp.Query) for node in tree.find_all(exp.Order))
    is_sorted |= "REPARTITION_BY_RANGE" in sql.upper()
    joined = all(map(_has_equation, tree.find_all(exp.Join)))
    ends_early = tree.find(exp.Limit, exp.Fetch) is not None
    return joined and not (functions or is_sorted or ends_early) and names <= set(tables)


def _has_equation(join) -> bool:  # type: ignore[no-untyped-def]
    """Whether a join has one, or joins with rows of the query's own text."""
    from sqlglot import exp

    if join.args.get("using") or join.method == "NATURAL" or not join.this.find(exp.Table):
        return True
    condition = join.args.get("on")
    return condition is not None and condition.find(exp.EQ, exp.NullSafeEQ) is not None


def _own(sql, node, table, columns) -> Iterator[str]:  # type: ignore[no-untyped-def]
    """The conjuncts of the WHERE beside a table that speak of its columns only."""
    if not _is_filtered_first(node) or not (where := node.parent.parent.args.get("where")):
        return
    known = {name.lower() for name in columns(table)}
    alias = (node.alias or node.name).lower()
    texts = _texts(sql[span(node)[1] :])
    trees = (
        list(where.this.flatten(unnest=False))
        if type(where.this).__name__ == "And"
        else [where.this]
    )
    if list(map(_parsed, texts)) != trees:
        texts, trees = [" AND ".join(texts)], [where.this]
    for text, tree in zip(texts, trees, strict=True):
        if _parsed(text) == tree and _is_own(tree, alias, known):
            yield text


def _is_filtered_first(node) -> bool:  # type: ignore[no-untyped-def]
    """Whether a condition on the joined rows may as well be asked of the table's own."""
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


def _texts(behind: str) -> list[str]:
    """What stands between the ANDs of the WHERE that follows, be it a conjunction or not.

    `behind` begins inside of a FROM.
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


def _parsed(condition: str):  # type: ignore[no-untyped-def]
    """The tree of a condition; None if the text is none."""
    from sqlglot import parse_one
    from sqlglot.errors import SqlglotError

    try:
        return parse_one(f"SELECT 1 WHERE {condition}", read="spark").args["where"].this
    except SqlglotError:
        return None


def _is_own(condition, alias: str, columns: Collection[str]) -> bool:  # type: ignore[no-untyped-def]
    """Whether a condition is one of these columns alone, and the same whenever it is asked."""
    from sqlglot import exp

    # What sqlglot does not know may be anybody's function, and different at each call.
    if condition.find(exp.Query, exp.Anonymous, exp.Rand, exp.Randn, exp.Uuid):
        return False
    for column in condition.find_all(exp.Column):
        *qualifier, name = (part.name.lower() for part in column.parts)
        if name not in columns or qualifier not in ([], [alias]):
            return False
    return True
