"""Types with which Spark reads the columns of a database exactly, as measured with JDBC drivers.

SQLite's driver guesses from declared types: DATETIME loses its time of day, microseconds become
milliseconds that overflow, INTEGER has 32 bits and any unknown type is a number. Therefore each
column of SQLite is declared with its type, and times are read as text.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.queries.quoting import quote_name
from logdriven_dagster.plugins.importers.database.reflection import DatabaseColumn

if TYPE_CHECKING:
    from sqlalchemy.types import TypeEngine

_DIGITS = 38


@dataclass(slots=True)
class ExactReading:
    """Settings of a step with which Spark reads every column unchanged."""

    schema: dict[str, str] = field(default_factory=dict)
    """Type of each column for Spark's option `customSchema`."""
    casts: dict[str, str] = field(default_factory=dict)
    """Type to which the text of each column is cast."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Reason for each column that Spark cannot read."""
    notes: dict[str, str] = field(default_factory=dict)
    """Remark on the conversion of each column."""

    @property
    def custom_schema(self) -> str:
        return ", ".join(f"{quote_name(name)} {kind}" for name, kind in self.schema.items())

    def query(self, columns: Iterable[DatabaseColumn]) -> str | None:
        """Return the query over `source` that casts, or None if there is nothing to cast."""
        if not self.casts:
            return None
        parts = [
            f"CAST({quote_name(c.name)} AS {self.casts[c.name]}) AS {quote_name(c.name)}"
            if c.name in self.casts
            else quote_name(c.name)
            for c in columns
            if c.name not in self.left_out
        ]
        return "SELECT\n  " + ",\n  ".join(parts) + "\nFROM source\n"


def reading_of(columns: Iterable[DatabaseColumn], dialect: str) -> ExactReading:
    """Return the exact reading of a table's columns, for any dialect of SQLAlchemy."""
    reading = ExactReading()
    for column in columns:
        if dialect == "sqlite":
            _sqlite(reading, column)
        else:
            _server(reading, column)
    return reading


def _sqlite(reading: ExactReading, column: DatabaseColumn) -> None:
    import sqlalchemy as sa

    kind = column.kind
    if isinstance(kind, (sa.DateTime, sa.Date)):
        reading.casts[column.name] = "TIMESTAMP" if isinstance(kind, sa.DateTime) else "DATE"
    named = _find_name(kind, _SQLITE())
    if isinstance(kind, sa.Numeric) and not isinstance(kind, sa.Float):
        known = kind.precision is not None and kind.precision <= _DIGITS
        named = f"DECIMAL({kind.precision},{kind.scale or 0})" if known else None
    if named is None and column.name not in reading.casts:
        reading.notes[column.name] = f"{kind!r} is read as text: SQLite can store any value there"
    reading.schema[column.name] = named or "STRING"


def _SQLITE() -> Mapping[type, str]:  # noqa: N802 - a constant whose import is slow
    import sqlalchemy as sa

    return {
        sa.Boolean: "BOOLEAN",
        sa.Integer: "BIGINT",
        sa.Float: "DOUBLE",
        sa.LargeBinary: "BINARY",
        sa.JSON: "STRING",
        sa.String: "STRING",
    }


def _find_name(kind: "TypeEngine[Any]", names: Mapping[type, str]) -> str | None:
    return next((name for family, name in names.items() if isinstance(kind, family)), None)


def _server(reading: ExactReading, column: DatabaseColumn) -> None:
    import sqlalchemy as sa

    kind, name = column.kind, column.name
    item = getattr(kind, "item_type", None)
    if type(kind).__name__ == "MONEY" or isinstance(kind, sa.types.NullType):
        reading.notes[name] = f"{_format_type(kind)} is read as text, or as bytes"
    elif isinstance(item, sa.Time):
        reading.schema[name] = "STRING"
        reading.notes[name] = f"Spark cannot read {kind!r}: it is read as text"
    elif type(item).__name__ == "MONEY":
        reading.left_out[name] = f"Spark cannot read {kind!r}"
    elif isinstance(kind, sa.Time):
        reading.schema[name] = "STRING"
        reading.notes[name] = (
            "a time of day is read as text: Spark would read it as a timestamp of 1970"
        )
    elif type(kind).__name__ == "YEAR":
        reading.schema[name] = "INT"
    elif isinstance(kind, sa.Numeric) and not isinstance(kind, sa.Float):
        _decimal(reading, column, kind)


def _decimal(reading: ExactReading, column: DatabaseColumn, kind: "TypeEngine[Any]") -> None:
    precision = getattr(kind, "precision", None)
    if precision is None and not type(kind).__name__.startswith("DOUBLE"):
        reading.notes[column.name] = (
            f"{kind!r} without a precision is decimal(38,18) in Spark; a greater number fails"
        )
    elif precision is not None and precision > _DIGITS:
        reading.schema[column.name] = "STRING"
        reading.notes[column.name] = f"{kind!r} is read as text: Spark has {_DIGITS} digits"


def _format_type(kind: "TypeEngine[Any]") -> str:
    name = type(kind).__name__
    return "a type that SQLAlchemy does not know" if name == "NullType" else name
