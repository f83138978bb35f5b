"""SQL of values that Spark can compare, group and print, for every type.

Spark compares NULL, NaN, arrays and structs, but no maps, intervals of months and days together,
or variants. Texts of two collations are compared by their bytes.
"""

from typing import TYPE_CHECKING

from logdriven_dagster.engine.queries.nested_values import of_each
from logdriven_dagster.engine.queries.quoting import quote_name

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def make_comparable(v: str, kind: "DataType", depth: int = 0) -> str:
    """Return SQL of a value that is equal to another one exactly if `v` is.

    A map becomes an array of its entries, sorted by key.
    """
    from pyspark.sql import types as ty

    if isinstance(kind, ty.StructType):
        own = [f"{v}.{quote_name(field.name)}" for field in kind.fields]
        new = [
            make_comparable(part, field.dataType, depth)
            for part, field in zip(own, kind.fields, strict=True)
        ]
        pairs = ", ".join(f"'f{n}', {part}" for n, part in enumerate(new))
        return v if new == own else f"CASE WHEN {v} IS NOT NULL THEN named_struct({pairs}) END"
    if isinstance(kind, ty.MapType):
        entries = f"map_entries({v})"
        value = of_each(
            entries,
            lambda entry: (
                f"named_struct('key', {make_comparable(f'{entry}.key', kind.keyType, depth + 1)}, "
                f"'value', {make_comparable(f'{entry}.value', kind.valueType, depth + 1)})"
            ),
            depth,
        )
        return f"array_sort({value})"
    if isinstance(kind, ty.ArrayType):
        element = kind.elementType
        changed = make_comparable("v", element, depth + 1) != "v"
        return of_each(v, lambda x: make_comparable(x, element, depth + 1), depth) if changed else v
    return _make_leaf_comparable(v, kind)


def _make_leaf_comparable(v: str, kind: "DataType") -> str:
    name = kind.simpleString()
    if name == "variant":
        return _format_variant(v)
    if name == "interval":
        return f"CAST({v} AS STRING)"
    if name.startswith("string collate"):
        return f"collate({v}, 'UTF8_BINARY')"
    return v


def _format_variant(v: str) -> str:
    """Return SQL of the text and the type of a variant: a date and its text have the same JSON."""
    return f"concat(to_json({v}), ' ', schema_of_variant({v}))"


def format_value(v: str, kind: "DataType") -> str:
    """Return SQL of the text of a value; instants have their offset."""
    from pyspark.sql import types as ty

    name = kind.simpleString()
    if name == "variant":
        return _format_variant(v)
    if isinstance(kind, ty.StructType | ty.ArrayType | ty.MapType):
        return f"to_json({v}, map('ignoreNullFields', 'false'))"
    if isinstance(kind, ty.BinaryType):
        return f"concat('0x', lower(hex({v})))"
    if isinstance(kind, ty.TimestampType):
        return f"concat(CAST({v} AS STRING), date_format({v}, 'XXX'))"
    return f"CAST({v} AS STRING)"


def format_comparable(v: str, kind: "DataType") -> str:
    """Return SQL of the text of a value that `make_comparable` made of one of this type."""
    if make_comparable("v", kind) == "v":
        return format_value(v, kind)
    is_text = kind.typeName() in ("variant", "interval", "string")
    return v if is_text else f"to_json({v}, map('ignoreNullFields', 'false'))"
