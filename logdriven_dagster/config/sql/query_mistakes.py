"""Mistakes in a single query or statement, found by sqlglot without a database."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from logdriven_dagster.config.derived.clock_formats import FORMATTED, RANGE, ClockFormat
from logdriven_dagster.config.derived.variables import CLOCK
from logdriven_dagster.config.models.steps import VARIABLE
from logdriven_dagster.config.sql.references import (
    UnreadableSqlError,
    find_named_tables,
    get_span,
    is_script,
    parse_query,
)
from logdriven_dagster.config.yaml.documents import Document, Location
from logdriven_dagster.errors import ConfigError, UnparsedQueryError

_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_MUCH_ALIKE = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE)\b", re.IGNORECASE)
"""Statements whose syntax is similar in every database, so that sqlglot can parse them."""

_FILES = frozenset({"parquet", "orc", "csv", "json", "text", "avro", "binaryfile", "xml"})
"""Prefixes of file paths that a query reads directly, as in parquet.`path`."""


_ASK_SPARK = "if Spark knows this syntax, `logdriven validate --analyze` accepts it"


@dataclass(frozen=True)
class TextPlace:
    """Location of a text: a field of a document, or a file that the field names."""

    document: Document
    location: Location
    file: Path | None = None

    def error(self, problem: str, hint: str | None = None, line: int | None = None) -> ConfigError:
        """Return an error in the text; `line` counts from its start."""
        if self.file is not None:
            return ConfigError(self.file, line, "", problem, hint)
        return self.document.error(self.location, problem, hint)

    def unreadable(self, error: UnreadableSqlError, hint: str | None = None) -> ConfigError:
        """Return the error that a parser found."""
        return self.error(self._describe(error), hint, error.line)

    def build_parse_error(self, error: UnreadableSqlError) -> ConfigError:
        """Return the error that a parser found in a query of Spark, which may know the syntax."""
        if not error.may_be_valid:
            return self.unreadable(error)
        found = self.unreadable(error, _ASK_SPARK)
        return UnparsedQueryError(found.path, found.line, found.field, found.problem, found.hint)

    def _describe(self, error: UnreadableSqlError) -> str:
        return error.problem if self.file else str(error)


@dataclass(frozen=True)
class Names:
    """Names that the texts of a step may use."""

    variables: frozenset[str]
    """Valid names in `${name}`."""
    parameters: frozenset[str] = frozenset()
    """Valid names in `:name`."""
    tables: frozenset[str] | None = None
    """Names of tables and steps, or None if they are not all known."""
    loops: bool = False
    """True if columns of a loop's rows are valid names, too."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Hints for the earlier names of tables, in lower case."""

    def unknown_variables(self, text: str) -> list[str]:
        return [
            name
            for name in dict.fromkeys(_REFERENCE.findall(text))
            if not self._is_known(name, self.variables)
            and not name.startswith("env:")
            and not self._is_formatted(name)
        ]

    def unknown_parameters(self, tree) -> list[str]:  # type: ignore[no-untyped-def]
        from sqlglot import exp

        names = dict.fromkeys(node.name for node in tree.find_all(exp.Placeholder) if node.name)
        return [name for name in names if not self._is_known(name, self.parameters)]

    def _is_formatted(self, name: str) -> bool:
        """Return True for a bound of a time window with a format, which is checked by itself."""
        return FORMATTED.fullmatch(f"${{{name}}}") is not None and self.variables >= CLOCK

    def _is_known(self, name: str, known: frozenset[str]) -> bool:
        return name in known or (self.loops and name.startswith(VARIABLE))


def find_variable_mistakes(place: TextPlace, text: str, names: Names) -> Iterator[ConfigError]:
    """Yield an error at `place` for each `${name}` in a text that has no value."""
    for name in names.unknown_variables(text):
        before = text[: text.index(f"${{{name}}}")]
        problem = f"unknown variable ${{{name}}}"
        base, colon, pattern = name.partition(":")
        fix = _suggest_fix(name, names.variables)
        if colon and base.upper() in (RANGE, *names.variables):
            fix = f"did you mean '{base.upper()}:{pattern}'?"
        yield place.error(problem, fix, before.count("\n") + 1)
    for found in FORMATTED.finditer(text):
        mistake = ClockFormat(found[2]).find_mistake()
        if found[1] == RANGE and "path" not in place.location:
            mistake = "only the path of a source may have several texts"
        if mistake is not None:
            yield place.error(f"{found[0]}: {mistake}", line=text.count("\n", 0, found.start()) + 1)


def find_statement_mistakes(
    place: TextPlace, text: str, names: Names, dialect: str | None
) -> Iterator[ConfigError]:
    """Yield mistakes in a database statement, as far as sqlglot supports its dialect.

    `place` locates the errors, `names` are the valid names in the text.
    """
    yield from find_variable_mistakes(place, text, names)
    if not _MUCH_ALIKE.match(text):
        return
    try:
        parse_query(text, dialect)
    except UnreadableSqlError as error:
        yield place.unreadable(error)


def find_query_mistakes(place: TextPlace, text: str, names: Names) -> Iterator[ConfigError]:
    """Yield mistakes in a Spark SQL query; in a script, only unknown variables.

    `place` locates the errors, `names` are the valid names in the text.
    """
    yield from find_variable_mistakes(place, text, names)
    if is_script(text):
        return
    try:
        tree = parse_query(text)
    except UnreadableSqlError as error:
        yield place.build_parse_error(error)
        return
    if not _is_query(tree, text):
        yield place.error("this is not a query", "a query begins with SELECT, WITH, FROM or VALUES")
        return
    for name in names.unknown_parameters(tree):
        yield place.error(f"unknown parameter :{name}", _suggest_fix(name, names.parameters))
    if names.tables is not None:
        yield from _find_unknown_tables(place, text, tree, names)


def _find_unknown_tables(place, text, tree, names) -> Iterator[ConfigError]:  # type: ignore[no-untyped-def]
    known = {name.lower(): name for name in names.tables}
    reported = set()
    for name, node in find_named_tables(tree):
        start, end = get_span(node)
        if name.lower() in known or name in reported or "${" in text[start:end]:
            continue
        if name.lower().partition(".")[0] in _FILES and "." in name:
            continue
        reported.add(name)
        near = difflib.get_close_matches(name.lower(), known, n=1)
        declared = (
            f"add {{table: {name}, managed: false}} to depends_on if another system manages it"
        )
        suggested = f"did you mean {known[near[0]]!r}?" if near else declared
        hint = names.renamed.get(name.lower(), suggested)
        yield place.error(f"unknown table {name!r}", hint, text.count("\n", 0, start) + 1)


def _is_query(tree, text: str) -> bool:  # type: ignore[no-untyped-def]
    """Return True if `tree` is more than an expression, as which a misspelt SELECT is parsed."""
    from sqlglot import exp

    if isinstance(tree, (exp.Query, exp.Values)):
        return True
    is_expression = isinstance(tree, (exp.Alias, exp.Condition))
    return not is_expression or text.lstrip().upper().startswith("TABLE ")


def _suggest_fix(name: str, names: Iterable[str]) -> str:
    known = sorted(names)
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
