"""The columns that a source declares, for an engine that is not the one PySpark knows of."""

from typing import TYPE_CHECKING

from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from logdriven_dagster.config.sql.proven import Type


def plain_columns(ddl: str | None) -> "StructType":
    """Return the columns of a DDL text; TerminalStepError for a type that is not proven.

    PySpark would ask the one session of the process what the text means.
    """
    from pyspark.sql.types import StructField, StructType

    from logdriven_dagster.config.checking.proven import declared_columns  # loads sqlglot
    from logdriven_dagster.config.sql.proven_casts import UnprovenError

    try:
        columns = declared_columns(ddl)
    except UnprovenError as error:
        raise TerminalStepError(f"{error} is not proven on Sail") from None
    return StructType([StructField(name, _of_spark(kind)) for name, kind in columns.items()])


def _of_spark(found: "Type") -> "DataType":
    from pyspark.sql import types as ty

    if found.kind == "decimal":
        return ty.DecimalType(found.precision, found.scale)
    simple = {
        "boolean": ty.BooleanType,
        "int": ty.IntegerType,
        "bigint": ty.LongType,
        "double": ty.DoubleType,
        "string": ty.StringType,
        "date": ty.DateType,
        "timestamp": ty.TimestampType,
    }
    return simple[found.kind]()
