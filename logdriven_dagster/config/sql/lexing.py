"""Lexical structure of SQL, by sqlglot's tokenizer of each dialect."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from logdriven_dagster.config.sql.references import UnreadableSqlError

_DIALECTS = {"postgresql": "postgres", "mariadb": "mysql", "mssql": "tsql"}
"""Dialect names of sqlglot that differ from SQLAlchemy's."""

_COMMON = r"\{[{%#]|\r(?!\n)|(?![ \t\r\n])\s"
"""Texts read differently by sqlglot (Jinja templates) or by servers (other blanks)."""

_AMBIGUOUS = {
    # A backslash at the end of a line continues a comment; sqlglot does not support dollar quotes.
    "spark": re.compile(rf"\\[\r\n]|\$[A-Za-z]*\$|{_COMMON}"),
    # An executed comment is SQL; sqlglot reads each one as a comment.
    "mysql": re.compile(rf"\\|/\*M?!|{_COMMON}"),
}
_AMBIGUOUS_ELSEWHERE = re.compile(rf"\\|(?i:\bUESCAPE\b)|{_COMMON}")
"""Texts that are ambiguous in other dialects: escaping by backslash is a server setting, and a
query of PostgreSQL can name another character for it.
"""

_COMMENT = re.compile(r"--|/\*|\*/")


class Lexeme(NamedTuple):
    """One token of a query."""

    kind: str
    """Name of sqlglot's `TokenType`."""
    text: str
    """Unquoted, unescaped content of a quoted token; the text of any other token."""
    start: int
    end: int

    def quote_in(self, sql: str) -> str:
        """Return the closing quote of a quoted token, or an empty string for other tokens."""
        is_quoted = self.kind.endswith("STRING") or self.kind == "IDENTIFIER"
        last = sql[self.end - 1 : self.end]
        return last if is_quoted and last in "'\"`]$" else ""


def get_dialect(backend: str) -> str:
    """Return sqlglot's dialect name for a backend of SQLAlchemy."""
    return _DIALECTS.get(backend, backend)


def list_lexemes(sql: str, dialect: str) -> list[Lexeme]:
    """Return the tokens of a query, without comments.

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
    """Return True if a server may find quotes and comments in other places than `list_lexemes` did.

    `found` is the result of `lexemes`. A comment may begin within text that sqlglot reads as
    operators, such as `#--`, and sqlglot does not tokenize the rest of a command after its first
    word.
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
