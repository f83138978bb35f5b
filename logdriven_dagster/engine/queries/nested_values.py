"""SQL conditions on the values within arrays, maps and structs."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from logdriven_dagster.engine.queries.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def any_leaf(
    v: str, kind: "DataType", condition: "Callable[[str, DataType], str | None]", depth: int = 0
) -> str | None:
    """Return SQL that is true where any value within `v` meets a condition.

    `condition` returns the SQL for a value of a simple type, None where no value of it can meet the
    condition. None: no value within `v` can.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        parts = [
            any_leaf(f"{v}.{quoted(field.name)}", field.dataType, condition, depth)
            for field in kind.fields
        ]
        return " OR ".join(f"({part})" for part in parts if part) or None
    if isinstance(kind, MapType):
        keys = any_leaf(f"map_keys({v})", ArrayType(kind.keyType), condition, depth)
        values = any_leaf(f"map_values({v})", ArrayType(kind.valueType), condition, depth)
        return " OR ".join(f"({part})" for part in (keys, values) if part) or None
    if isinstance(kind, ArrayType):
        each = f"x{depth}"
        inner = any_leaf(each, kind.elementType, condition, depth + 1)
        return f"exists({v}, {each} -> {inner})" if inner else None
    return condition(v, kind)
