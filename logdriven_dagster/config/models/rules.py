"""Built-in data quality rules: names, parameters, and Sharp ETL's names for them.

All rules accept NULL, except those about NULL itself: use `not_null` for required columns.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

LATEST_REFRESH = "latest_refresh"
"""Name of the Dagster asset check that shows failed refreshes of a table."""


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """Message of a built-in rule, and its required, optional and alternative parameters."""

    says: str
    needs: frozenset[str] = frozenset()
    takes: frozenset[str] = frozenset()
    one_of: frozenset[str] = frozenset()


def _rule(says: str, *needs: str, takes: tuple[str, ...] = (), any_of: bool = False) -> BuiltIn:
    return BuiltIn(says, frozenset(needs), frozenset(takes), frozenset(takes if any_of else ()))


BUILT_IN: Mapping[str, BuiltIn] = {
    "not_null": _rule("the value is not NULL"),
    "not_null_text": _rule("the value is not NULL and not the word null"),
    "not_empty": _rule("a text is not empty"),
    "not_blank": _rule("the value is not NULL and not only white space"),
    "unique": _rule("no other row has this value"),
    "one_of": _rule("the value is one of these", "values"),
    "none_of": _rule("the value is not one of these", "values"),
    "in_range": _rule("min ≤ value ≤ max", takes=("min", "max"), any_of=True),
    "positive": _rule("the value is greater than 0"),
    "not_negative": _rule("the value is not less than 0"),
    "matches": _rule("the text matches the regular expression", "pattern"),
    "castable": _rule("the text can be read as the type", "type"),
    "min_length": _rule("the text has at least this number of characters", "min"),
    "max_length": _rule("the text has at most this number of characters", "max"),
    "references": _rule("the table has a row with this value", "table", takes=("column",)),
}

PARAMETERS = frozenset({"columns"}).union(*(rule.needs | rule.takes for rule in BUILT_IN.values()))


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name of a built-in rule."""

    rule: str
    level: Literal["warn", "error"]
    parameters: Mapping[str, Any] = field(default_factory=dict)


ALIASES: Mapping[str, Alias] = {
    "null check": Alias("not_null", "error"),
    "power null check": Alias("not_null_text", "error"),
    "empty check": Alias("not_empty", "warn"),
    "duplicated check": Alias("unique", "warn"),
    "mismatch dim check": Alias("none_of", "warn", {"values": ("-1",)}),
}
"""The rules of Sharp ETL's own quality-check.yaml, with the levels that they have there."""
