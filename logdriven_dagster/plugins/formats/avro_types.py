"""Spark's types for the schemas of Avro."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_MOST_DIGITS = 38
_SIMPLE = {
    "null": "NullType",
    "boolean": "BooleanType",
    "int": "IntegerType",
    "long": "LongType",
    "float": "FloatType",
    "double": "DoubleType",
    "bytes": "BinaryType",
    "fixed": "BinaryType",
    "string": "StringType",
    "enum": "StringType",
}
"""Avro's type → the name of Spark's type."""
_UNITS = ("millis", "micros", "nanos")
_LOGICAL = {
    "int-date": "DateType",
    "int-time-millis": "StringType",
    "long-time-micros": "StringType",
    **{f"long-timestamp-{unit}": "TimestampType" for unit in _UNITS},
    **{f"long-local-timestamp-{unit}": "TimestampNTZType" for unit in _UNITS},
    "fixed-uuid": "StringType",
}
"""Type and logical type → the name of Spark's type."""
_PROMOTED = (frozenset({"int", "long"}), frozenset({"float", "double"}))
"""Unions of two types, of which the wider one holds all values."""


def find_spark_type(schema: Any, file: str) -> "StructType":
    """Return the columns of a file with this schema.

    Raises TerminalStepError for a type that has no counterpart in Spark.
    """
    from pyspark.sql.types import StructType

    found = _Types(file).convert(schema, "", frozenset())
    if not isinstance(found, StructType):
        raise TerminalStepError(f"{file}: the records of the file are not records of fields")
    return found


class _Types:
    """Conversion of one schema; names of records, enums and fixed types are valid after them."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._named: dict[str, Any] = {}

    def convert(self, schema: Any, place: str, within: frozenset[str]) -> "DataType":
        """Return the type of the values at `place`; `within` are the names of outer records."""
        from pyspark.sql import types as ty

        if isinstance(schema, list):
            return self._convert_union(schema, place, within)
        if isinstance(schema, str):
            if schema in within:
                raise self._build_error(place, f"the record {schema}, which contains itself")
            if schema in self._named:
                return self.convert(self._named[schema], place, within)
            schema = {"type": schema}
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.convert(kind, place, within)
        match kind:
            case "record" | "error":
                self._named[schema["name"]] = schema
                inside = within | {schema["name"]}
                fields = [
                    ty.StructField(
                        field["name"], self.convert(field["type"], _join(place, field), inside)
                    )
                    for field in schema["fields"]
                ]
                return ty.StructType(fields)
            case "array":
                return ty.ArrayType(self.convert(schema["items"], f"{place}.element", within))
            case "map":
                values = self.convert(schema["values"], f"{place}.value", within)
                return ty.MapType(ty.StringType(), values)
            case "enum" | "fixed":
                self._named[schema["name"]] = schema
                return self._convert_simple(schema, kind, place)
            case _:
                return self._convert_simple(schema, kind, place)

    def _convert_simple(self, schema: Mapping[str, Any], kind: str, place: str) -> "DataType":
        from pyspark.sql import types as ty

        logical = schema.get("logicalType")
        if logical == "decimal" and kind in ("bytes", "fixed"):
            digits, scale = int(schema.get("precision", 0)), int(schema.get("scale", 0))
            if not 0 <= scale <= digits <= _MOST_DIGITS or not digits:
                raise self._build_error(place, f"DECIMAL({digits}, {scale})")
            return ty.DecimalType(digits, scale)
        if logical == "duration":
            raise self._build_error(place, "a duration of months, days and milliseconds")
        name = _LOGICAL.get(f"{kind}-{logical}") or _SIMPLE.get(kind)
        if name is None:
            raise self._build_error(place, f"the type {kind}")
        return _make(name)

    def _convert_union(self, schema: list[Any], place: str, within: frozenset[str]) -> "DataType":
        others = [branch for branch in schema if branch != "null"]
        if len(others) == 1:
            return self.convert(others[0], place, within)
        if not others:
            return _make("NullType")
        for promoted in _PROMOTED:
            if all(isinstance(branch, str) and branch in promoted for branch in others):
                return _make(_SIMPLE["long" if "long" in promoted else "double"])
        names = (branch if isinstance(branch, str) else branch.get("type") for branch in others)
        raise self._build_error(place, f"a union of {', '.join(map(str, names))}")

    def _build_error(self, place: str, what: str) -> TerminalStepError:
        subject = f"the column {place}" if place else "a record"
        return TerminalStepError(
            f"{self._file}: {subject} is {what}, which Spark cannot hold; write the file with "
            "another type"
        )


def _join(place: str, field: Mapping[str, Any]) -> str:
    return f"{place}.{field['name']}".lstrip(".")


def _make(name: str) -> "DataType":
    from pyspark.sql import types

    made: DataType = getattr(types, name)()
    return made
