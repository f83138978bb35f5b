"""The sides, the rule and the result of a comparison."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from logdriven_dagster.model.windows import TimeWindow


@dataclass(frozen=True, slots=True)
class TableRows:
    """The published rows of a table of the project."""

    table: str
    window: TimeWindow | None = None
    """The range of windows to which the rows are limited; None for all rows."""
    snapshot: str | None = None
    """The snapshot or version of the target; None for the current one."""


@dataclass(frozen=True, slots=True)
class QueryRows:
    """The result of a query on a database."""

    connection: str
    sql: str


Side: TypeAlias = TableRows | QueryRows


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule by which rows are compared."""

    key: tuple[str, ...] = ()
    """The columns that identify a row; without them, equal rows are counted."""
    requires_key: bool = False
    """True if a key that a side lacks is refused, and not left out."""
    columns: tuple[str, ...] | None = None
    """The only columns to compare, in addition to the key; None for all."""
    exclude: tuple[str, ...] = ()
    tolerance: float | None = None
    """The largest difference between equal values of FLOAT and DOUBLE columns; None: exact."""
    examples: int = 0
    """The number of examples for each kind of difference."""


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """A column that the sides do not share, or that has two types."""

    column: str
    left: str | None
    """The type on the left side; None if it has no such column."""
    right: str | None
    is_compared: bool = False
    """True if values of both types are compared in a common type."""


@dataclass(frozen=True, slots=True)
class Example:
    """A row on one side only, or a column with two values; all values are text."""

    column: str | None
    """The column that differs; None for a row on one side only."""
    row: Mapping[str, str | None]
    """The key of the row; without a key, or on one side only, all compared columns."""
    left: str | None = None
    """The value on the left side; of a row, the number of its copies there."""
    right: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between the rows of two sides."""

    key: tuple[str, ...]
    """The columns that identify a row; empty if there is no key."""
    left_rows: int
    right_rows: int
    only_left: int
    only_right: int
    differing: int
    """Rows with the same key and other values."""
    columns: Mapping[str, int]
    """Column → the number of rows in which it differs, for columns with differences."""
    schema: tuple[SchemaDifference, ...] = ()
    duplicates: tuple[int, int] | None = None
    """The number of keys with several rows, left and right, so that equal rows were counted."""
    examples: tuple[Example, ...] = ()

    @property
    def is_equal(self) -> bool:
        """True if the sides have the same columns and the same rows."""
        return not (self.only_left or self.only_right or self.differing or self.schema)

    @property
    def matched_rows(self) -> int:
        """The rows that both sides have, with the same key or, without a key, the same values."""
        return self.left_rows - self.only_left
