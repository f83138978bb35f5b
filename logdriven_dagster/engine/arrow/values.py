"""Conversion of Arrow values for display and for programs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from logdriven_dagster.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa


def records(table: "pa.Table", zone: ZoneInfo) -> Iterator[Mapping[str, Any]]:
    """Yield the rows as mappings by column name, with timestamps in the zone.

    Raises UsageError if two columns have the same name.
    """
    names = table.column_names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"two columns are called {', '.join(twice)}; rename one of them with AS")
    columns = [list(_values(column, zone)) for column in table.columns]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def type_names(table: "pa.Table") -> Sequence[str]:
    """Return the types of the columns under their names in Spark's SQL, if they have one."""
    return [type_name(field.type) for field in table.schema]


def text_of(value: Any) -> str:
    """Return the value as text for display; timestamps show an ambiguous offset only."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case datetime():
            is_unambiguous = value.utcoffset() == value.replace(fold=1 - value.fold).utcoffset()
            return (value.replace(tzinfo=None) if is_unambiguous else value).isoformat(" ")
        case Mapping() | list():
            return json.dumps(_inner(value), ensure_ascii=False)
        case _:
            return str(value)


def _inner(value: Any) -> Any:
    match value:
        case Mapping():
            return {text_of(key): _inner(each) for key, each in value.items()}
        case list():
            return [_inner(each) for each in value]
        case None | bool() | int():
            return value
        case _:
            return text_of(value)


def _values(column: "pa.ChunkedArray", zone: ZoneInfo) -> Iterator[Any]:
    import pyarrow as pa

    try:
        found = column.to_pylist()
    except (OverflowError, ValueError):  # a year that Python cannot represent
        found = column.cast(pa.string()).to_pylist()
        return iter(found)
    return (_value(each, column.type, zone) for each in found)


def _value(value: Any, kind: "pa.DataType", zone: ZoneInfo) -> Any:
    import pyarrow as pa

    if value is None:
        return None
    if pa.types.is_timestamp(kind) and kind.tz:
        return value.astimezone(timezone.utc).astimezone(zone)
    if pa.types.is_struct(kind):
        return {part.name: _value(value[part.name], part.type, zone) for part in kind}
    if pa.types.is_map(kind):
        return {
            _value(key, kind.key_type, zone): _value(each, kind.item_type, zone)
            for key, each in value
        }
    if pa.types.is_nested(kind) and isinstance(value, list):
        return [_value(each, kind.value_type, zone) for each in value]
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return value


def type_name(kind: "pa.DataType") -> str:
    """Return the name of a type in Spark's SQL, if it has one."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{part.name}:{type_name(part.type)}' for part in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    return _NAMES.get(str(kind), str(kind))


_NAMES = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "large_string": "string",
    "large_binary": "binary",
    "date32[day]": "date",
}
"""Arrow's names → Spark's, where they differ."""
