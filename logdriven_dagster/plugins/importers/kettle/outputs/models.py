"""The table that a transformation writes, and the rules of its output."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

UpdateType: TypeAlias = Literal["insert", "update", "punch through"]
StampType: TypeAlias = Literal[
    "dateinsertedorupdated", "dateinserted", "dateupdated", "lastversion"
]


@dataclass(frozen=True, slots=True)
class Dimension:
    """Columns and rules of a Dimension lookup / update, which keeps versions of its rows."""

    technical_key: str
    version: str
    date_from: str
    date_to: str
    date: str
    """Field with the time of a change; empty for the time of the run."""
    first_year: int
    last_year: int
    updates: Mapping[str, UpdateType]
    """Columns that take fields, and the effect of a change."""
    stamps: Mapping[str, StampType]
    """Columns that Kettle fills itself."""
    is_numbered: bool
    """True if new rows get numbers after the greatest one; False if the database numbers them."""
    starts_now: bool
    """True if the first version starts at the time of its row, and not in the first year."""


@dataclass(frozen=True, slots=True)
class Output:
    """Table output, or Insert / update or Combination lookup / update if it has a key."""

    step: str
    connection: str
    schema: str
    table: str
    truncate: bool
    fields: tuple[tuple[str, str], ...]
    """Pairs of stream field and table column; empty if all names are equal."""
    key: tuple[str, ...] = ()
    """Columns that identify a row of the target."""
    kept: tuple[str, ...] = ()
    """Columns that are inserted and never updated."""
    inserts_only: bool = False
    """True if rows that the table has are left out."""
    finds_null: bool = False
    """True if NULL in a key finds NULL."""
    technical_key: str = ""
    """Column with numbers of new rows, after the greatest one of the table."""
    dimension: Dimension | None = None
    """Rules for versions of its rows; None if it has one row for each key."""

    @property
    def lookup_key(self) -> tuple[str, ...]:
        """Columns by which a row is looked up in the table."""
        if self.dimension is not None:
            return tuple(c for _, c in self.fields if c not in self.dimension.updates)
        if self.technical_key:
            return tuple(column for _, column in self.fields)
        return self.key

    @property
    def number_column(self) -> str:
        """The column in which new rows get numbers after the greatest one; empty without one."""
        if self.dimension is not None and self.dimension.is_numbered:
            return self.dimension.technical_key
        return self.technical_key

    @property
    def own_columns(self) -> tuple[str, ...]:
        """Columns of its own table that it reads; empty if it reads none."""
        if (kept := self.dimension) is not None:
            first = (kept.technical_key, kept.version, kept.date_from, kept.date_to)
            return (*first, *(column for _, column in self.fields), *kept.stamps)
        if not self.kept and not self.inserts_only:
            return ()
        technical = (self.technical_key,) if self.technical_key else ()
        return tuple(dict.fromkeys((*self.lookup_key, *self.kept, *technical)))
