"""Reading Iceberg tables that others fill."""

from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.types.iceberg import IcebergSource
from logdriven_dagster.engine.iceberg.files import within
from logdriven_dagster.engine.iceberg.names import identifier
from logdriven_dagster.engine.iceberg.rows import rows_of
from logdriven_dagster.engine.iceberg.scan import plan
from logdriven_dagster.engine.sources.readers import Reader, Reading
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class IcebergReader(Reader):
    """Reads the present snapshot; for a window, only the files that can hold its rows."""

    def whole(self, reading: Reading, source: IcebergSource) -> "DataFrame":
        table = _loaded(reading, source)
        condition, column = None, source.window_column
        if column is not None and column.lower() in map(str.lower, table.schema().column_names):
            condition = within(table.schema(), column, reading.run.window)
        return rows_of(reading.spark, table, plan(table, condition))


def _loaded(reading: Reading, source: IcebergSource) -> Any:
    from pyiceberg.exceptions import NoSuchTableError

    try:
        return reading.catalog().load_table(identifier(source.name))
    except NoSuchTableError:
        raise TerminalStepError(f"the Iceberg catalog has no table {source.name}") from None
