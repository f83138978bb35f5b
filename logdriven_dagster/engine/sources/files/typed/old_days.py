"""Days before 1582-10-15 in ORC files that no Java library wrote.

Such files count days by the Gregorian calendar without marking it. Java reads them by the Julian
calendar, and so shows other days.
"""

from typing import TYPE_CHECKING

from logdriven_dagster.engine.queries.nested_values import any_leaf
from logdriven_dagster.engine.queries.quoting import plain, quote_name
from logdriven_dagster.engine.spark import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

_FIRST = {
    "date": "DATE'1582-10-15'",
    # No zone differs from UTC by more than a day.
    "timestamp": "TIMESTAMP'1582-10-16 00:00:00Z'",
}
_FIX = "write the column as text, or the file as Parquet"


def without_old_days(frame: "DataFrame", path: str) -> "DataFrame":
    """Return the rows, with an error for each old day; `path` is a file of such a writer."""
    changes = {}
    for field in frame.schema.fields:
        name = field.name
        if condition := any_leaf(quote_name(name), field.dataType, _is_old):
            problem = f"column {plain(name)} holds a day before 1582-10-15, which Java libraries"
            writer = f"read as another one from ORC files of other writers, as {plain(path)}"
            error = f"raise_error('{problem} {writer}; {_FIX}')"
            changes[name] = sf.expr(
                f"CASE WHEN {condition} THEN {error} ELSE {quote_name(name)} END"
            )
    return frame.withColumns(changes) if changes else frame


def _is_old(v: str, kind: "DataType") -> str | None:
    first = _FIRST.get(kind.typeName())
    return f"{v} < {first}" if first else None
