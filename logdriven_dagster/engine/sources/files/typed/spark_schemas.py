"""The schema that Spark writes into a Parquet file, and by which it reads the file.

Other programs copy it with the rest of a file's metadata: PyArrow writes a table with a new column
into a file whose Spark schema lacks the column, and Spark reads the file without it.
"""

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from logdriven_dagster.engine.arrow.parquet import SPARK_SCHEMA
from logdriven_dagster.engine.sources.files.typed.held_types import Array, Held, Map, Struct
from logdriven_dagster.engine.storage.data_files import DataFile

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


@lru_cache(maxsize=1000)
def read_spark_schema(file: DataFile) -> "StructType | None":
    """Return the schema that Spark wrote into a Parquet file; None if there is none.

    Returns None for a schema with user-defined types, too: PySpark would import their modules.
    """
    from pyarrow import ArrowException, parquet
    from pyspark.sql.types import StructType

    try:
        content = (parquet.read_metadata(file.open()).metadata or {}).get(SPARK_SCHEMA, b"")
        if b'"udt"' in content:
            return None
        return StructType.fromJson(json.loads(content)) if content else None
    except (OSError, ArrowException, ValueError, KeyError):  # Spark reads it, or reports an error
        return None


def has_same_names(schema: "DataType", held: Held) -> bool:
    """Return whether Spark's schema has the columns of a file, and their parts, by name."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    match held:
        case Struct():
            if not isinstance(schema, StructType):
                return False
            parts = zip(schema.fields, held.fields, strict=False)
            return schema.names == [name for name, _ in held.fields] and all(
                has_same_names(field.dataType, part) for field, (_, part) in parts
            )
        case Array():
            return isinstance(schema, ArrayType) and has_same_names(
                schema.elementType, held.element
            )
        case Map():
            return (
                isinstance(schema, MapType)
                and has_same_names(schema.keyType, held.key)
                and has_same_names(schema.valueType, held.value)
            )
        case str():
            return not isinstance(schema, StructType | ArrayType | MapType)
