"""Built-in data quality rules as conditions of bad rows.

NULL makes a condition NULL, not a violation, except for rules about NULL. Source: Sharp ETL,
BuiltInFunctions.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, TypeAlias

from logdriven_dagster.engine.spark import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import Column

Parameters: TypeAlias = Mapping[str, Any]
Condition: TypeAlias = "Callable[[Column, Parameters], Column]"


def _text(value: "Column") -> "Column":
    return value.cast("string")


def _not_null_text(value: "Column", _: Parameters) -> "Column":
    return value.isNull() | (sf.lower(sf.trim(_text(value))) == "null")


def _not_blank(value: "Column", _: Parameters) -> "Column":
    return value.isNull() | (sf.trim(_text(value)) == "")


def _in_range(value: "Column", given: Parameters) -> "Column":
    outside: list[Column] = []
    outside += [value < given["min"]] if "min" in given else []
    outside += [value > given["max"]] if "max" in given else []
    return reduce(or_, outside)


def _length(value: "Column") -> "Column":
    return sf.char_length(_text(value))


def _castable(value: "Column", given: Parameters) -> "Column":
    return value.isNotNull() & value.try_cast(given["type"]).isNull()


CONDITIONS: Mapping[str, Condition] = {
    "not_null": lambda value, _: value.isNull(),
    "not_null_text": _not_null_text,
    "not_empty": lambda value, _: _text(value) == "",
    "not_blank": _not_blank,
    "one_of": lambda value, given: ~value.isin(*given["values"]),
    "none_of": lambda value, given: value.isin(*given["values"]),
    "in_range": _in_range,
    "positive": lambda value, _: value <= 0,
    "not_negative": lambda value, _: value < 0,
    "matches": lambda value, given: ~_text(value).rlike(given["pattern"]),
    "castable": _castable,
    "min_length": lambda value, given: _length(value) < given["min"],
    "max_length": lambda value, given: _length(value) > given["max"],
}
"""Rule → condition of a violation; `unique` and `references` need more than the row."""
