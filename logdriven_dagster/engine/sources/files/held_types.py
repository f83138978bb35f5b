"""Types of the columns that Parquet and ORC files hold, as their footers name them.

A type of a column is a tree whose leaves are kinds: names of Spark's types, and of those that Spark
lacks. What a leaf can be read as without a change of its values is decided here.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from logdriven_dagster.engine.queries.quoting import quoted

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

NANOS, NANOS_NTZ = "timestamp of nanoseconds", "timestamp_ntz of nanoseconds"
_MILLIS, _MILLIS_NTZ = "timestamp of milliseconds", "timestamp_ntz of milliseconds"
OF_ORC, UNION = "timestamp of ORC", "union"
Path: TypeAlias = tuple[str, ...]
"""Names from the column down to a leaf, in small letters."""


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct, or all columns of a file."""

    fields: "tuple[tuple[str, Held], ...]"


@dataclass(frozen=True, slots=True)
class Array:
    """An array, whatever its length."""

    element: "Held"


@dataclass(frozen=True, slots=True)
class Map:
    """A map of keys to values."""

    key: "Held"
    value: "Held"


Held: TypeAlias = "str | Struct | Array | Map"

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_EXACT = {
    "boolean": {"boolean"},
    "tinyint": {"tinyint", "smallint", "int", "bigint", "double"},
    "smallint": {"smallint", "int", "bigint", "double"},
    "int": {"int", "bigint", "double"},
    "bigint": {"bigint"},
    "unsigned tinyint": {"smallint", "int", "bigint"},
    "unsigned smallint": {"int", "bigint"},
    "unsigned int": {"bigint"},
    "unsigned bigint": {"decimal(20,0)"},
    "float": {"float", "double"},
    "double": {"double"},
    "string": {"string", "binary"},
    "binary": {"binary", "string"},
    "date": {"date"},
    "null": {"int", "tinyint", "smallint", "bigint", "double", "date"},  # a column of INT32
    "timestamp": {"timestamp", "bigint"},
    "timestamp_ntz": {"timestamp_ntz", "bigint"},
    _MILLIS: {"timestamp", "bigint"},
    _MILLIS_NTZ: {"timestamp_ntz", "bigint"},
    OF_ORC: {"timestamp"},
    "timestamp of 96 bits": {"timestamp", "timestamp_ntz"},
    NANOS: {"timestamp", "bigint"},
    NANOS_NTZ: {"timestamp_ntz", "bigint"},
    "time": {"bigint"},
    "time of nanoseconds": {"bigint"},
    "time of milliseconds": {"int", "bigint"},
    **{f"duration[{unit}]": {"bigint"} for unit in ("s", "ms", "us", "ns")},
    "uuid": {"binary"},
    "float of 16 bits": {"binary"},
    "interval of 12 bytes": {"binary"},
}
"""Kind of a leaf → Spark's types that hold each of its values as it is; natural ones come first."""

_NATURAL = {
    "null": "int",
    "unsigned tinyint": "smallint",
    "unsigned smallint": "int",
    "unsigned int": "bigint",
    "unsigned bigint": "decimal(20,0)",
    "timestamp of 96 bits": "timestamp",
    OF_ORC: "timestamp",
    _MILLIS: "timestamp",
    _MILLIS_NTZ: "timestamp_ntz",
    NANOS: "timestamp",
    NANOS_NTZ: "timestamp_ntz",
}
_UNREADABLE = {
    **{f"duration[{unit}]": "BIGINT" for unit in ("s", "ms", "us", "ns")},
    "time": "BIGINT",
    "time of nanoseconds": "BIGINT",
    "time of milliseconds": "INT",
    "uuid": "BINARY",
    "float of 16 bits": "BINARY",
    "interval of 12 bytes": "BINARY",
}
"""Kinds that Spark finds no type for by itself → the type that reads their bytes or numbers."""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def merged(columns: "Collection[Held]") -> Held:
    """Return a type with the fields of all; of a leaf that differs, the first one's kind."""
    first = next(iter(columns))
    match first:
        case Struct():
            names: dict[str, str] = {}
            parts: dict[str, list[Held]] = {}
            for each in columns:
                for name, part in each.fields if isinstance(each, Struct) else ():
                    names.setdefault(name.lower(), name)
                    parts.setdefault(name.lower(), []).append(part)
            return Struct(tuple((name, merged(parts[key])) for key, name in names.items()))
        case Array():
            return Array(merged([each.element for each in columns if isinstance(each, Array)]))
        case Map():
            maps = [each for each in columns if isinstance(each, Map)]
            return Map(merged([each.key for each in maps]), merged([each.value for each in maps]))
        case str():
            return first


def leaves(held: Held, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield each leaf of a type with its path."""
    match held:
        case str():
            yield path, held
        case Struct():
            for name, part in held.fields:
                yield from leaves(part, (*path, name.lower()))
        case Array():
            yield from leaves(held.element, (*path, "element"))
        case Map():
            yield from leaves(held.key, (*path, "key"))
            yield from leaves(held.value, (*path, "value"))


def declared_type(kind: "DataType") -> Held:
    """Return a type of Spark as a tree of the same form."""
    from pyspark.sql import types as ty

    if isinstance(kind, ty.StructType):
        return Struct(tuple((f.name, declared_type(f.dataType)) for f in kind.fields))
    if isinstance(kind, ty.ArrayType):
        return Array(declared_type(kind.elementType))
    if isinstance(kind, ty.MapType):
        return Map(declared_type(kind.keyType), declared_type(kind.valueType))
    name = kind.simpleString()
    return "string" if re.match(r"(var)?char\(", name) else name


def natural_type(kind: str) -> str | None:
    """Return the type of Spark that a kind is read as; None for kinds that Spark refuses."""
    if found := _DECIMAL.fullmatch(kind):
        return kind if int(found[1]) <= 38 else None
    if kind in _UNREADABLE or kind == UNION:
        return None
    return _NATURAL.get(kind, kind)


def readable_type(kind: str) -> str:
    """Return a type to write in `columns` for a kind, in capital letters."""
    natural = natural_type(kind)
    return natural.upper() if natural else _UNREADABLE.get(kind, "BINARY")


def ddl_of(held: Held) -> str:
    """Return a type as `columns` may name it; of a file, its columns."""
    match held:
        case str():
            return readable_type(held)
        case Struct():
            fields = ", ".join(f"{quoted_name(name)}: {ddl_of(part)}" for name, part in held.fields)
            return f"STRUCT<{fields}>"
        case Array():
            return f"ARRAY<{ddl_of(held.element)}>"
        case Map():
            return f"MAP<{ddl_of(held.key)}, {ddl_of(held.value)}>"


def quoted_name(name: str) -> str:
    """Quote a name where DDL asks for it."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else quoted(name)


def is_exact(kind: str, declared: str) -> bool:
    """Whether each value of a kind is the same in a type of Spark that `columns` names.

    Types that no kind is known to be, as intervals, are left to Spark.
    """
    if kind not in _EXACT and not _DECIMAL.fullmatch(kind):
        return True
    wide = _DECIMAL.fullmatch(declared)
    if not wide and declared not in _EXACT and declared not in _SAFE:
        return True
    held = _DECIMAL.fullmatch(kind)
    if held and int(held[1]) > 38:
        return declared == "binary"
    if wide:
        precision, scale = int(wide[1]), int(wide[2])
        if held:
            digits, fraction = int(held[1]) - int(held[2]), int(held[2])
            return scale >= fraction and precision - scale >= digits
        if kind in _DIGITS:
            return precision - scale >= _DIGITS[kind]
    return not held and declared in _EXACT.get(kind, {declared})


_SAFE = frozenset().union(*_EXACT.values())


def have_one_meaning(kinds: Collection[str], declared: str) -> bool:
    """Whether the kinds of a column in several files may be read by one type of Spark.

    A BIGINT is the bare number of a time, whose unit must be the same in all files; nanoseconds are
    read as such a number and converted.
    """
    bare = declared == "bigint" or {NANOS, NANOS_NTZ} & set(kinds)
    return (
        len(set(kinds)) < 2
        or not bare
        or not any(kind.startswith(("time", "duration")) for kind in kinds)
    )


def wider(kinds: Collection[str]) -> str | None:
    """Return the type that kinds of several files are read as exactly; None if there is none."""
    naturals = [natural_type(kind) for kind in kinds]
    for declared in (*naturals, _wider_decimal(kinds)):
        if (
            declared
            and all(is_exact(kind, declared) for kind in kinds)
            and have_one_meaning(kinds, declared)
        ):
            return declared
    return None


def _wider_decimal(kinds: Collection[str]) -> str | None:
    found = [(int(m[1]), int(m[2])) for kind in kinds if (m := _DECIMAL.fullmatch(kind))]
    found += [(_DIGITS[kind], 0) for kind in kinds if kind in _DIGITS]
    if len(found) < len(kinds):
        return None
    scale = max(fraction for _, fraction in found)
    precision = scale + max(digits - fraction for digits, fraction in found)
    return f"decimal({precision},{scale})" if precision <= 38 else None
