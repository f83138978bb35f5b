"""Insertion of data values into queries and paths.

Data values are the rows of a loop and the bounds of key and offset ranges. They are inserted last
and never parsed again, so no `${env:NAME}` in them is resolved. In SQL they remain values, and in a
path they stay below the configured folder.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from logdriven_dagster.config.sql.lexing import is_ambiguous, list_lexemes
from logdriven_dagster.config.sql.references import UnreadableSqlError
from logdriven_dagster.errors import TerminalStepError

Value: TypeAlias = str | int | float | bool

_REFERENCE = re.compile(r"\$\{(\w+)\}")
_WORDS = re.compile(r"\w+(\.\w+)*")
_ENDS_QUOTES = re.compile(r"""['"`\\$\[\]{}()<>]""")
"""Characters that may end a quoted text or name in any dialect, or Oracle's q'[…]'."""
_NO_FOLDER = re.compile(r"[a-z][a-z0-9+.-]*:/*")
_PATTERN = re.compile(r"[*?\[\]{}\\\x00-\x1f]|://")


def into_spark(sql: str, data: Mapping[str, Value]) -> str:
    """Insert the values into a query for Spark; raise TerminalStepError if one could become SQL."""

    def accept(name: str, text: str, quote: str) -> str:
        if re.search(r"""['"`\\]""", text) or (quote == "`" and "/" in text):
            raise _build_error(name, text, "it would close its quotes", f"write :{name}")
        return text

    return _fill(sql, data, "spark", accept, "write :{name}")


def into_database(sql: str, data: Mapping[str, Value], dialect: str) -> str:
    """Insert the values into a query or table name of the SQL `dialect`.

    A value between single quotes is a literal, in which only quotes are doubled. Backslashes are
    refused, because some databases interpret them. Raises TerminalStepError if a value could become
    SQL.
    """

    def accept(name: str, text: str, quote: str) -> str:
        if quote == "'" and "\\" not in text:
            return text.replace("'", "''")
        if _ENDS_QUOTES.search(text):
            raise _build_error(name, text, "it would close its quotes", "exclude such rows")
        return text

    fix = "put it in single quotes, or exclude such rows"
    return _fill(sql, data, dialect, accept, fix)


def into_path(path: str, data: Mapping[str, Value]) -> str:
    """Insert the values into a path; raise TerminalStepError if one leads out of its folder."""
    first = next((m for m in _REFERENCE.finditer(path) if m[1] in data), None)
    if first is None:
        return path
    folder = path[: path.rfind("/", 0, first.start()) + 1]
    if not folder or _NO_FOLDER.fullmatch(folder):
        fix = "write a folder before it, such as s3://bucket/"
        raise TerminalStepError(f"the path {path} must not begin with a value of data; {fix}")

    def accept(match: re.Match[str]) -> str:
        if match[1] not in data:
            return match[0]
        text = str(data[match[1]])
        if _PATTERN.search(text):
            raise _build_error(match[1], text, "it is not a plain path", "exclude such rows")
        return text

    filled = _REFERENCE.sub(accept, path)
    if ".." in filled[len(folder) :].split("/"):
        text = str(data[first[1]])
        raise _build_error(first[1], text, f"it leads out of {folder}", "exclude such rows")
    return filled


def _fill(
    sql: str,
    data: Mapping[str, Value],
    dialect: str,
    accept: Callable[[str, str, str], str],
    fix: str,
) -> str:
    """Return the query with the values in it; `accept` escapes each one between quotes."""
    names = [match[1] for match in _REFERENCE.finditer(sql) if match[1] in data]
    if not names:
        return sql

    def value(quote: str, name: str) -> str:
        text = str(data[name])
        if not isinstance(data[name], str) or _WORDS.fullmatch(text):
            return text
        if quote and not template.only_words:
            return accept(name, text, quote)
        problem = "outside of quotes, only words and numbers are allowed"
        if quote:
            problem = f"servers read the string literals of this query differently ({dialect})"
        raise _build_error(name, text, problem, fix.format(name=name))

    try:
        template = _Template(sql, names, dialect)
        return template.fill(value, lambda name: str(data[name]))
    except UnreadableSqlError as error:
        named = ", ".join(f"${{{name}}}" for name in dict.fromkeys(names))
        problem = f"the query cannot be read with {named} in it: {error}"
        raise TerminalStepError(f"{problem}; {fix.format(name=names[0])}") from None


class _Template:
    """A query with placeholders for its values, split by the tokenizer of its dialect."""

    def __init__(self, sql: str, names: Sequence[str], dialect: str) -> None:
        """Tokenize the query; `names` are the references to replace, in their order.

        Raises UnreadableSqlError if the query cannot be tokenized.
        """
        stem = "ld"
        while stem in sql:
            stem += "q"
        numbers = iter(range(len(names)))
        self._names, self._dialect = names, dialect
        self._mark = re.compile(rf"{stem}(\d+)_")
        self._text = _REFERENCE.sub(
            lambda match: f"{stem}{next(numbers)}_" if match[1] in names else match[0], sql
        )
        self._lexemes = list_lexemes(self._text, dialect)
        self.only_words = is_ambiguous(self._text, dialect, self._lexemes)
        """True if the tokenizer may place quotes and comments differently than the server."""

    def fill(self, written: Callable[[str, str], str], meant: Callable[[str], str]) -> str:
        """Return the query with its values; references in comments stay as they are.

        `written` returns the text to insert for a quote and a name within it, `meant` the value
        itself. Apart from the values, the result must have the tokens of the template. Raises
        UnreadableSqlError otherwise, for example if a negative number turns a minus into a comment.
        """
        parts, expected, end = list[str](), list[tuple[str, str]](), 0
        for lexeme in self._lexemes:
            raw, quote = self._text[lexeme.start : lexeme.end], lexeme.quote_in(self._text)
            filled = self._replace_marks(raw, partial(written, quote))
            parts += [self._text[end : lexeme.start], filled]
            end = lexeme.end
            if quote or filled == raw:
                expected.append((lexeme.kind, self._replace_marks(lexeme.text, meant)))
            else:
                expected += _contents(filled, self._dialect)
        made = self._replace_marks("".join([*parts, self._text[end:]]), "${{{}}}".format)
        if expected != _contents(made, self._dialect):
            raise UnreadableSqlError("the value would change the meaning of the query")
        return made

    def _replace_marks(self, text: str, by: Callable[[str], str]) -> str:
        return self._mark.sub(lambda match: by(self._names[int(match[1])]), text)


def _contents(sql: str, dialect: str) -> list[tuple[str, str]]:
    return [(lexeme.kind, lexeme.text) for lexeme in list_lexemes(sql, dialect)]


def _build_error(name: str, text: str, problem: str, fix: str) -> TerminalStepError:
    return TerminalStepError(f"${{{name}}} is {text!r} in the data: {problem}; {fix}")
