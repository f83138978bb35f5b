"""Canonical forms of queries and Python files: equal forms certainly mean the same.

Two queries have one form if they differ only in whitespace, comments, letter case of keywords,
optional keywords such as AS, the order of AND conditions, or the names of common table expressions.
Different forms may still mean the same.
"""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from logdriven_dagster.config.sql.references import UnreadableSqlError

_VARIABLE = re.compile(r"\$\{[^}]*\}")
_CACHED = 2000
"""The number of queries whose form is remembered: a project's are compared again and again."""


@lru_cache(_CACHED)
def canonicalize_sql(text: str, dialect: str = "spark") -> str:
    """Return the canonical form of a query; of one that cannot be parsed, the text itself."""
    try:
        tree = parse_exactly(text, dialect)
    except UnreadableSqlError:
        return f"text {text.strip()}"
    return "\0".join([canonicalize_tree(tree), *sorted(_list_literals(text, dialect))])


def parse_exactly(text: str, dialect: str = "spark") -> Any:
    """Parse a query so that different `${variables}` stay different. Raises UnreadableSqlError."""
    import sqlglot

    named = _VARIABLE.sub(lambda match: f"v_{match[0].encode().hex()}", text)
    try:
        trees = [tree for tree in sqlglot.parse(named, dialect=dialect) if tree is not None]
    except Exception as error:  # noqa: BLE001 - sqlglot may raise any exception, such as RecursionError
        raise UnreadableSqlError(f"{type(error).__name__}: {error}") from None
    if len(trees) != 1 or not _is_query(trees[0]):
        raise UnreadableSqlError("it is not one query")
    return trees[0]


def _is_query(tree: Any) -> bool:
    from sqlglot import exp

    # What sqlglot cannot parse, it may keep as the text of a command.
    return isinstance(tree, exp.Query) and not any(tree.find_all(exp.Command))


def canonicalize_tree(tree: Any) -> str:
    """Return the canonical form of a parsed query or expression."""
    tree = tree.copy()
    number_names(tree)
    return "".join(_write(tree))


def _write(node: Any) -> Iterator[str]:
    """Yield every argument of a node by name: the tree itself, not the query generated from it."""
    from sqlglot import exp

    if isinstance(node, exp.And):
        parts = sorted("".join(_write(part)) for part in node.flatten())
        yield f"And({'&'.join(parts)})"
    elif isinstance(node, exp.Paren):  # the tree has the precedence
        yield from _write(node.this)
    elif isinstance(node, exp.Expression):
        yield f"{type(node).__name__}("
        for name, value in sorted(node.args.items()):
            if value is not None and value is not False and value != []:
                yield f"{name}="
                yield from _write(value)
        yield ")"
    elif isinstance(node, list):
        yield "["
        for each in node:
            yield from _write(each)
            yield ","
        yield "]"
    else:
        yield f"{node!r};"


def number_names(tree: Any) -> None:
    """Number the common table expressions and the aliases of tables, in their order.

    If a name of one has another meaning, too, all keep their names.
    """
    from sqlglot import exp

    named = list_names(tree)
    names = [node.alias.lower() for node in named]
    # A column of the same name may be the whole row.
    columns = {column.name.lower() for column in tree.find_all(exp.Column)}
    if len(set(names)) < len(names) or columns & set(names):
        return
    numbers = {name: f"name_{n}" for n, name in enumerate(names)}
    for node in named:
        node.args["alias"].set("this", exp.to_identifier(numbers[node.alias.lower()]))
    common = {node.alias for node in named if isinstance(node, exp.CTE)}
    for table in tree.find_all(exp.Table):
        number = numbers.get(table.name.lower()) if len(table.parts) == 1 else None
        if number in common:
            table.set("this", exp.to_identifier(number))
    for column in tree.find_all(exp.Column):
        if len(column.parts) == 2 and (number := numbers.get(column.table.lower())):
            column.set("table", exp.to_identifier(number))


def list_names(tree: Any) -> list[Any]:
    """Return the common table expressions and the tables with an alias, in their order."""
    from sqlglot import exp

    return [
        node
        for node in tree.find_all(exp.CTE, exp.Table, exp.Subquery, bfs=False)
        if node.alias and isinstance(node.args.get("alias"), exp.TableAlias)
    ]


def _list_literals(text: str, dialect: str) -> Iterator[str]:
    """Yield the literals of a query as they are written: a parser may lose the type of a number."""
    import sqlglot

    for token in sqlglot.tokenize(text, dialect=dialect):
        kind = token.token_type.name
        if kind == "NUMBER" or kind.endswith("STRING"):
            yield f"{kind} {token.text}"


def canonicalize_python(text: str) -> str:
    """Return the canonical form of a Python file: without comments and formatting."""
    try:
        return ast.dump(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        return f"text {text}"
