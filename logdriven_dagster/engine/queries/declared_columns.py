"""The `columns` of a table: an empty frame with them, and results that have other ones."""

from typing import TYPE_CHECKING

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def build_first_state(spark: "SparkSession", table: TableConfig) -> "DataFrame":
    """Return the rows that a table reads of itself before any of its windows is published: none.

    Raises TerminalStepError if the table does not declare its columns.
    """
    if table.columns is None:
        raise TerminalStepError(
            f"{table.table} reads its own rows, but none of its windows has been published, so "
            "its columns are unknown; add them to the table, such as "
            "`columns: day DATE, total BIGINT`"
        )
    return spark.createDataFrame([], table.columns)


def refuse_undeclared(spark: "SparkSession", frame: "DataFrame", table: TableConfig) -> None:
    """Raise TerminalStepError if a result has other columns or types than its table declares."""
    if table.columns is None:
        return
    declared = _list_types(build_first_state(spark, table).schema)
    found = _list_types(frame.schema)
    problems = [
        *(f"column {name} is not among them" for name in found.keys() - declared.keys()),
        *(
            f"column {name} is missing"
            for name in declared.keys() - found.keys()
            if table.missing_columns == "refuse"
        ),
        *(
            f"column {name} is {found[name]}, not {declared[name]}"
            for name in declared.keys() & found.keys()
            if found[name] != declared[name]
        ),
    ]
    if problems:
        listed = "; ".join(sorted(problems))
        raise TerminalStepError(
            f"the result does not have the columns of {table.table}: {listed}; change the query or "
            "`columns`"
        )


def _list_types(schema: "StructType") -> dict[str, str]:
    return {field.name.lower(): field.dataType.simpleString() for field in schema.fields}
