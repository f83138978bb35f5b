"""Scripts of other systems, split into statements."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from logdriven_dagster.plugins.importers.drafts import UntranslatableError

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token


_ROUTINES = frozenset({"PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE"})
_QUERIES = frozenset({"SELECT", "WITH", "VALUES", "("})
_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE"})


def split_statements(sql: str, dialect: str | None) -> Iterator[str]:
    """Yield the statements of a script, split at semicolons outside quotes and comments.

    `dialect` is sqlglot's name. Raises UntranslatableError if the script cannot be tokenized, or
    if a semicolon may be within a statement: in the body of a procedure or in a block.
    """
    from sqlglot.tokenizer_core import TokenType

    start, words = 0, list[str]()
    for token in _tokenize(sql, dialect):
        if token.token_type is not TokenType.SEMICOLON:
            words.append(token.text.upper())
            continue
        if words:
            _refuse_block(words)
            yield sql[start : token.start].strip()
        start, words = token.end + 1, []
    if words:
        _refuse_block(words)
        yield sql[start:].strip()


def has_statements(sql: str, dialect: str | None) -> bool:
    """Return True if a script has more than blanks, comments and semicolons."""
    from sqlglot.tokenizer_core import TokenType

    return any(token.token_type is not TokenType.SEMICOLON for token in _tokenize(sql, dialect))


def is_query(statement: str, dialect: str | None) -> bool:
    """Return True if a statement only reads rows, so that it can be a part of another query."""
    words, depth = list[str](), 0
    for token in _tokenize(statement, dialect):
        depth -= token.text == ")"
        if depth == 0:
            words.append(token.text.upper())
        depth += token.text == "("
    first = words[0] if words else ""
    return first in _QUERIES and not (first == "WITH" and _CHANGES.intersection(words))


def _tokenize(sql: str, dialect: str | None) -> "list[Token]":
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError

    try:
        return Dialect.get_or_raise(dialect).tokenize(sql)
    except SqlglotError:
        raise UntranslatableError("its SQL cannot be split into statements") from None


def _refuse_block(words: Sequence[str]) -> None:
    """Raise UntranslatableError for a statement that may contain semicolons, by its words."""
    is_routine = words[0] == "CREATE" and "BEGIN" in words and _ROUTINES.intersection(words)
    is_block = words[0] == "DECLARE" or (
        words[0] == "BEGIN" and words[1:2] not in ([], ["TRANSACTION"], ["TRAN"], ["WORK"])
    )
    if is_routine or is_block or words[0] == "DELIMITER":
        raise UntranslatableError(
            "it has a block of statements (BEGIN … END), which cannot be split; create it as a "
            "procedure in the database, and CALL it"
        )
