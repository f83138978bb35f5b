"""Which tables a query reads, and the same query over other names. Offline, by sqlglot."""

import re
from collections.abc import Iterator, Mapping

_VARIABLE = re.compile(r"\$\{[^}]*\}")


class UnreadableSqlError(ValueError):
    """sqlglot cannot parse the query; `line` of the query, from 1, is where."""

    def __init__(self, problem: str, line: int = 1, column: int | None = None) -> None:
        self.problem, self.line = problem, line
        place = f" (line {line}, column {column} of the query)" if column else ""
        super().__init__(f"{problem}{place}")


def table_references(sql: str) -> set[str]:
    """Return the tables that a Spark query reads, dotted, as written; without its own CTEs.

    Raises UnreadableSqlError.
    """
    tree = parse_query(sql)
    return {name for name, _ in named_tables(tree)}


def replace_tables(sql: str, views: Mapping[str, str]) -> str:
    """Return the query reading view `views[name]` instead of each table `name`, else unchanged.

    Names match whatever their case or backticks. A table without an alias gets its last part as
    one, so that `flights.origin` goes on working after `FROM ods.flights`. Only the names change:
    the rest of the text stays as it was written. Raises UnreadableSqlError.
    """
    wanted = {name.lower(): view for name, view in views.items()}
    if not any(name in sql.lower().replace("`", "") for name in wanted):
        return sql
    tree = parse_query(sql)
    edits: list[tuple[int, int, str]] = []
    for name, table in named_tables(tree):
        if view := wanted.get(name.lower()):
            alias = "" if table.alias else f" AS `{table.name}`"
            edits.append((*span(table), f"`{view}`{alias}"))
    edits += _qualified_columns(tree, wanted)
    for start, end, text in sorted(edits, reverse=True):
        sql = sql[:start] + text + sql[end:]
    return sql


def _qualified_columns(tree, wanted) -> Iterator[tuple[int, int, str]]:  # type: ignore[no-untyped-def]
    """`ods.flights.origin` → `flights.origin`: the table's alias has no dots any more."""
    from sqlglot import exp

    for column in tree.find_all(exp.Column):
        *qualifier, _ = column.parts
        if len(qualifier) > 1 and ".".join(part.name for part in qualifier).lower() in wanted:
            start, end = qualifier[0].meta["start"], qualifier[-1].meta["end"] + 1
            yield start, end, f"`{qualifier[-1].name}`"


def named_tables(tree) -> Iterator:  # type: ignore[no-untyped-def,type-arg]
    """The dotted names of tables with their nodes, common table expressions left out."""
    from sqlglot import exp

    common = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        parts = [part.name for part in table.parts]
        if isinstance(table.this, exp.Func):
            continue  # a table that a function makes
        if all(parts) and not (len(parts) == 1 and parts[0].lower() in common):
            yield ".".join(parts), table


def span(table) -> tuple[int, int]:  # type: ignore[no-untyped-def]
    """Where a table's name stands in the text."""
    return table.parts[0].meta["start"], table.parts[-1].meta["end"] + 1


def parse_query(sql: str, dialect: str | None = "spark"):  # type: ignore[no-untyped-def]
    """The tree of a query, whose `${variables}` become names; raises UnreadableSqlError.

    Databases may take several statements at once, of which the first one is returned.
    """
    import sqlglot

    # Of the same length, so that positions in the tree are positions in the text.
    neutral = _VARIABLE.sub(lambda match: "v" * len(match[0]), sql)
    try:
        trees = [tree for tree in sqlglot.parse(neutral, dialect=dialect) if tree is not None]
    except sqlglot.errors.ParseError as error:
        raise _unreadable(error.errors[0], sql) from None
    except sqlglot.errors.TokenError:
        line = sql.rstrip().count("\n") + 1
        raise UnreadableSqlError("a quote or comment is not closed", line) from None
    if len(trees) == 1 or (trees and dialect != "spark"):
        return trees[0]
    several = f"there are {len(trees)} statements; write one query"
    raise UnreadableSqlError(several if trees else "the query is empty")


def is_query(sql: str) -> bool:
    """Whether a statement is certainly a query, which changes nothing."""
    from sqlglot import exp

    try:
        return isinstance(parse_query(sql), exp.Query)
    except UnreadableSqlError:
        return False


def _unreadable(details, sql: str) -> UnreadableSqlError:  # type: ignore[no-untyped-def]
    """What a parser complains about, in plain words and with the text as it was written."""
    line, end = int(details.get("line") or 1), int(details.get("col") or 1)
    start = max(end - len(details.get("highlight") or ""), 0)
    found = "".join(sql.splitlines()[line - 1 : line])[start:end]
    expected = re.match(r"Expecting (\S+)$", str(details.get("description") or ""))
    problem = f"syntax error at {found!r}" if found else "syntax error at the end"
    problem += f", {expected[1]} is missing" if expected else ""
    return UnreadableSqlError(problem, line, start + 1)
