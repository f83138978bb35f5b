"""Names of columns in the text of SQL."""


def quoted(name: str) -> str:
    """The name where a column is meant."""
    return f"`{name.replace('`', '``')}`"


def reference(name: str) -> str:
    """A column, or by dots a field of one: what `frame[name]` means."""
    return name if "`" in name else ".".join(map(quoted, name.split(".")))


def text_literal(text: str) -> str:
    """The text as a value in SQL of Spark."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def plain(name: str) -> str:
    """The name within a text, whatever the parser makes of quotes and backslashes there.

    Braces would be places of `exact_values.Exact`.
    """
    return name.replace("'", "’").replace("\\", "/").replace("{", "(").replace("}", ")")
