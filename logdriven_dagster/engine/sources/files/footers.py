"""Footers of local Parquet and ORC files, read once for each version of a file."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.sources.files.held_types import (
    OF_ORC,
    UNION,
    Array,
    Held,
    Map,
    Struct,
)
from logdriven_dagster.engine.sources.known_sources import Fingerprint
from logdriven_dagster.errors import TerminalStepError

if TYPE_CHECKING:
    import pyarrow as pa

_UNITS = {"milliseconds": " of milliseconds", "microseconds": "", "nanoseconds": " of nanoseconds"}
_INTEGERS = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}
_PHYSICAL = {
    "BOOLEAN": "boolean",
    "INT32": "int",
    "INT64": "bigint",
    "INT96": "timestamp of 96 bits",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BYTE_ARRAY": "binary",
    "FIXED_LEN_BYTE_ARRAY": "binary",
}
_LOGICAL = {
    "String": "string",
    "Enum": "string",
    "JSON": "string",
    "BSON": "binary",
    "Date": "date",
    "UUID": "uuid",
    "Float16": "float of 16 bits",
    "Interval": "interval of 12 bytes",
    "Null": "null",
}
_VARIANT = [{"metadata", "value"}, {"metadata", "value", "typed_value"}]
_OF_ORC = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "date32[day]": "date",
}
_CATALYST = b"spark.sql.catalyst.type"


@dataclass(frozen=True, slots=True)
class Footer:
    """What the footer of a file says of its columns."""

    path: str
    columns: Struct
    is_of_java: bool = True
    """Whether a Java library wrote an ORC file, which counts old days by another calendar."""

    def says_the_same(self, other: "Footer") -> bool:
        """Whether another file has the same columns, which are one object then."""
        return self.columns is other.columns and self.is_of_java == other.is_of_java


def footers(files: Fingerprint, form: str) -> Sequence[Footer]:
    """Return the footers of files, the oldest first; of adjoining ones that say the same, one.

    Those of files that Spark will refuse are left out. TerminalStepError for a type that only other
    programs read.
    """
    found: list[Footer] = []
    for path, size, changed in sorted(files, key=lambda file: (file[2], file[0])):
        # Spark's rule: writers keep their own files under such names.
        if size and not Path(path).name.startswith(("_", ".")):
            footer = _footer(path, size, changed, form)
            if footer is not None and not (found and found[-1].says_the_same(footer)):
                found.append(footer)
    return found


def column_names(found: Sequence[Footer]) -> frozenset[str]:
    """Return the names of the columns of all files, in small letters."""
    return frozenset(name.lower() for footer in found for name, _ in footer.columns.fields)


@lru_cache(maxsize=100_000)
def _footer(path: str, _size: int, _changed: int, form: str) -> Footer | None:
    import pyarrow as pa
    from pyarrow import orc, parquet

    try:
        if form == "parquet":
            schema = parquet.read_metadata(path).schema
            columns = map(schema.column, range(len(schema)))
            return Footer(path, _shared(_of_parquet(schema.to_arrow_schema(), columns)))
        file = orc.ORCFile(path)
        held = Struct(tuple((field.name, _of_orc(field)) for field in file.schema))
        return Footer(path, _shared(held), file.writer == "ORC_JAVA")
    except pa.ArrowNotImplementedError as error:
        fix = "write the column as a text, or leave it out"
        raise TerminalStepError(
            f"{path}: the file has a type of its own ({error}); {fix}"
        ) from None
    except (OSError, pa.ArrowException):
        return None


@lru_cache(maxsize=10_000)
def _shared(columns: Struct) -> Struct:
    """Return one object for equal types, of which many files have the same."""
    return columns


def _of_parquet(fields: Any, columns: Iterator[Any]) -> Struct:
    """Return the fields of a schema or struct; `columns` are the leaves that come next."""
    return Struct(tuple((field.name, _held(field.type, columns)) for field in fields))


def _held(kind: "pa.DataType", columns: Iterator[Any]) -> Held:
    import pyarrow as pa

    kind = getattr(kind, "storage_type", kind)
    if pa.types.is_struct(kind):
        found = _of_parquet(kind, columns)
        names = {name for name, _ in found.fields}
        is_variant = names in _VARIANT and dict(found.fields)["metadata"] == "binary"
        return "variant" if is_variant else found
    if pa.types.is_map(kind):
        return Map(_held(kind.key_type, columns), _held(kind.item_type, columns))
    if _is_list(kind):
        return Array(_held(kind.value_type, columns))
    column = next(columns)
    # Parquet has no such type: Arrow's writers put down bare numbers, and the unit apart.
    return str(kind) if pa.types.is_duration(kind) else _kind(column)


def _is_list(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    lists: tuple[type, ...] = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)
    return isinstance(kind, lists)


def _kind(column: Any) -> str:
    """Return the kind of a leaf: pyarrow's `ColumnSchema`."""
    said = json.loads(column.logical_type.to_json())
    logical = said["Type"]
    if logical == "Int":
        signed = "" if said["isSigned"] else "unsigned "
        return signed + _INTEGERS[said["bitWidth"]]
    if logical == "Decimal":
        return f"decimal({said['precision']},{said['scale']})"
    if logical == "Timestamp":
        zone = "" if said["isAdjustedToUTC"] else "_ntz"
        return f"timestamp{zone}{_UNITS[said['timeUnit']]}"
    if logical == "Time":
        return f"time{_UNITS[said['timeUnit']]}"
    if logical == "None":
        return _PHYSICAL[column.physical_type]
    return _LOGICAL.get(logical, str(logical).lower())


def _of_orc(field: "pa.Field") -> Held:
    import pyarrow as pa

    kind = field.type
    if pa.types.is_struct(kind):
        return Struct(tuple((part.name, _of_orc(part)) for part in kind))
    if pa.types.is_map(kind):
        return Map(_of_orc(kind.key_field), _of_orc(kind.item_field))
    if _is_list(kind):
        return Array(_of_orc(kind.value_field))
    if pa.types.is_timestamp(kind):
        return OF_ORC
    if pa.types.is_union(kind):
        return UNION
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_int64(kind) and _CATALYST in (field.metadata or {}):
        # Spark keeps times without a zone, and intervals, as numbers.
        return str(field.metadata[_CATALYST].decode())
    return _OF_ORC.get(str(kind), str(kind))
