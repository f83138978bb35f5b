"""Lexical structure of SQL, by sqlglot's tokenizer of each dialect."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from logdriven_dagster.config.sql.references import UnreadableSqlError

_DIALECTS = {"postgresql": "postgres", "mariadb": "mysql", "mssql": "tsql"}
"""SQLAlchemy's names where sqlglot has others."""

_COMMON = r"\{[{%#]|\r(?!\n)|(?![ \t\r\n])\s"
"""sqlglot reads templates of Jinja; servers differ in which other characters are blanks."""

_AMBIGUOUS = {
    # A comment goes on after a backslash at the end of its line; sqlglot knows no dollar quotes.
    "spark": re.compile(rf"\\[\r\n]|\$[A-Za-z]*\$|{_COMMON}"),
    # An executed comment is SQL; sqlglot reads every one as a comment.
    "mysql": re.compile(rf"\\|/\*M?!|{_COMMON}"),
}
_AMBIGUOUS_ELSEWHERE = re.compile(rf"\\|{_COMMON}")
"""Whether a backslash escapes is a setting of the server."""

_COMMENT = re.compile(r"--|/\*|\*/")


class Lexeme(NamedTuple):
    """One token of a query."""

    kind: str
    """The name of sqlglot's `TokenType`."""
    text: str
    """What a quoted token holds, without its quotes and escapes; of others the token itself."""
    start: int
    end: int

    def quote_in(self, sql: str) -> str:
        """Return what ends this token, if it is a text or a quoted name; else an empty text."""
        is_quoted = self.kind.endswith("STRING") or self.kind == "IDENTIFIER"
        last = sql[self.end - 1 : self.end]
        return last if is_quoted and last in "'\"`]$" else ""


def dialect_named(backend: str) -> str:
    """Return sqlglot's name of a backend of SQLAlchemy."""
    return _DIALECTS.get(backend, backend)


def lexemes(sql: str, dialect: str) -> list[Lexeme]:
    """Return the tokens of a query; comments are no tokens.

    A dialect that sqlglot does not know is read as standard SQL. Raises UnreadableSqlError.
    """
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError

    try:
        found = (Dialect.get(dialect) or Dialect)().tokenize(sql)
    except (SqlglotError, ValueError) as error:
        raise UnreadableSqlError(str(error)) from None
    return [Lexeme(each.token_type.name, each.text, each.start, each.end + 1) for each in found]


def is_ambiguous(sql: str, dialect: str, found: Sequence[Lexeme]) -> bool:
    """Whether a server may see quotes and comments in other places than `lexemes` found them.

    A comment may begin within what sqlglot takes for operators, such as `#--`, and it does not
    read what follows the first word of a command.
    """
    from sqlglot.dialects.dialect import Dialect

    if not Dialect.get(dialect) or _AMBIGUOUS.get(dialect, _AMBIGUOUS_ELSEWHERE).search(sql):
        return True
    if any(lexeme.kind == "COMMAND" for lexeme in found):
        return True
    bare, end = list[str](), 0
    for lexeme in found:
        if lexeme.start > end:
            bare.append(" ")
        bare.append(lexeme.quote_in(sql) or sql[lexeme.start : lexeme.end])
        end = lexeme.end
    return _COMMENT.search("".join(bare)) is not None
