"""Conversion of Spark's types to Arrow's."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

_PRIMITIVE = {
    "boolean": "bool_",
    "byte": "int8",
    "short": "int16",
    "integer": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "date": "date32",
    "string": "string",
    "varchar": "string",
    "char": "string",
    "binary": "binary",
}
"""Spark's type names → Arrow's type functions."""


def arrow_schema(schema: "StructType") -> "pa.Schema | None":
    """Return the schema in Arrow's types; None if a column has a type that only Spark reads."""
    import pyarrow as pa

    try:
        return pa.schema([pa.field(field.name, _type(field.dataType)) for field in schema.fields])
    except KeyError:
        return None


def _type(kind: "DataType") -> "pa.DataType":
    import pyarrow as pa
    from pyspark.sql import types as spark

    if isinstance(kind, spark.TimestampType):
        return pa.timestamp("us", tz="UTC")
    if isinstance(kind, spark.TimestampNTZType):
        return pa.timestamp("us")
    if isinstance(kind, spark.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, spark.ArrayType):
        return pa.list_(_type(kind.elementType))
    if isinstance(kind, spark.MapType):
        return pa.map_(_type(kind.keyType), _type(kind.valueType))
    if isinstance(kind, spark.StructType):
        return pa.struct([pa.field(part.name, _type(part.dataType)) for part in kind.fields])
    made: Any = getattr(pa, _PRIMITIVE[kind.typeName()])()
    return made
