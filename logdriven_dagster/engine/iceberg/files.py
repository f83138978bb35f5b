"""Selection of the files of an Iceberg table by partition, condition and statistics."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

_EPOCH = date(1970, 1, 1)


def is_partitioned_by(table: "Table", column: str, files: "Sequence[DataFile]" = ()) -> bool:
    """Return whether each new file, and each of `files`, has only one value of this column."""
    specs = table.specs()
    used = {table.spec().spec_id, *(file.spec_id for file in files)}
    known = (map(str.lower, _identities(table, specs[number])) for number in used)
    return all(column.lower() in names for names in known)


def _identities(table: "Table", spec: "PartitionSpec") -> list[str]:
    """Return the columns whose values are the same in all rows of a file of this spec."""
    from pyiceberg.transforms import IdentityTransform

    schema = table.schema()
    found = [f.source_id for f in spec.fields if isinstance(f.transform, IdentityTransform)]
    return [name for each in found if (name := schema.find_column_name(each)) is not None]


def all_within(table: "Table", condition: "BooleanExpression", files: "list[DataFile]") -> bool:
    """Return whether, by statistics, every row of the files meets the condition."""
    from pyiceberg.expressions.visitors import _StrictMetricsEvaluator

    strict = _StrictMetricsEvaluator(table.schema(), condition)
    return all(strict.eval(file) for file in files)


def build_window_filter(schema: "Schema", column: str, window: TimeWindow) -> "BooleanExpression":
    """Return the condition that `column` lies in the window's `[start, end)`."""
    column = schema.find_field(column, case_sensitive=False).name
    bounds = (format_bound(schema, column, each) for each in (window.start_clock, window.end_clock))
    return from_to(column, *bounds)


def build_past_filter(
    schema: "Schema", columns: Sequence[str], before: datetime
) -> "BooleanExpression":
    """Return the condition that columns lie before a time."""
    terms, found = _terms(), []
    for name in columns:
        column = schema.find_field(name, case_sensitive=False).name
        found.append(terms.LessThan(column, format_bound(schema, column, before)))
    return terms.And(*found)  # type: ignore[no-any-return]


def from_to(column: str, low: int | str, end: int | str) -> "BooleanExpression":
    """Return the condition that a column lies in `[low, end)`, given as literals."""
    terms = _terms()
    return terms.And(  # type: ignore[no-any-return]
        terms.GreaterThanOrEqual(column, low), terms.LessThan(column, end)
    )


def not_null(column: str) -> "BooleanExpression":
    """Return the condition that a column is not NULL."""
    return _terms().NotNull(column)  # type: ignore[no-any-return]


def build_range_filter(column: str, low: int | str, high: int | str) -> "BooleanExpression":
    """Return the condition that a column lies in `[low, high]`, both inclusive."""
    terms = _terms()
    return terms.And(  # type: ignore[no-any-return]
        terms.GreaterThanOrEqual(column, low), terms.LessThanOrEqual(column, high)
    )


def read_bound(kind: Any, bound: bytes | None) -> Any:
    """Return a bound of a file's column as a value of its primitive type; None if it is unknown.

    The bound of a text may be truncated, but no value lies outside.
    """
    from pyiceberg.conversions import from_bytes
    from pyiceberg.types import DateType

    value: Any = None if bound is None else from_bytes(kind, bound)
    if not isinstance(kind, DateType) or value is None:
        return value
    try:
        return _EPOCH + timedelta(days=value)
    except OverflowError:  # a day that Python cannot represent
        return None


def build_above_filter(column: str, low: int, high: int | None) -> "BooleanExpression":
    """Return the condition that a column is above `low`, and at most `high` if given."""
    if high is not None:
        return build_range_filter(column, low + 1, high)
    return _terms().GreaterThan(column, low)  # type: ignore[no-any-return]


def _terms() -> Any:
    """Return PyIceberg's expressions, whose annotations do not match their usage."""
    from pyiceberg import expressions

    return expressions


def format_bound(schema: "Schema", column: str, instant: datetime) -> str:
    """Return a window's bound as a literal of the column's type.

    `instant` is the bound on the project's wall clock. A day counts as its first instant, so a
    bound within a day is that of the next day. Raises TerminalStepError if the column is neither a
    timestamp nor a date.
    """
    field = schema.find_field(column, case_sensitive=False)
    match str(field.field_type):
        case "timestamptz":
            return instant.astimezone(timezone.utc).isoformat()
        case "timestamp":
            return instant.replace(tzinfo=None).isoformat()
        case "date":
            midnight = instant.replace(hour=0, minute=0, second=0, microsecond=0)
            day = instant.date() + timedelta(days=instant != midnight)
            return day.isoformat()
        case other:
            raise TerminalStepError(
                f"window_column {column} is {other}; it must be a timestamp or a date"
            )
