"""Conversion between Spark's types and Iceberg's."""

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.queries.schemas import COMMENT
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType
    from pyspark.sql.types import DataType, StructType

_TO_SPARK = {
    "boolean": "BooleanType",
    "int": "IntegerType",
    "long": "LongType",
    "float": "FloatType",
    "double": "DoubleType",
    "date": "DateType",
    "timestamp": "TimestampNTZType",
    "timestamptz": "TimestampType",
    "timestamp_ns": "TimestampNTZType",
    "timestamptz_ns": "TimestampType",
    "string": "StringType",
    "uuid": "StringType",
    "binary": "BinaryType",
}
"""Iceberg's type names → Spark's type classes, which can be created without a session."""

_SUBSTITUTES = {
    "time": "string",
    "unknown": "string",
}
"""Types that are not read → the types to write instead; of all others `binary`."""


def iceberg_schema(schema: "StructType") -> "Schema":
    """Return the schema of a new table, in which every column is optional; comments become docs.

    Raises TerminalStepError if an Iceberg table cannot hold a column's type.
    """
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    numbers = count(1)
    fields = []
    for field in schema.fields:
        try:
            kind = _to_iceberg(field.dataType, numbers)
        except KeyError:
            raise TerminalStepError(
                f"column {field.name}: an Iceberg table cannot store "
                f"{field.dataType.simpleString()}; cast it to another type"
            ) from None
        doc = field.metadata.get(COMMENT)
        fields.append(NestedField(next(numbers), field.name, kind, required=False, doc=doc))
    return Schema(*fields)


def _to_iceberg(kind: "DataType", numbers: "count[int]") -> "IcebergType":
    from pyiceberg import types as iceberg
    from pyspark.sql import types as spark

    if isinstance(kind, spark.DecimalType):
        return iceberg.DecimalType(kind.precision, kind.scale)
    if isinstance(kind, spark.ArrayType):
        element = _to_iceberg(kind.elementType, numbers)
        return iceberg.ListType(next(numbers), element, element_required=False)
    if isinstance(kind, spark.MapType):
        key, value = _to_iceberg(kind.keyType, numbers), _to_iceberg(kind.valueType, numbers)
        return iceberg.MapType(next(numbers), key, next(numbers), value, value_required=False)
    if isinstance(kind, spark.StructType):
        parts = [(field.name, _to_iceberg(field.dataType, numbers)) for field in kind.fields]
        return iceberg.StructType(
            *(
                iceberg.NestedField(next(numbers), name, part, required=False)
                for name, part in parts
            )
        )
    # A type name has no collation, and a table has none either.
    primitive: IcebergType = _primitives()[str(kind.jsonValue())]()
    return primitive


def _primitives() -> "dict[str, Callable[[], Any]]":
    from pyiceberg import types as iceberg

    return {
        "boolean": iceberg.BooleanType,
        "byte": iceberg.IntegerType,
        "short": iceberg.IntegerType,
        "integer": iceberg.IntegerType,
        "long": iceberg.LongType,
        "float": iceberg.FloatType,
        "double": iceberg.DoubleType,
        "date": iceberg.DateType,
        "timestamp": iceberg.TimestamptzType,
        "timestamp_ntz": iceberg.TimestampType,
        "string": iceberg.StringType,
        "varchar": iceberg.StringType,
        "char": iceberg.StringType,
        "binary": iceberg.BinaryType,
    }


def refuse_unreadable_types(schema: "Schema", table: str) -> None:
    """Raise TerminalStepError for a column of a type that is not read here, also a nested one."""
    from pyiceberg.types import DecimalType, PrimitiveType

    for name in schema.column_names:
        kind = schema.find_type(name)
        if not isinstance(kind, PrimitiveType) or isinstance(kind, DecimalType):
            continue
        if str(kind) not in _TO_SPARK:
            fix = _SUBSTITUTES.get(str(kind), "binary")
            raise TerminalStepError(
                f"{table}: column {name} is a {kind}, which is not read here; write its values to "
                f"a column of type {fix}, and drop it in the engine that writes the table: "
                f"ALTER TABLE {table} DROP COLUMN {name}"
            )


def spark_schema(schema: "Schema") -> "StructType":
    """Return the schema with which Spark reads the table's files."""
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [StructField(field.name, spark_type(field.field_type)) for field in schema.fields]
    )


def spark_type(kind: "IcebergType") -> "DataType":
    from pyiceberg import types as iceberg
    from pyspark.sql import types as spark

    if isinstance(kind, iceberg.DecimalType):
        return spark.DecimalType(kind.precision, kind.scale)
    if isinstance(kind, iceberg.ListType):
        return spark.ArrayType(spark_type(kind.element_type))
    if isinstance(kind, iceberg.MapType):
        return spark.MapType(spark_type(kind.key_type), spark_type(kind.value_type))
    if isinstance(kind, iceberg.StructType):
        return spark.StructType(
            [spark.StructField(part.name, spark_type(part.field_type)) for part in kind.fields]
        )
    made: DataType = getattr(spark, _TO_SPARK[str(kind)])()
    return made
