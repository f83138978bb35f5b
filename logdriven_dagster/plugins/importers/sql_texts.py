"""Scripts of other systems, split into statements."""

from collections.abc import Iterator

from logdriven_dagster.plugins.importers.drafts import UntranslatableError


def split_statements(sql: str, dialect: str | None) -> Iterator[str]:
    """Yield the statements of a script, split at semicolons outside quotes and comments.

    `dialect` is sqlglot's name. Raises UntranslatableError if the script cannot be tokenized.
    """
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError
    from sqlglot.tokenizer_core import TokenType

    try:
        tokens = Dialect.get_or_raise(dialect).tokenize(sql)
    except SqlglotError:
        raise UntranslatableError("its SQL cannot be split into statements") from None
    start, words = 0, 0
    for token in tokens:
        if token.token_type is not TokenType.SEMICOLON:
            words += 1
            continue
        if words:
            yield sql[start : token.start].strip()
        start, words = token.end + 1, 0
    if words:
        yield sql[start:].strip()
