"""Keys of few rows, read and compared by Arrow: a query of Spark takes longer than its rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.arrow.types import arrow_schema
from logdriven_dagster.engine.queries.schemas import WINDOW_START

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa
    from pyspark.sql.types import StructType

FEW_ROWS = 100_000
"""The maximum number of new rows whose keys are compared by Arrow."""
FEW_BYTES = 64_000_000
"""The maximum size of a table's files whose keys are compared by Arrow.

Files are also merged by Arrow if they and the new rows have at most this size without compression.
"""

_NAMES = {"tinyint", "smallint", "int", "bigint", "string", "binary", "date", "boolean"}
_FAMILIES = ("decimal(", "timestamp")
"""Types whose values are equal in Arrow if they are equal in Spark. FLOAT has -0.0 and NaN."""

FILE, NEWER = "logdriven_file", "logdriven_newer"


def build_key_schema(schema: "StructType", key: Iterable[str]) -> "pa.Schema | None":
    """Return the key columns in Arrow's types, with their names in lower case.

    Returns None if Arrow compares values of a type differently, or if a column is missing.
    """
    from pyspark.sql.types import StructField, StructType

    fields = {field.name.lower(): field for field in schema.fields}
    found = []
    for name in map(str.lower, key):
        kind = fields[name].dataType if name in fields else None
        text = "" if kind is None else kind.simpleString()
        if kind is None or not (text in _NAMES or text.startswith(_FAMILIES)):
            return None
        found.append(StructField(name, kind))
    return arrow_schema(StructType(found))


def add_window_start(schema: "pa.Schema") -> "pa.Schema":
    """Return the schema with WINDOW_START, the instant at which a row's window begins."""
    import pyarrow as pa

    return schema.append(pa.field(WINDOW_START, pa.timestamp("us", tz="UTC")))


def find_bad_key(keys: "pa.Table") -> "tuple[Mapping[str, Any], int] | None":
    """Return a key that is NULL or occurs several times, with its number of rows; None if none."""
    from pyarrow import compute

    counted = keys.group_by(keys.column_names).aggregate([([], "count_all")])
    is_bad = compute.greater(counted["count_all"], 1)
    for name in keys.column_names:
        is_bad = compute.or_(is_bad, compute.is_null(counted[name]))
    for row in counted.filter(is_bad).slice(0, 1).to_pylist():
        return {name: row[name] for name in keys.column_names}, row["count_all"]
    return None


def find_values(keys: "pa.Table", name: str) -> list[Any]:
    """Return the distinct values of a column in ascending order."""
    from pyarrow import compute

    return sorted(compute.unique(keys[name]).to_pylist())


@dataclass(frozen=True, slots=True)
class KeyMatches:
    """The rows of a table with one of the new keys."""

    files: frozenset[str]
    older: int
    """The number of keys of which no row is by a newer window."""
    newer: int


def match_keys(
    new: "pa.Table", old: "Iterable[tuple[str, pa.RecordBatch]]", end: "datetime"
) -> KeyMatches:
    """Find the new keys among rows of a table.

    Args:
        new: The new keys.
        old: Each batch with its file; the columns are those of `new`, and WINDOW_START.
        end: A row that begins here or later is by a newer window. One without a window is not.
    """
    import pyarrow as pa
    from pyarrow import compute

    key, tables = new.column_names, []
    for file, batch in old:
        rows = pa.table(batch)
        newer = compute.greater_equal(rows[WINDOW_START], pa.scalar(end, rows[WINDOW_START].type))
        found = rows.select(key).append_column(NEWER, compute.fill_null(newer, False))  # noqa: FBT003 - a value
        found = found.join(new, key, join_type="left semi")
        tables.append(found.append_column(FILE, pa.array([file] * len(found), pa.string())))
    if not tables:
        return KeyMatches(frozenset(), 0, 0)
    matching = pa.concat_tables(tables)
    per_key = matching.group_by(key).aggregate([(NEWER, "any")])
    newer = compute.sum(per_key[f"{NEWER}_any"]).as_py() or 0
    files = frozenset(compute.unique(matching[FILE]).to_pylist())
    return KeyMatches(files, len(per_key) - newer, newer)
