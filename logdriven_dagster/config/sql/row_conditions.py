"""Conditions on a row that must have the same result in each run."""

from logdriven_dagster.config.sql.lexing import list_lexemes

_TIMES = frozenset({"current_timestamp", "current_date", "current_time", "localtimestamp"})
"""Functions that Spark also accepts without parentheses."""
_CHANGING = _TIMES | {
    *("now", "curdate", "rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle"),
    *("current_user", "session_user", "user", "current_catalog", "current_database"),
    *("current_schema", "monotonically_increasing_id", "spark_partition_id", "input_file_name"),
    *("input_file_block_start", "input_file_block_length", "reflect", "try_reflect"),
    "java_method",
}
"""Functions of Spark whose results depend on more than their arguments."""
_RELATIVE = frozenset({"now", "today", "yesterday", "tomorrow"})
"""Texts that mean another time on each day, as in `DATE 'today'`."""
_TYPES = ("DATE", "TIMESTAMP", "TIMESTAMPNTZ")


def find_changing_part(condition: str) -> str | None:
    """Return the first part of a condition of Spark whose value may differ between two runs.

    Such a part is a query, or a function of the time, the place or a random number. Raises
    UnreadableSqlError.
    """
    before, found = "", list_lexemes(condition, "spark")
    for n, lexeme in enumerate(found):
        name, after = lexeme.text.lower(), [each.kind for each in found[n + 1 : n + 3]]
        is_called = after[:1] == ["L_PAREN"]
        if lexeme.kind == "SELECT":
            return "a query"
        if lexeme.kind.endswith("STRING"):
            if name in _RELATIVE and before in _TYPES:
                return f"{before} '{lexeme.text}'"
        elif name in _CHANGING and is_called:
            return f"{name}()"
        elif name in _TIMES and before != "DOT" and lexeme.kind != "IDENTIFIER":
            return name
        elif name == "unix_timestamp" and after == ["L_PAREN", "R_PAREN"]:
            return f"{name}()"
        before = lexeme.kind
    return None
