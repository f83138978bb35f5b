"""Queries for Sail: the types of their columns, and an equivalent query with safe values.

The list only covers typed values, so the columns of every table in a query must be known.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp

from logdriven_dagster.config.sql.references import parse_query
from logdriven_dagster.plugins.sail.supported_casts import UnprovenError
from logdriven_dagster.plugins.sail.supported_sql import COMPARED, JOINS, Type
from logdriven_dagster.plugins.sail.supported_values import Values, is_aggregate

Columns = Mapping[str, Type]
"""Columns by name, in their order."""

_SELECT = {"kind", "expressions", "from_", "joins", "where", "group", "having", "distinct", "with_"}
_TABLE = {"this", "db", "catalog", "alias"}
_JOIN = {"this", "on", "side", "kind"}
_TRY = re.compile(r"\btry_\w+\s*\(", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SafeQuery:
    """A query that returns the same rows on Sail as on Spark."""

    tree: exp.Expression
    columns: Columns
    is_projection: bool
    """True if each row of its single table yields exactly one row."""


def build_safe_query(sql: str, tables: Mapping[str, Columns]) -> SafeQuery:
    """Return a query over these tables in its safe form.

    Raises UnprovenError for a part that is not on the list, and UnreadableSqlError if sqlglot
    cannot parse the query.
    """
    if found := _TRY.search(sql):
        raise UnprovenError(f"the function {found[0].rstrip('( ').lower()}")
    _refuse_odd_texts(sql)
    tree = parse_query(sql)
    lowered = {name.lower(): columns for name, columns in tables.items()}
    columns = _convert_query(tree, lowered)
    return SafeQuery(tree, columns, _is_projection(tree))


def _refuse_odd_texts(sql: str) -> None:
    """Raise UnprovenError for text that sqlglot reads differently from Spark."""
    from sqlglot import tokenize
    from sqlglot.errors import TokenError

    try:
        tokens = tokenize(sql, read="spark")
    except TokenError:
        return  # `parse_query` reports the error
    for before, token in pairwise([None, *tokens]):
        kind = token.token_type.name if token else ""
        if kind.endswith("STRING") and token is not None:
            raw = sql[token.start : token.end + 1]
            beside = before is not None and before.token_type.name.endswith("STRING")
            if kind != "STRING" or beside or "''" in raw[1:-1] or '""' in raw[1:-1]:
                raise UnprovenError(f"the text {raw}")


def _convert_query(tree: exp.Expression, tables: Mapping[str, Columns]) -> Columns:
    if isinstance(tree, exp.Union):
        if tree.args.get("distinct") or set(_list_given(tree)) - {"this", "expression", "with_"}:
            raise UnprovenError("UNION other than UNION ALL")
        known = _convert_with(tree, tables)
        left, right = _convert_query(tree.this, known), _convert_query(tree.expression, known)
        if list(left.values()) != list(right.values()):
            raise UnprovenError("UNION ALL of different types")
        return left
    if isinstance(tree, exp.Subquery) and set(_list_given(tree)) <= {"this"}:
        return _convert_query(tree.this, tables)
    if not isinstance(tree, exp.Select):
        raise UnprovenError(tree.key.upper())
    return _convert_select(tree, tables)


def _list_given(tree: exp.Expression) -> Iterator[str]:
    return (name for name, value in tree.args.items() if value not in (None, False, []))


def _convert_select(tree: exp.Select, tables: Mapping[str, Columns]) -> Columns:
    _refuse_other_clauses(tree)
    scope = _Scope(_convert_with(tree, tables))
    scope.add(tree.args["from_"].this)
    values = Values(scope.type_of)
    for join in tree.args.get("joins") or ():
        _join(join, scope, values)
    if where := tree.args.get("where"):
        where.set("this", values.condition(where.this))
    _expand(tree, scope)
    groups = _find_groups(tree)
    columns = _convert_results(tree, values, groups)
    _group(tree, values)
    if having := tree.args.get("having"):
        _refuse_ungrouped(having.this, groups)
        having.set("this", values.condition(having.this))
    return columns


def _refuse_other_clauses(tree: exp.Select) -> None:
    if other := sorted(set(_list_given(tree)) - _SELECT):
        raise UnprovenError(other[0].rstrip("_").upper())
    if tree.args.get("kind"):
        raise UnprovenError("SELECT AS")
    if not tree.args.get("from_"):
        raise UnprovenError("SELECT without FROM")
    distinct, where = tree.args.get("distinct"), tree.args.get("where")
    if distinct and distinct.args.get("on"):
        raise UnprovenError("DISTINCT ON")
    if where and is_aggregate(where):
        raise UnprovenError("an aggregate in WHERE")


def _convert_results(tree: exp.Select, values: Values, groups: list[exp.Expression]) -> Columns:
    """Type the selected values, and give each of them its name."""
    columns: dict[str, Type] = {}
    made: list[exp.Expression] = []
    grouped = tree.args.get("group") is not None or any(map(is_aggregate, tree.expressions))
    for node in tree.expressions:
        name, value = _get_named(node)
        if grouped:
            _refuse_ungrouped(value, groups)
        if name.lower() in {each.lower() for each in columns}:
            raise UnprovenError(f"two columns {name}")
        kind, safe = values.resolve(value)
        if kind.kind == "void" or (tree.args.get("distinct") and kind.kind not in COMPARED):
            raise UnprovenError(f"a column of type {kind}")
        columns[name] = kind
        made.append(exp.Alias(this=safe, alias=exp.to_identifier(name, quoted=True)))
    tree.set("expressions", made)
    return columns


def _group(tree: exp.Select, values: Values) -> None:
    if group := tree.args.get("group"):
        pairs = [values.resolve(node) for node in group.expressions]
        for kind, _ in pairs:
            if kind.kind not in COMPARED:
                raise UnprovenError(f"GROUP BY {kind}")
        group.set("expressions", [safe for _, safe in pairs])


def _convert_with(tree: exp.Expression, tables: Mapping[str, Columns]) -> Mapping[str, Columns]:
    """Return the given tables, and those of the query's WITH clause."""
    known = dict(tables)
    given = tree.args.get("with_")
    if given is None:
        return known
    if given.args.get("recursive"):
        raise UnprovenError("WITH RECURSIVE")
    for common in given.expressions:
        alias = common.args["alias"]
        if alias.columns or common.args.get("materialized") is not None:
            raise UnprovenError("WITH that names columns")
        known[alias.name.lower()] = _convert_query(common.this, known)
    return known


class _Scope:
    """Columns that names refer to in one SELECT."""

    def __init__(self, tables: Mapping[str, Columns]) -> None:
        self._tables = tables
        self.sources: dict[str, Columns] = {}

    def add(self, node: exp.Expression) -> None:
        if isinstance(node, exp.Subquery):
            if set(_list_given(node)) - {"this", "alias"} or not node.alias:
                raise UnprovenError("a subquery without a name")
            columns = _convert_query(node.this, self._tables)
        elif isinstance(node, exp.Table) and not set(_list_given(node)) - _TABLE:
            dotted = ".".join(part.name for part in node.parts)
            found = self._tables.get(dotted.lower())
            if found is None:
                raise UnprovenError(f"the table {dotted}, whose columns are not known")
            columns = found
        else:
            raise UnprovenError(f"FROM {node.sql('spark')}")
        alias = node.args.get("alias")
        if alias is not None and alias.columns:
            raise UnprovenError("an alias that names columns")
        name = (node.alias or node.name).lower()
        if name in self.sources:
            raise UnprovenError(f"two tables called {name}")
        self.sources[name] = columns

    def type_of(self, node: exp.Column) -> Type:
        *qualifier, name = (part.name for part in node.parts)
        if len(qualifier) > 1:
            raise UnprovenError(f"the name {node.sql('spark')}; name the table by an alias")
        tables = self.sources
        if qualifier:
            tables = {qualifier[0].lower(): tables.get(qualifier[0].lower(), {})}
        found = [columns[name] for columns in tables.values() if name in columns]
        if len(found) == 1:
            return found[0]
        if found:
            raise UnprovenError(f"the name {name}, which is in several tables")
        raise UnprovenError(f"the name {name}, which no table has in these letters")


def _join(join: exp.Join, scope: _Scope, values: Values) -> None:
    kind = " ".join(filter(None, (join.side, join.kind))).upper() or "INNER"
    if set(_list_given(join)) - _JOIN or kind.removesuffix(" OUTER") not in JOINS:
        raise UnprovenError(f"{kind} JOIN, or one other than by ON")
    scope.add(join.this)
    condition = join.args.get("on")
    if condition is None or condition.find(exp.EQ) is None:
        raise UnprovenError("a JOIN without ON and an equation")
    join.set("on", values.condition(condition))


def _expand(tree: exp.Select, scope: _Scope) -> None:
    """Expand `*` and `t.*`."""
    expressions: list[exp.Expression] = []
    for node in tree.expressions:
        is_star = isinstance(node, exp.Star) or (
            isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
        )
        if not is_star:
            expressions.append(node)
            continue
        star = node if isinstance(node, exp.Star) else node.this
        if list(_list_given(star)):
            raise UnprovenError("* with EXCEPT or REPLACE")
        only = node.table.lower() if isinstance(node, exp.Column) else None
        for table, columns in scope.sources.items():
            if only in (None, table):
                expressions += [
                    exp.column(exp.to_identifier(name, quoted=True), table=table, quoted=True)
                    for name in columns
                ]
    tree.set("expressions", expressions)


def _find_groups(tree: exp.Select) -> list[exp.Expression]:
    group = tree.args.get("group")
    if group is None:
        return []
    if set(_list_given(group)) - {"expressions"}:
        raise UnprovenError("GROUP BY ALL, ROLLUP, CUBE or sets")
    for node in group.expressions:
        if isinstance(node, exp.Literal) or is_aggregate(node):
            raise UnprovenError("GROUP BY the number of a column")
    return [node.copy() for node in group.expressions]


def _refuse_ungrouped(value: exp.Expression, groups: list[exp.Expression]) -> None:
    """Raise UnprovenError for an ungrouped column in an aggregating query."""
    if value in groups:
        return
    if isinstance(value, exp.Count | exp.Sum | exp.Min | exp.Max):
        if any(each is not value and is_aggregate(each) for each in value.iter_expressions()):
            raise UnprovenError("an aggregate of aggregates")
        return
    if isinstance(value, exp.Column):
        raise UnprovenError(f"{value.name} outside of GROUP BY")
    for each in value.iter_expressions():
        if not isinstance(each, exp.DataType):
            _refuse_ungrouped(each, groups)


def _get_named(node: exp.Expression) -> tuple[str, exp.Expression]:
    if isinstance(node, exp.Alias):
        return node.alias, node.this
    if isinstance(node, exp.Column):
        return node.name, node
    raise UnprovenError(f"{node.sql('spark')} without a name; write AS and one")


def _is_projection(tree: exp.Expression) -> bool:
    if not isinstance(tree, exp.Select) or tree.find(exp.Subquery, exp.CTE) is not None:
        return False
    grouped = tree.args.get("group") or any(map(is_aggregate, tree.expressions))
    having = tree.args.get("having")
    return not (grouped or having or tree.args.get("joins") or tree.args.get("distinct"))
