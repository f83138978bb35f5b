"""Names of columns in the text of SQL."""


def quoted(name: str) -> str:
    """Quote a name for the text of a query where it means a column."""
    return f"`{name.replace('`', '``')}`"


def reference(name: str) -> str:
    """Quote a column, or by dots a field of one, as `frame[name]` means it."""
    return name if "`" in name else ".".join(map(quoted, name.split(".")))


def text_literal(text: str) -> str:
    """Quote a text as a value in Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def plain(name: str) -> str:
    """Return the name within a text, whatever the parser makes of quotes and backslashes there.

    Braces would be places of `exact_values.Exact`.
    """
    return name.replace("'", "’").replace("\\", "/").replace("{", "(").replace("}", ")")
