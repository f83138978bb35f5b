"""The declared columns of a source, for an engine other than the one PySpark uses."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from logdriven_dagster.config.sql.proven import Type


def plain_columns(ddl: str | None) -> "StructType":
    """Parse the columns of a DDL text; TerminalStepError for an unproven type.

    PySpark would parse the text in the process's only session.
    """
    from pyspark.sql.types import StructField, StructType

    from logdriven_dagster.config.checking.proven import declared_columns  # loads sqlglot
    from logdriven_dagster.config.sql.proven_casts import UnprovenError

    try:
        columns = declared_columns(ddl)
    except UnprovenError as error:
        raise TerminalStepError(f"{error} is not supported on Sail") from None
    return StructType([StructField(name, _of_spark(kind)) for name, kind in columns.items()])


def refuse_other_columns(files: Iterable[Path], columns: "StructType") -> None:
    """Raise TerminalStepError for a Parquet file without exactly these columns and types.

    For an engine that would convert the values silently.
    """
    from pyspark.sql.pandas.types import to_arrow_type

    for path in files:
        stat = path.stat()
        found = _types(str(path), stat.st_size, stat.st_mtime_ns)
        for field in columns.fields:
            wanted = str(to_arrow_type(field.dataType, timezone="UTC"))
            if found.get(field.name) != wanted:
                held = found.get(field.name, "missing")
                raise TerminalStepError(
                    f"{path}: the column {field.name} is {held} in the file and "
                    f"{field.dataType.simpleString()} in `columns`, which Sail would convert "
                    "without an error; write the type of the file in `columns`, and CAST in "
                    "the query"
                )


@lru_cache(maxsize=100_000)
def _types(path: str, _size: int, _changed: int) -> Mapping[str, str]:
    """Read the types of the columns, cached for each version of a file."""
    import pyarrow as pa
    import pyarrow.parquet

    try:
        file = pa.parquet.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise TerminalStepError(f"cannot read the file {path}: {error}") from None
    if any(name.startswith(b"org.apache.spark.legacy") for name in file.metadata or ()):
        raise TerminalStepError(f"{path}: days of the Julian calendar are not supported on Sail")
    return {field.name: str(field.type) for field in file.schema.to_arrow_schema()}


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
