"""What of SQL gives on Sail the very rows that it gives on Spark: the list, and nothing else.

`tests/engine/spark/sail/test_the_list.py` runs each entry on both engines, over NULL, extremes
and every character, and fails for an entry that it does not run. What is not here is refused.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal[
    "boolean", "int", "bigint", "double", "string", "date", "timestamp", "decimal", "void"
]
"""A type without its numbers; `void` is the type of NULL."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type of a column or value."""

    kind: Kind
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        """Return the type as Spark writes it."""
        given = f"({self.precision},{self.scale})" if self.kind == "decimal" else ""
        return f"{self.kind}{given}"


VERSION: Final = "0.7.2"
"""The version of Sail of which the list holds."""

STORED: Final = ("boolean", "int", "bigint", "double", "string", "date", "timestamp", "decimal")
"""Types of columns that are read and written."""

WHOLE: Final = {"int": 10, "bigint": 20}
"""Whole numbers → the digits that a decimal of theirs has."""

MOST_DIGITS: Final = 38

COMPARED: Final = frozenset({"boolean", "string", "date", "timestamp", "int", "bigint", "decimal"})
"""Types whose values are compared with each other and grouped by: not doubles, of which -0.0 and
NaN are ordered in another way."""

ORDERED: Final = frozenset({"string", "date", "timestamp", "int", "bigint", "decimal"})
"""Types that min and max take."""

CASTS: Final = frozenset(
    {
        *(("int", to) for to in ("int", "bigint", "decimal", "string")),
        *(("bigint", to) for to in ("int", "bigint", "decimal", "string")),
        *(("decimal", to) for to in ("decimal", "string")),
        *(("date", to) for to in ("date", "string")),
        *(("timestamp", to) for to in ("timestamp", "date")),
        ("string", "string"),
        ("boolean", "boolean"),
        ("double", "double"),
    }
)
"""From → to. A number that does not fit fails the query, as on Spark."""

COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=", "<=>")
ARITHMETIC: Final = ("+", "-", "*")
"""Of whole numbers and decimals; those of whole numbers are computed as decimals, which notice
what does not fit any more."""

OF_TEXT: Final = ("upper", "lower", "length", "concat")
OF_DATES: Final = ("year", "month", "day")
CONDITIONAL: Final = ("coalesce", "case", "if")
AGGREGATES: Final = ("count", "count_distinct", "count_all", "sum", "min", "max")

JOINS: Final = ("INNER", "LEFT")
CLAUSES: Final = (
    "where",
    "group by",
    "having",
    "distinct",
    "join",
    "with",
    "subquery",
    "union all",
)

MOST_SUMMED_DIGITS: Final = 28
"""A sum has ten digits more than its decimals; where they have more of them, it could overflow."""
