"""Tables that a query reads, and replacement of their names, by sqlglot."""

import re
from collections.abc import Iterator, Mapping

_VARIABLE = re.compile(r"\$\{[^}]*\}")


_COMMENTS = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_SCRIPT = re.compile(rf"{_COMMENTS}BEGIN\b", re.IGNORECASE | re.DOTALL)


class UnreadableSqlError(ValueError):
    """A query that sqlglot cannot parse; `line` counts from 1 in the query.

    If it `may_be_valid`, Spark may know the syntax.
    """

    def __init__(
        self,
        problem: str,
        line: int = 1,
        column: int | None = None,
        *,
        may_be_valid: bool = False,
    ) -> None:
        self.problem, self.line, self.may_be_valid = problem, line, may_be_valid
        place = f" (line {line}, column {column} of the query)" if column else ""
        super().__init__(f"{problem}{place}")


def find_table_references(sql: str) -> set[str]:
    """Return the tables that a Spark query reads, dotted, as written; without its own CTEs.

    Raises UnreadableSqlError.
    """
    tree = parse_query(sql)
    return {name for name, _ in find_named_tables(tree)}


def replace_tables(sql: str, views: Mapping[str, str]) -> str:
    """Return the query with each table `name` replaced by view `views[name]`.

    Names match in any case, with or without backticks. A table without an alias gets its last part
    as one, so that `flights.origin` still works after `FROM ods.flights`. Only the names change:
    the rest of the text stays as written. Raises UnreadableSqlError.
    """
    wanted = {name.lower(): view for name, view in views.items()}
    if not any(name in sql.lower().replace("`", "") for name in wanted):
        return sql
    tree = parse_query(sql)
    edits: list[tuple[int, int, str]] = []
    for name, table in find_named_tables(tree):
        if view := wanted.get(name.lower()):
            alias = "" if table.alias else f" AS `{table.name}`"
            edits.append((*get_span(table), f"`{view}`{alias}"))
    edits += _find_qualified_columns(tree, wanted)
    for start, end, text in sorted(edits, reverse=True):
        sql = sql[:start] + text + sql[end:]
    return sql


def _find_qualified_columns(tree, wanted) -> Iterator[tuple[int, int, str]]:  # type: ignore[no-untyped-def]
    """Yield edits such as `ods.flights.origin` → `flights.origin`, since aliases have no dots."""
    from sqlglot import exp

    for column in tree.find_all(exp.Column):
        *qualifier, _ = column.parts
        if len(qualifier) > 1 and ".".join(part.name for part in qualifier).lower() in wanted:
            start, end = qualifier[0].meta["start"], qualifier[-1].meta["end"] + 1
            yield start, end, f"`{qualifier[-1].name}`"


def find_named_tables(tree) -> Iterator:  # type: ignore[no-untyped-def,type-arg]
    """Yield the dotted names of tables with their nodes, except common table expressions."""
    from sqlglot import exp

    common = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        parts = [part.name for part in table.parts]
        if isinstance(table.this, exp.Func):
            continue  # a table function
        if all(parts) and not (len(parts) == 1 and parts[0].lower() in common):
            yield ".".join(parts), table


def get_span(table) -> tuple[int, int]:  # type: ignore[no-untyped-def]
    """Return start and end of a table's name in the text."""
    return table.parts[0].meta["start"], table.parts[-1].meta["end"] + 1


def parse_query(sql: str, dialect: str | None = "spark"):  # type: ignore[no-untyped-def]
    """Parse a query, with its `${variables}` as names. Raises UnreadableSqlError.

    Returns the first one of several statements.
    """
    import sqlglot

    # Of the same length, so that positions in the tree are positions in the text.
    neutral = _VARIABLE.sub(lambda match: "v" * len(match[0]), sql)
    try:
        trees = [tree for tree in sqlglot.parse(neutral, dialect=dialect) if tree is not None]
    except sqlglot.errors.ParseError as error:
        trees = _parse_variant_paths(neutral) if dialect == "spark" else []
        if not trees:
            raise _build_error(error.errors[0], sql) from None
    except sqlglot.errors.TokenError:
        line = sql.rstrip().count("\n") + 1
        raise UnreadableSqlError("a quote or comment is not closed", line) from None
    if len(trees) == 1 or (trees and dialect != "spark"):
        return trees[0]
    several = f"there are {len(trees)} statements; write one query"
    raise UnreadableSqlError(several if trees else "the query is empty")


def _parse_variant_paths(sql: str):  # type: ignore[no-untyped-def]
    """Parse paths such as `v:a.b::int`, which sqlglot knows in another dialect; [] if it fails."""
    import sqlglot

    try:
        return [tree for tree in sqlglot.parse(sql, dialect="databricks") if tree is not None]
    except sqlglot.errors.SqlglotError:
        return []


def is_script(sql: str) -> bool:
    """Return True for a script of Spark (`BEGIN … END`), which sqlglot does not parse."""
    return _SCRIPT.match(sql) is not None


def is_query(sql: str) -> bool:
    """Return True if a statement is certainly a query without side effects."""
    from sqlglot import exp

    try:
        return isinstance(parse_query(sql), exp.Query)
    except UnreadableSqlError:
        return False


def _build_error(details, sql: str) -> UnreadableSqlError:  # type: ignore[no-untyped-def]
    """Convert a parser error into a plain message that quotes the text as written."""
    line, end = int(details.get("line") or 1), int(details.get("col") or 1)
    start = max(end - len(details.get("highlight") or ""), 0)
    found = "".join(sql.splitlines()[line - 1 : line])[start:end]
    expected = re.match(r"Expecting (\S+)$", str(details.get("description") or ""))
    problem = f"syntax error at {found!r}" if found else "syntax error at the end"
    problem += f", {expected[1]} is missing" if expected else ""
    return UnreadableSqlError(problem, line, start + 1, may_be_valid=True)
