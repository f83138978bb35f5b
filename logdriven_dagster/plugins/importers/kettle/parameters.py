"""Parameters of a Table input, which it takes from the row of another one.

The row is a step of its own, and the query runs in a loop over it. A value is a text in the query,
which each database converts to a time as it converts a parameter of JDBC.
"""

from logdriven_dagster.plugins.importers.drafts import UntranslatableError
from logdriven_dagster.plugins.importers.kettle.comparisons import literal

_TEXT = "CAST({} AS STRING)"
_DIGITS = "date_format({}, 'yyyyMMddHHmmssSSSSSS')"
_VALUES = {
    "postgres": (_TEXT, "'{}'"),
    "mysql": (_TEXT, "'{}'"),
    "tsql": (_TEXT, "CAST('{}' AS datetime2)"),
    # A text with colons would contain variables, and Oracle converts others by its own settings.
    "oracle": (_DIGITS, "TO_TIMESTAMP('{}', 'YYYYMMDDHH24MISSFF6')"),
}
"""Text of a time for each dialect of sqlglot, and its literal in the query."""


def find_parameters(step: str, query: str, dialect: str | None) -> list[int]:
    """Return the positions of parameters (`?`) in a query, outside of quotes and comments."""
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError
    from sqlglot.tokenizer_core import TokenType

    try:
        tokens = Dialect.get_or_raise(dialect).tokenize(query)
    except SqlglotError:
        raise UntranslatableError(f"{step}: its SQL cannot be split into words") from None
    return [token.start for token in tokens if token.token_type is TokenType.PLACEHOLDER]


def insert_parameters(step: str, query: str, dialect: str | None) -> str:
    """Return a query with values of the row `row_p0`, `row_p1` and so on as its parameters.

    Raises UntranslatableError for databases whose conversion of a text to a time is not known.
    """
    text = _find_value(step, dialect)[1]
    for number, start in reversed(list(enumerate(find_parameters(step, query, dialect)))):
        value = text.format(f"${{row_p{number}}}")
        query = f"{query[:start]}{value}{query[start + 1 :]}"
    return query


def _find_value(step: str, dialect: str | None) -> tuple[str, str]:
    if dialect is None or dialect not in _VALUES:
        raise UntranslatableError(
            f"{step}: how its database converts parameters is not known; join their row in SQL, or "
            "use time windows with :data_range_start in place of the last time"
        )
    return _VALUES[dialect]


def select_parameters(step: str, count: int, limit: int, dialect: str | None) -> str:
    """Return the query of the values that `step` gives to another one, from its only row.

    Args:
        step: The Table input that reads the row.
        count: The number of parameters, which is the number of its columns.
        limit: The number of rows that it reads; 0 for all.
        dialect: The dialect of the query that uses the values.
    """
    names = [f"p{number}" for number in range(count)]
    several = literal(f"{step}: it must read one row, whose values are the parameters of a query")
    values = [
        f"IF(count(*) OVER () > 1, raise_error({several}), {_check(step, name, dialect)}) AS {name}"
        for name in names
    ]
    rows = f"(SELECT * FROM source LIMIT {limit})" if limit else "source"
    return f"SELECT {', '.join(values)}\nFROM {rows} AS s({', '.join(names)})"


def _check(step: str, name: str, dialect: str | None) -> str:
    """Return the text of a value: of a time, and in PostgreSQL of a whole number or a text, too."""
    number = int(name[1:]) + 1
    types = "'date', 'timestamp', 'timestamp_ntz'"
    what = "a time"
    if dialect == "postgres":
        types += ", 'smallint', 'int', 'bigint', 'string'"
        what = "a time, a whole number or a text"
    other = literal(
        f"{step}: parameter {number} must be {what}; write the condition of the query without it"
    )
    null = literal(f"{step}: parameter {number} is NULL; select another value with coalesce")
    text = _find_value(step, dialect)[0].format(name)
    return (
        f"CASE WHEN {name} IS NULL THEN raise_error({null}) "
        f"WHEN typeof({name}) NOT IN ({types}) THEN raise_error({other}) ELSE {text} END"
    )
