"""The share of public SQL that Sail can run: queries of dbt and SQLMesh projects, and our list.

`python -m benchmarks.sail_share FOLDER[:DIALECT]… [--each 100]` reads the `.sql` models below each
folder, at most `--each` of them (a random choice with a fixed seed). `ref`, `source`, `config`,
`this` and `is_incremental` are replaced as in a full refresh, headers and dates of SQLMesh models
too. Models with other Jinja or macros are skipped. A model's own dialect (SQLMesh) precedes that of
its folder. sqlglot translates each query to Spark, with its names in lower case.

Public SQL does not declare the types of columns. They are searched, in favor of the list: types
that casts, literals and functions suggest, then names, then repairs after each refusal that is due
to types. The share is therefore an upper estimate; refusals due to types are counted separately.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqlglot import ErrorLevel, exp, parse
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import Scope, traverse_scope

from logdriven_dagster.config.sql.references import UnreadableSqlError
from logdriven_dagster.plugins.sail.supported_casts import UnprovenError, type_written
from logdriven_dagster.plugins.sail.supported_queries import build_safe_query
from logdriven_dagster.plugins.sail.supported_sql import Type

Column = tuple[str, str]
"""Table and column, in lower case."""

_NAME = r"\s*['\"]([^'\"]+)['\"]\s*"
_INCREMENTAL = (
    r"\{%-?\s*if\s+is_incremental\s*\(\)\s*-?%\}(?:(?!\{%).)*?"
    r"(?:\{%-?\s*else\s*-?%\}((?:(?!\{%).)*?))?\{%-?\s*endif\s*-?%\}"
)
_JINJA = (
    (r"\{#.*?#\}", ""),
    (r"\{\{-?\s*config\s*\(.*?\)\s*-?\}\}", ""),
    (_INCREMENTAL, r"\1"),
    (rf"\{{\{{-?\s*ref\s*\((?:{_NAME},)?{_NAME}\)\s*-?\}}\}}", r"\2"),
    (rf"\{{\{{-?\s*source\s*\({_NAME},{_NAME}\)\s*-?\}}\}}", r"\1.\2"),
    (r"\{\{-?\s*this\s*-?\}\}", "this_table"),
)
_SQLMESH = (
    (r"@(\w+)\.(?=\w)", r"\1."),
    (r"@(?:start|end)_(?:ds|dt)\b", "'2024-01-01'"),
    (r"@(?:start|end)_date\b", "CAST('2024-01-01' AS DATE)"),
    (r"@(?:start|end)_(?:ts|dtntz)\b", "CAST('2024-01-01 00:00:00' AS TIMESTAMP)"),
)
_MACRO = re.compile(r"\{\{|\{%|@\w|JINJA_QUERY_BEGIN")
_HEADER = re.compile(r"^\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*MODEL\s*\(", re.IGNORECASE | re.DOTALL)

_TYPES = ("string", "bigint", "date", "timestamp", "boolean", "int", "double")
_CHOICES = (*map(Type, _TYPES), Type("decimal", 9, 2))  # type: ignore[arg-type]
_NUMBER = Type("decimal", 9, 2)
_NAMED = (
    (r"(_at|_ts|time|timestamp)$", Type("timestamp")),
    (r"(^|_)(date|day)$", Type("date")),
    (r"^(is|has|was)_", Type("boolean")),
    (r"(amount|price|cost|total|revenue|value|rate)", _NUMBER),
    (r"(count|quantity|number|num|year|month|_key|_sk)$", Type("bigint")),
)
_ABOUT_TYPES = re.compile(rf"\b({'|'.join(_TYPES)}|decimal|different types)\b")
_ALIKE = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.Between, exp.In)
_PLAIN = (
    *(exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Identifier, exp.Column, exp.Alias),
    *(exp.Star, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Literal, exp.With, exp.CTE),
)
_REPAIRS = 200


@dataclass
class Count:
    """Numbers of models by what became of them, and of queries by the first refused part."""

    models: int = 0
    queries: int = 0
    accepted: int = 0
    plain: int = 0
    """Queries that only select, rename and cast columns of single tables."""
    plain_accepted: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    due_to_types: int = 0

    def add(self, other: "Count") -> None:
        """Add the numbers of another project."""
        self.models += other.models
        self.queries += other.queries
        self.accepted += other.accepted
        self.plain += other.plain
        self.plain_accepted += other.plain_accepted
        self.due_to_types += other.due_to_types
        self.skipped.update(other.skipped)
        self.reasons.update(other.reasons)


class SkippedError(ValueError):
    """A model that is no plain query: macros, several statements, or unknown syntax."""


def read_model(text: str, dialect: str | None = None) -> exp.Query:
    """Return the query of a dbt or SQLMesh model. Raises SkippedError."""
    for pattern, made in _JINJA:
        text = re.sub(pattern, made, text, flags=re.DOTALL)
    if header := _HEADER.match(text):
        text, dialect = _split_header(text, header.end(), dialect)
        for pattern, made in _SQLMESH:
            text = re.sub(pattern, made, text, flags=re.IGNORECASE)
    plain = re.sub(r"--[^\n]*|/\*.*?\*/|'[^']*'", "", text, flags=re.DOTALL)
    if _MACRO.search(plain) or "{{" in text:
        raise SkippedError("Jinja or macros")
    try:
        statements = [tree for tree in parse(text, read=dialect) if tree is not None]
    except (SqlglotError, ValueError) as error:
        raise SkippedError("not parsed by sqlglot") from error
    queries = [tree for tree in statements if not isinstance(tree, exp.Semicolon)]
    if len(queries) != 1 or not isinstance(queries[0], exp.Query):
        raise SkippedError("no single query")
    return queries[0]


def _split_header(text: str, start: int, dialect: str | None) -> tuple[str, str | None]:
    depth, end = 1, start
    while depth and end < len(text):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    found = re.search(r"\bdialect\s+[\"']?(\w+)", text[start:end], re.IGNORECASE)
    return text[end:].lstrip().removeprefix(";"), found[1].lower() if found else dialect


def find_refusal(query: exp.Query) -> str | None:
    """Return the first part of a query that is not on the list, or None."""
    for identifier in query.find_all(exp.Identifier):
        identifier.set("this", identifier.name.lower())
    for select in query.find_all(exp.Select):
        select.set("expressions", [_name_value(node) for node in select.expressions])
    typed = TypedColumns(query)
    try:
        sql = query.sql("spark", unsupported_level=ErrorLevel.RAISE)
        sql = sql.replace("TIMESTAMP_NTZ", "TIMESTAMP")
    except (SqlglotError, ValueError):
        return "no translation to Spark"
    chosen = dict(typed.guessed)
    message = first = _apply(sql, typed, chosen)
    seen, tries = {message}, 0
    generator = random.Random(0)
    while message and _ABOUT_TYPES.search(message) and tries < _REPAIRS:
        mentioned = set(_ABOUT_TYPES.findall(message))
        columns = [column for column, kind in chosen.items() if kind.kind in mentioned]
        changes = [(column, kind) for column in columns for kind in _CHOICES]
        generator.shuffle(changes)
        unseen: list[tuple[str, dict[Column, Type]]] = []
        for column, kind in changes[: _REPAIRS - tries]:
            tries += 1
            changed = {
                each: kind if typed.group(each) == typed.group(column) else old
                for each, old in chosen.items()
            }
            found = _apply(sql, typed, changed)
            if found is None:
                return None
            if found not in seen:
                seen.add(found)
                unseen.append((found, changed))
        if not unseen:
            break
        message, chosen = min(unseen, key=lambda each: bool(_ABOUT_TYPES.search(each[0])))
    return first if message and _ABOUT_TYPES.search(message) else message


def _name_value(node: exp.Expr) -> exp.Expr:
    """Name a value without an alias after its column, as SQLMesh does."""
    is_named = isinstance(node, exp.Alias | exp.Column | exp.Star) or not node.output_name
    return node if is_named else exp.alias_(node, node.output_name)


def _apply(sql: str, typed: "TypedColumns", chosen: Mapping[Column, Type]) -> str | None:
    tables: dict[str, dict[str, Type]] = {table: {} for table in typed.tables}
    for (table, column), kind in chosen.items():
        tables[table][column] = kind
    try:
        build_safe_query(sql, tables)
    except (UnprovenError, UnreadableSqlError) as error:
        return str(error)
    return None


class TypedColumns:
    """The tables of a query, their columns that it uses, and guesses of the columns' types.

    Columns without a table's name get it where a query reads several tables.
    """

    def __init__(self, query: exp.Query) -> None:
        self.tables: dict[str, list[str]] = {}
        self._same: dict[Column, Column] = {}
        scopes = traverse_scope(query)
        for scope in scopes:
            for source in _read(scope).values():
                if isinstance(source, exp.Table):
                    self.tables.setdefault(_dotted(source), [])
        if not any(given.args.get("recursive") for given in query.find_all(exp.With)):
            for scope in scopes:
                self._find_qualified(scope)
            for scope in scopes:
                self._find_unqualified(scope)
        for columns in self.tables.values():
            if not columns:
                columns.append("id")
        hints: dict[Column, Type] = {}
        for scope in scopes:
            self._find_hints(scope, hints)
        self.guessed = {
            (table, column): self._guess((table, column), hints)
            for table, columns in self.tables.items()
            for column in columns
        }

    def group(self, column: Column) -> Column:
        """Return the representative of columns that must have one type."""
        while (next_one := self._same.get(column, column)) != column:
            column = next_one
        return column

    def _find_qualified(self, scope: Scope) -> None:
        for column in scope.columns:
            source = _read(scope).get(column.table)
            if source and not isinstance(column.this, exp.Star):
                self._take(source, column.name)

    def _find_unqualified(self, scope: Scope) -> None:
        for column in scope.columns:
            if column.table or isinstance(column.this, exp.Star) or _is_lateral(scope, column.name):
                continue
            names = sorted(_read(scope), key=lambda name: not self._has(scope, name, column.name))
            taken = (name for name in names if self._take(_read(scope)[name], column.name))
            name = next(taken, None)
            if name and len(names) > 1:
                column.set("table", exp.to_identifier(name))

    def _has(self, scope: Scope, name: str, column: str) -> bool:
        source = _read(scope)[name]
        if isinstance(source, exp.Table):
            return column in self.tables[_dotted(source)]
        named = [node.alias_or_name for node in _selected(source)]
        return column in named or any(True for _ in self._origins(source, column))

    def _take(self, source: exp.Table | Scope, column: str) -> bool:
        """Add the column to the table from which it comes; False if it cannot come from here."""
        if isinstance(source, exp.Table):
            columns = self.tables[_dotted(source)]
            if column not in columns:
                columns.append(column)
            return True
        if source.set_operation_scopes:
            taken = [self._take(each, column) for each in source.set_operation_scopes]
            return all(taken)
        if not isinstance(source.expression, exp.Select):
            return False
        if column in [node.alias_or_name for node in _selected(source)]:
            return True
        return any(self._take(each, column) for each in _starred(source))

    def _origins(self, source: exp.Table | Scope, column: str) -> Iterator[Column]:
        """Yield the columns of tables that a name stands for, unchanged."""
        if isinstance(source, exp.Table):
            if column in self.tables[_dotted(source)]:
                yield _dotted(source), column
        elif source.set_operation_scopes:
            for each in source.set_operation_scopes:
                yield from self._origins(each, column)
        elif isinstance(source.expression, exp.Select):
            for node in _selected(source):
                if node.alias_or_name == column and isinstance(node.unalias(), exp.Column):
                    yield from self._origins_of(source, node.unalias())
                    return
            for starred in _starred(source):
                yield from self._origins(starred, column)

    def _origins_of(self, scope: Scope, node: exp.Expr) -> list[Column]:
        node = node.unnest()
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return []
        sources = [each for name, each in _read(scope).items() if node.table in ("", name)]
        return [found for each in sources for found in self._origins(each, node.name)]

    def _find_hints(self, scope: Scope, hints: dict[Column, Type]) -> None:
        for node in scope.walk():
            for operands, kind in _find_constraints(node):
                columns = [each for one in operands for each in self._origins_of(scope, one)]
                for column in columns:
                    if kind:
                        hints.setdefault(column, kind)
                    if self.group(column) != self.group(columns[0]):
                        self._same[self.group(column)] = self.group(columns[0])

    def _guess(self, column: Column, hints: Mapping[Column, Type]) -> Type:
        alike = (kind for each, kind in hints.items() if self.group(each) == self.group(column))
        if kind := next(alike, None):
            return kind
        name = self.group(column)[1]
        return next((kind for part, kind in _NAMED if re.search(part, name)), Type("string"))


def _find_constraints(node: exp.Expr) -> Iterator[tuple[list[exp.Expr], Type | None]]:
    """Yield operands that need one type, and this type if the node shows it."""
    if isinstance(node, exp.Cast):
        try:
            yield [node.this], type_written(node.to)
        except UnprovenError:
            return
    elif isinstance(node, (*_ALIKE, exp.Coalesce, exp.Case)):
        operands: list[exp.Expr] = [
            each for each in node.iter_expressions() if not isinstance(each, exp.If)
        ]
        if isinstance(node, exp.Case):
            operands += [each.args["true"] for each in node.args["ifs"]]
        yield operands, next(filter(None, map(_type_of, operands)), None)
    elif isinstance(node, exp.Sum | exp.Add | exp.Sub | exp.Mul):
        yield list(node.iter_expressions()), _NUMBER
    elif isinstance(node, exp.Upper | exp.Lower | exp.Length | exp.Concat | exp.DPipe):
        yield list(node.iter_expressions()), Type("string")
    elif isinstance(node, exp.Year | exp.Month | exp.Day):
        yield [node.this], Type("date")
    elif isinstance(node, exp.And | exp.Or | exp.Not | exp.Where):
        yield list(node.iter_expressions()), Type("boolean")
    elif isinstance(node, exp.If):
        yield [node.this], Type("boolean")


def _type_of(node: exp.Expr) -> Type | None:
    node = node.unnest()
    if isinstance(node, exp.Literal):
        return Type("string") if node.is_string else Type("int") if node.is_int else _NUMBER
    if isinstance(node, exp.Boolean):
        return Type("boolean")
    if isinstance(node, exp.Cast):
        try:
            return type_written(node.to)
        except UnprovenError:
            return None
    return None


def _dotted(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts)


def _read(scope: Scope) -> dict[str, exp.Table | Scope]:
    """Return the tables and queries in FROM and JOIN, by alias."""
    return {name: source for name, (_, source) in scope.selected_sources.items()}


def _selected(scope: Scope) -> list[exp.Expr]:
    """Return the values of a SELECT as written; for other expressions none."""
    return list(scope.expression.expressions) if isinstance(scope.expression, exp.Select) else []


def _starred(scope: Scope) -> list[exp.Table | Scope]:
    """Return the sources whose columns a SELECT passes on by `*`."""
    found: list[exp.Table | Scope] = []
    for node in _selected(scope):
        if isinstance(node, exp.Star):
            found += _read(scope).values()
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            found += [source for name, source in _read(scope).items() if name == node.table]
    return found


def _is_lateral(scope: Scope, name: str) -> bool:
    """Return True for the alias of a value of the same SELECT that has no column of this name."""
    return any(
        isinstance(node, exp.Alias)
        and node.alias == name
        and all(column.name != name for column in node.find_all(exp.Column))
        for node in _selected(scope)
    )


def shorten_reason(message: str) -> str:
    """Return a refusal without names and numbers of its query."""
    for pattern, made in (
        (r"^the name .*, which no table.*", "an alias of the same SELECT, or a field of a struct"),
        (r"^the name .*?(, which .*|; name .*)$", r"a name\1"),
        (r"^the table .*?,", "a table,"),
        (r"^\S+ outside of GROUP BY", "a column outside of GROUP BY"),
        (r"^(?!a subquery).* without a name", "a value without a name"),
        (r"^(the text|FROM|two columns|two tables called|the number|the parameter) .*", r"\1 …"),
        (r"\(\d+,\d+\)", ""),
        (r"; write .*", ""),
    ):
        message = re.sub(pattern, made, message, count=0, flags=re.DOTALL)
    return message


def count_project(folder: Path, dialect: str | None, each: int) -> Count:
    """Apply the list to at most `each` models below a folder."""
    count = Count()
    paths = sorted(path for path in folder.rglob("*.sql") if path.is_file())
    random.Random(0).shuffle(paths)
    for path in paths[:each]:
        count.models += 1
        try:
            query = read_model(path.read_text(errors="replace"), dialect)
            plain = all(isinstance(node, _PLAIN) for node in query.walk())
            refusal = find_refusal(query)
        except SkippedError as error:
            count.skipped[str(error)] += 1
            continue
        except (SqlglotError, RecursionError):
            count.skipped["names not resolved by sqlglot"] += 1
            continue
        count.queries += 1
        count.plain += plain
        if refusal is None:
            count.accepted += 1
            count.plain_accepted += plain
        else:
            count.reasons[shorten_reason(refusal)] += 1
            count.due_to_types += bool(_ABOUT_TYPES.search(refusal))
    return count


def main() -> None:
    """Print the numbers of each folder, and of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", metavar="FOLDER[:DIALECT]")
    parser.add_argument("--each", type=int, default=100)
    given = parser.parse_args()
    whole = Count()
    for text in given.folders:
        folder, _, dialect = text.partition(":")
        count = count_project(Path(folder), dialect or None, given.each)
        whole.add(count)
        print(f"{folder}: {count.models} models, {count.queries} queries, {count.accepted} taken")
    print(f"{whole.models} models, skipped: {dict(whole.skipped.most_common())}")
    others, taken = whole.queries - whole.plain, whole.accepted - whole.plain_accepted
    for name, number, accepted in (
        ("queries", whole.queries, whole.accepted),
        ("only select, rename and cast columns", whole.plain, whole.plain_accepted),
        ("others", others, taken),
    ):
        print(f"{name}: {number}, accepted {accepted}, {accepted / max(number, 1):.0%}")
    print(f"refused because of types: {whole.due_to_types}")
    for reason, number in whole.reasons.most_common(25):
        print(f"{number:5} {reason}")


if __name__ == "__main__":
    main()
