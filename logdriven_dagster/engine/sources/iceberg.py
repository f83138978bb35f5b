"""Reading Iceberg tables that other programs write."""

from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.types.iceberg import IcebergSource
from logdriven_dagster.engine.iceberg.files import build_above_filter, build_window_filter, from_to
from logdriven_dagster.engine.iceberg.names import identifier
from logdriven_dagster.engine.iceberg.opening import load_table
from logdriven_dagster.engine.iceberg.rows import rows_of
from logdriven_dagster.engine.iceberg.scan import plan
from logdriven_dagster.engine.sources.readers import Reader, Reading
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame


class IcebergReader(Reader):
    """Reader of Iceberg tables: their current snapshot, or its files that may hold a window."""

    def whole(self, reading: Reading, source: IcebergSource) -> "DataFrame":
        table = _load_table(reading, source)
        return rows_of(reading.spark, table, plan(table, _condition(table, reading, source)))


def _condition(table: "Table", reading: Reading, source: IcebergSource) -> Any:
    """Return a condition on files for the rows of the window; None if there is none."""
    schema, column = table.schema(), source.window_name or source.key_column
    if column is None or column.lower() not in map(str.lower, schema.column_names):
        return None
    field = schema.find_field(column, case_sensitive=False)
    kind = str(field.field_type)
    if isinstance(source.window_column, str):
        if kind in ("timestamp_ns", "timestamptz_ns"):
            return None  # PyIceberg has no literals of these types
        return build_window_filter(schema, column, reading.run.window)
    if source.window_column is not None:
        if kind not in ("int", "long", "string"):
            return None
        bounds = source.window_column.range_of(reading.run.window, as_text=kind == "string")
        return from_to(field.name, *bounds)
    if kind not in ("int", "long"):
        return None
    window = reading.slice
    if window.high is None:  # the frontier is being queried: include the key at the low end
        return build_above_filter(field.name, int(window.low) - 1, None)
    return build_above_filter(field.name, int(window.low) - reading.table.overlap, int(window.high))


def _load_table(reading: Reading, source: IcebergSource) -> Any:
    from pyiceberg.exceptions import NoSuchTableError

    try:
        return load_table(reading.catalog(), identifier(source.name))
    except NoSuchTableError:
        raise TerminalStepError(
            f"table {source.name} does not exist in the Iceberg catalog"
        ) from None
