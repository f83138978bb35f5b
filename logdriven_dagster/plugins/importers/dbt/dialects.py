"""SQL of a warehouse as Spark SQL: unchanged, proven to mean the same, or converted on request."""

import re

from logdriven_dagster.plugins.importers.drafts import UntranslatableError

_SPARK = frozenset({"spark", "databricks", "fabricspark"})
_DIALECTS = {
    name: name
    for name in ("athena", "bigquery", "clickhouse", "duckdb", "mysql", "oracle", "postgres")
} | {name: name for name in ("redshift", "snowflake", "trino", "teradata")}
_DIALECTS |= {"fabric": "tsql", "sqlserver": "tsql", "synapse": "tsql"}
_COMPARE_BY_BYTES = frozenset(
    {"athena", "bigquery", "duckdb", "postgres", "redshift", "snowflake", "trino"}
)
"""Dialects whose texts are equal if their bytes are, as in Spark."""
_COMMON = frozenset(
    {"Select", "From", "Join", "With", "CTE", "TableAlias", "Table", "Column", "Identifier"}
    | {"Alias", "Star", "Where", "And", "Or", "Not", "Is", "Null", "EQ", "NEQ", "In", "Literal"}
    | {"Paren", "Subquery", "Group", "Having", "Count", "Coalesce", "Case", "If", "Union"}
    | {"Distinct", "Boolean", "Placeholder", "GT", "GTE", "LT", "LTE", "Order", "Ordered"}
)
"""Expressions with one meaning in all these dialects: no arithmetic, casts or other functions."""
_ALSO_COMMON = {
    "bigquery": frozenset({"Sum"}),
    **dict.fromkeys(("duckdb", "redshift", "snowflake"), frozenset({"Sum", "Min", "Max"})),
}
"""Aggregates with Spark's meaning: floats are summed as doubles, and NaN and bytes order values."""
SPARK_TYPE = re.compile(
    r"(?:string|boolean|tinyint|smallint|int|bigint|float|double|date|timestamp"
    r"|decimal\(\d+,\s*\d+\))",
    re.IGNORECASE,
)
"""Types that may be declared as they are."""
_PARAMETER = re.compile(r"(?<![:\w]):[A-Za-z_]\w*")
_OURS = frozenset({":data_range_start", ":data_range_end"})


def speaks_spark(adapter: str) -> bool:
    """Return True if the models of an adapter are Spark SQL."""
    return adapter in _SPARK


def as_spark(sql: str, adapter: str, *, convert: bool) -> tuple[str, bool]:
    """Return a query as Spark SQL, and True if it was converted and must be reviewed.

    Raises UntranslatableError if its meaning in Spark is not known and `convert` is False, or if
    sqlglot cannot convert it.
    """
    if "${" in sql:
        raise UntranslatableError("its SQL contains ${, which begins a variable here")
    bare = without_texts(sql).strip()
    if not bare or ";" in bare.removesuffix(";"):
        raise UntranslatableError("its code must be one query")
    if speaks_spark(adapter):
        if named := sorted(set(_PARAMETER.findall(bare)) - _OURS):
            raise UntranslatableError(f"its SQL contains {named[0]}, which is a parameter here")
        return sql, False
    if adapter in _COMPARE_BY_BYTES and _is_common(sql, _DIALECTS[adapter]):
        return sql, False
    if adapter not in _DIALECTS:
        raise UntranslatableError(f"its SQL is that of {adapter or 'an unknown adapter'}")
    if not convert:
        raise UntranslatableError(
            f"its SQL is that of {adapter} and may have another meaning in Spark; convert it with "
            "--convert-sql and review it"
        )
    return _convert(sql, _DIALECTS[adapter]), True


def without_texts(sql: str) -> str:
    """Return a query without its string literals, quoted names and comments."""
    return re.sub(r"'(?:[^'\\]|\\.)*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/", "", sql, flags=re.DOTALL)


def _is_common(sql: str, dialect: str) -> bool:
    """Return True if a query consists only of expressions with one meaning in all dialects."""
    import sqlglot
    from sqlglot import exp

    if "\\" in sql:
        return False  # an escape, or not
    try:
        trees = [sqlglot.parse(sql, dialect=name) for name in (dialect, "spark")]
    except sqlglot.errors.SqlglotError:
        return False
    if trees[0] != trees[1] or len(trees[0]) != 1:
        return False
    tree = trees[0][0]
    if not isinstance(tree, exp.Query):
        return False
    if any(map(_groups_by_alias, tree.find_all(exp.Select))):
        return False
    known = _COMMON | _ALSO_COMMON.get(dialect, frozenset())
    return all(type(node).__name__ in known and _is_common_node(node) for node in tree.walk())


def _is_common_node(node) -> bool:  # type: ignore[no-untyped-def]
    from sqlglot import exp

    match node:
        case exp.Identifier():
            return not node.quoted
        case exp.Literal():
            return "'" not in str(node.this)  # Spark 3 concatenates 'a''b'
        case exp.GT() | exp.GTE() | exp.LT() | exp.LTE():
            return _compares_numbers(node)  # the order of texts depends on the database
        case exp.Distinct():
            return not node.args.get("on")
        case exp.Placeholder():
            return f":{node.this}" in _OURS
        case _:
            return True


def _compares_numbers(node) -> bool:  # type: ignore[no-untyped-def]
    """Return True if one side of a comparison is a number or a bound of the window."""
    from sqlglot import exp

    return any(
        isinstance(side, exp.Placeholder) or (isinstance(side, exp.Literal) and not side.is_string)
        for side in (node.left, node.right)
    )


def _groups_by_alias(select) -> bool:  # type: ignore[no-untyped-def]
    """Return True if a name in GROUP BY is that of another expression of the query.

    BigQuery groups by that expression, Spark by the column.
    """
    from sqlglot import exp

    aliases = {
        alias.alias.lower()
        for alias in select.expressions
        if isinstance(alias, exp.Alias)
        and not (isinstance(alias.this, exp.Column) and alias.this.name == alias.alias)
    }
    parts = [select.args.get("group"), select.args.get("having")]
    columns = (column for part in parts if part for column in part.find_all(exp.Column))
    return any(column.name.lower() in aliases for column in columns)


def _convert(sql: str, dialect: str) -> str:
    import sqlglot

    try:
        found = sqlglot.transpile(
            sql,
            read=dialect,
            write="spark",
            pretty=True,
            unsupported_level=sqlglot.ErrorLevel.RAISE,
        )
    except sqlglot.errors.SqlglotError as error:
        problem = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().split("\n")[0]
        raise UntranslatableError(f"sqlglot could not convert its SQL: {problem}") from None
    if len(found) != 1:
        raise UntranslatableError(f"its SQL has {len(found)} statements")
    return found[0]
