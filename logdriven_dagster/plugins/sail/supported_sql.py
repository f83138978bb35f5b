"""Allowlist of SQL that returns the same rows on Sail as on Spark.

`tests/engine/spark/sail/test_the_list.py` runs each entry on both engines, over NULL, extremes and
every character, and fails for an entry that it does not cover. All other SQL is rejected.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal[
    "boolean", "int", "bigint", "double", "string", "date", "timestamp", "decimal", "void"
]
"""Type name without precision and scale; `void` is the type of NULL."""


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a column or value."""

    kind: Kind
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        """Return the type in Spark's notation."""
        given = f"({self.precision},{self.scale})" if self.kind == "decimal" else ""
        return f"{self.kind}{given}"


VERSION: Final = "0.7.2"
"""Version of Sail for which the list was tested."""

STORED: Final = ("boolean", "int", "bigint", "double", "string", "date", "timestamp", "decimal")
"""Types of columns that can be read and written."""

WHOLE: Final = {"int": 10, "bigint": 20}
"""Decimal digits needed for each integer type."""

MOST_DIGITS: Final = 38

COMPARED: Final = frozenset({"boolean", "string", "date", "timestamp", "int", "bigint", "decimal"})
"""Types that may be compared and grouped by; not doubles, whose -0.0 and NaN sort differently."""

ORDERED: Final = frozenset({"string", "date", "timestamp", "int", "bigint", "decimal"})
"""Types that min and max accept."""

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
"""Pairs of source and target type. A number out of range fails the query, as on Spark."""

COMPARISONS: Final = ("=", "<>", "<", "<=", ">", ">=", "<=>")
ARITHMETIC: Final = ("+", "-", "*")
"""Operators for integers and decimals.

Integer operations are computed as decimals, which detect overflow.
"""

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
"""Maximum precision of summed decimals: a sum has ten more digits, and must not overflow."""
