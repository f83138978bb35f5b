"""SQL over values within arrays, maps and structs: types, conditions and casts."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from logdriven_dagster.engine.queries.quoting import quote_name, text_literal

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

GROUPS_OF_A_UUID = "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5"
"""Pattern and replacement that format a UUID from its hexadecimal digits."""


def any_leaf(
    v: str, kind: "DataType", condition: "Callable[[str, DataType], str | None]", depth: int = 0
) -> str | None:
    """Return SQL that is true if any value within `v` meets a condition.

    `condition` returns the SQL for a value of a simple type, or None if no value of that type can
    meet it. Returns None if no value within `v` can.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        parts = [
            any_leaf(f"{v}.{quote_name(field.name)}", field.dataType, condition, depth)
            for field in kind.fields
        ]
        return " OR ".join(f"({part})" for part in parts if part) or None
    if isinstance(kind, MapType):
        keys = any_leaf(f"map_keys({v})", ArrayType(kind.keyType), condition, depth)
        values = any_leaf(f"map_values({v})", ArrayType(kind.valueType), condition, depth)
        return " OR ".join(f"({part})" for part in (keys, values) if part) or None
    if isinstance(kind, ArrayType):
        element = kind.elementType
        if any_leaf(v, element, condition, depth + 1) is None:
            return None
        found = of_each(v, lambda x: str(any_leaf(x, element, condition, depth + 1)), depth)
        return f"array_contains({found}, true)"
    return condition(v, kind)


TextOfLeaf: TypeAlias = "Callable[[str, DataType, str], str | None]"
"""Takes the SQL of a value of a simple type, its type and its path, and returns SQL of a text.

Returns None if the text is NULL for every value of that type.
"""


def first_of_leaves(
    v: str, kind: "DataType", text: TextOfLeaf, path: str, depth: int = 0
) -> str | None:
    """Return SQL of the first text of a value within `v` that is not NULL; None if there is none.

    `path` is the name of the column.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    parts: list[str | None] = []
    inner: list[tuple[str, str, DataType]] = []
    if isinstance(kind, StructType):
        parts = [
            first_of_leaves(
                f"{v}.{quote_name(field.name)}", field.dataType, text, f"{path}.{field.name}", depth
            )
            for field in kind.fields
        ]
    elif isinstance(kind, MapType):
        inner = [
            (f"map_keys({v})", "key", kind.keyType),
            (f"map_values({v})", "value", kind.valueType),
        ]
    elif isinstance(kind, ArrayType):
        inner = [(v, "element", kind.elementType)]
    else:
        return text(v, kind, path)
    for array, name, element in inner:
        first = partial(
            first_of_leaves, kind=element, text=text, path=f"{path}.{name}", depth=depth + 1
        )
        if first(v) is not None:
            found = of_each(array, lambda x, first=first: str(first(x)), depth)  # type: ignore[misc]
            parts.append(f"get(filter({found}, m{depth} -> m{depth} IS NOT NULL), 0)")
    known = [part for part in parts if part]
    return f"coalesce({', '.join(known)})" if known else None


def change_leaves(
    v: str, kind: "DataType", change: "Callable[[str, DataType], str]", depth: int = 0
) -> str:
    """Return SQL of a value with `change` applied to each value of a simple type within it."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    def change_within(part: "DataType") -> Callable[[str], str]:
        return lambda x: change_leaves(x, part, change, depth + 1)

    if isinstance(kind, StructType):
        own = [f"{v}.{quote_name(field.name)}" for field in kind.fields]
        new = [
            change_leaves(part, field.dataType, change, depth)
            for part, field in zip(own, kind.fields, strict=True)
        ]
        pairs = (
            f"{text_literal(field.name)}, {part}"
            for part, field in zip(new, kind.fields, strict=True)
        )
        changed = f"CASE WHEN {v} IS NOT NULL THEN named_struct({', '.join(pairs)}) END"
        return v if new == own else changed
    if isinstance(kind, MapType):
        key, value = change_within(kind.keyType), change_within(kind.valueType)
        return v if key(v) == value(v) == v else of_entries(v, key, value, depth)
    if isinstance(kind, ArrayType):
        element = change_within(kind.elementType)
        return v if element(v) == v else of_each(v, element, depth)
    return change(v, kind)


def sql_type(kind: "DataType") -> str:
    """Return the type in Spark's SQL, with any names of fields."""
    from pyspark.sql import types as ty

    if isinstance(kind, ty.ArrayType):
        return f"ARRAY<{sql_type(kind.elementType)}>"
    if isinstance(kind, ty.MapType):
        return f"MAP<{sql_type(kind.keyType)}, {sql_type(kind.valueType)}>"
    if isinstance(kind, ty.StructType):
        fields = (f"{quote_name(f.name)}: {sql_type(f.dataType)}" for f in kind.fields)
        return f"STRUCT<{', '.join(fields)}>"
    return kind.simpleString()


def of_each(v: str, sql: Callable[[str], str], depth: int) -> str:
    """Return SQL of an array with `sql` applied to each element of `v`.

    Elements are accessed by index: with `transform(v, x -> …)`, `exists` and `transform_values`,
    Spark 4.3 looks up NULL elements in the dictionary of a Parquet column, and fails if that is
    empty.
    """
    element = sql(f"get({v}, i{depth})")
    return f"transform(array_repeat(0, array_size({v})), (x{depth}, i{depth}) -> {element})"


def of_entries(v: str, key: Callable[[str], str], value: Callable[[str], str], depth: int) -> str:
    """Return SQL of a map with `key` and `value` applied to the entries of `v`, as in `of_each`."""
    keys, values = f"map_keys({v})", f"map_values({v})"
    return f"map_from_arrays({of_each(keys, key, depth)}, {of_each(values, value, depth)})"


def as_type(v: str, given: "DataType", goal: "DataType", depth: int = 0) -> str:
    """Return SQL that casts a value of type `given` to type `goal`; missing fields are NULL.

    Fields match by name, in any case.
    """
    from pyspark.sql import types as ty

    if given == goal:
        return v
    if given.simpleString() == goal.simpleString():  # only nullability differs
        return f"CAST({v} AS {sql_type(goal)})"
    if isinstance(given, ty.ArrayType) and isinstance(goal, ty.ArrayType):
        kinds = given.elementType, goal.elementType, depth + 1
        return of_each(v, lambda element: as_type(element, *kinds), depth)
    if isinstance(given, ty.MapType) and isinstance(goal, ty.MapType):
        values = given.valueType, goal.valueType, depth + 1
        return of_entries(v, lambda key: key, lambda value: as_type(value, *values), depth)
    if isinstance(given, ty.StructType) and isinstance(goal, ty.StructType):
        known = {field.name.lower(): field for field in given.fields}
        parts = []
        for field in goal.fields:
            old = known.get(field.name.lower())
            value = f"CAST(NULL AS {sql_type(field.dataType)})"
            if old is not None:
                value = as_type(f"{v}.{quote_name(old.name)}", old.dataType, field.dataType, depth)
            parts.append(f"{text_literal(field.name)}, {value}")
        return f"CASE WHEN {v} IS NOT NULL THEN named_struct({', '.join(parts)}) END"
    return f"CAST({v} AS {sql_type(goal)})"
