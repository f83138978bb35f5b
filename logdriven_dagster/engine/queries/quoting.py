"""Quoting of column names and texts in SQL."""


def quote_name(name: str) -> str:
    """Quote a column name for the text of a query."""
    return f"`{name.replace('`', '``')}`"


def reference(name: str) -> str:
    """Quote a column, or a field after dots, with the meaning of `frame[name]`."""
    return name if "`" in name else ".".join(map(quote_name, name.split(".")))


def text_literal(text: str) -> str:
    """Quote a text as a value in Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def plain(name: str) -> str:
    """Return the name for use within a text, without characters that SQL parsers interpret.

    Braces would be placeholders of `exact_values.Exact`.
    """
    return name.replace("'", "’").replace("\\", "/").replace("{", "(").replace("}", ")")
