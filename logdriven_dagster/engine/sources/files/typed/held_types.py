"""Types of the columns in Parquet and ORC files, named as in their footers.

The type of a column is a tree whose leaves are kinds: names of Spark's types, and of those that
Spark lacks. The functions here decide which types read a leaf without changing its values.
"""

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

NANOS, NANOS_NTZ = "timestamp of nanoseconds", "timestamp_ntz of nanoseconds"
_MILLIS, _MILLIS_NTZ = "timestamp of milliseconds", "timestamp_ntz of milliseconds"
OF_ORC, UNION = "timestamp of ORC", "union"
OF_ORC_NANOS = "timestamp of nanoseconds in ORC"
OF_96_BITS, OF_96_BITS_NTZ = "timestamp of 96 bits", "timestamp_ntz of 96 bits"
UNKNOWN_96_BITS = (
    "timestamp of 96 bits, whose footer does not record whether it is a TIMESTAMP or a "
    "TIMESTAMP_NTZ"
)
LOST_DIGITS = "timestamp of 96 bits with digits below a microsecond"
WITH_INFINITY = " with infinity"
"""The suffix of the kind of a leaf with an infinite day or time, for which Spark has no value."""
UUID, HALF, INT128 = "uuid", "float of 16 bits", "128-bit integer"
PERIOD = "period"
"""A span of pandas, whose number has a meaning only with its frequency."""
NULL = "null"
"""A column that holds only NULL, which writers without a type for it call INT32."""
ALL_NULL = "null in a column of "
"""The prefix of the kind of a leaf that is NULL throughout one of several files."""
Path: TypeAlias = tuple[str, ...]
"""Names from the column down to a leaf, in lower case."""


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct, or all columns of a file."""

    fields: "tuple[tuple[str, Held], ...]"


@dataclass(frozen=True, slots=True)
class Array:
    """An array of any length."""

    element: "Held"


@dataclass(frozen=True, slots=True)
class Map:
    """A map of keys to values."""

    key: "Held"
    value: "Held"


Held: TypeAlias = "str | Struct | Array | Map"

_DIGITS = {
    "tinyint": 3,
    "smallint": 5,
    "int": 10,
    "bigint": 19,
    "unsigned tinyint": 3,
    "unsigned smallint": 5,
    "unsigned int": 10,
    "unsigned bigint": 20,
}
_TIMES = {"time": 10**6, "time of nanoseconds": 10**9, "time of milliseconds": 10**3}
"""Kinds of a time of day → the number of their units per second."""
_DURATIONS = [f"duration[{unit}]" for unit in ("s", "ms", "us", "ns")]
_INFINITE = {
    "date": "INT",
    **dict.fromkeys(("timestamp", "timestamp_ntz", _MILLIS, _MILLIS_NTZ), "BIGINT"),
}
"""Kinds that may hold infinity → the type that reads their numbers."""
_EXACT = {
    "boolean": {"boolean"},
    "tinyint": {"tinyint", "smallint", "int", "bigint", "double"},
    "smallint": {"smallint", "int", "bigint", "double"},
    "int": {"int", "bigint", "double"},
    "bigint": {"bigint"},
    "unsigned tinyint": {"smallint", "int", "bigint", "double"},
    "unsigned smallint": {"int", "bigint", "double"},
    "unsigned int": {"bigint", "double"},
    "unsigned bigint": {"decimal(20,0)"},
    "float": {"float", "double"},
    "double": {"double"},
    "string": {"string", "binary"},
    "binary": {"binary", "string"},
    "date": {"date"},
    "timestamp": {"timestamp", "bigint"},
    "timestamp_ntz": {"timestamp_ntz", "bigint"},
    _MILLIS: {"timestamp", "bigint"},
    _MILLIS_NTZ: {"timestamp_ntz", "bigint"},
    OF_ORC: {"timestamp"},
    OF_ORC_NANOS: {"timestamp"},
    OF_96_BITS: {"timestamp"},
    OF_96_BITS_NTZ: {"timestamp_ntz"},
    UNKNOWN_96_BITS: {"timestamp", "timestamp_ntz"},
    NANOS: {"timestamp", "bigint"},
    NANOS_NTZ: {"timestamp_ntz", "bigint"},
    "time": {"string", "bigint"},
    "time of nanoseconds": {"string", "bigint"},
    "time of milliseconds": {"string", "int", "bigint"},
    **{duration: {"bigint"} for duration in (*_DURATIONS, PERIOD)},
    UUID: {"string", "binary"},
    HALF: {"float", "double", "binary"},
    "12-byte interval": {"binary"},
    INT128: {"binary"},
    **{kind + WITH_INFINITY: {number.lower()} for kind, number in _INFINITE.items()},
}
"""Kind of a leaf → types that hold each of its values exactly, read or converted."""

_NATURAL = {
    NULL: "int",
    "unsigned tinyint": "smallint",
    "unsigned smallint": "int",
    "unsigned int": "bigint",
    "unsigned bigint": "decimal(20,0)",
    OF_96_BITS: "timestamp",
    OF_96_BITS_NTZ: "timestamp_ntz",
    OF_ORC: "timestamp",
    OF_ORC_NANOS: "timestamp",
    _MILLIS: "timestamp",
    _MILLIS_NTZ: "timestamp_ntz",
    NANOS: "timestamp",
    NANOS_NTZ: "timestamp_ntz",
    **dict.fromkeys(_TIMES, "string"),
    UUID: "string",
    HALF: "float",
}
_UNREADABLE = {
    **dict.fromkeys((*_DURATIONS, PERIOD), "BIGINT"),
    **{kind + WITH_INFINITY: number for kind, number in _INFINITE.items()},
    **dict.fromkeys((UNKNOWN_96_BITS, LOST_DIGITS), "TIMESTAMP"),
    "12-byte interval": "BINARY",
    INT128: "BINARY",
}
"""Kinds without a type that holds their values → the type that reads their bytes or numbers."""
_CARRIERS = {
    NANOS: "bigint",
    NANOS_NTZ: "bigint",
    OF_ORC_NANOS: "decimal(21,9)",
    "time": "bigint",
    "time of nanoseconds": "bigint",
    "time of milliseconds": "int",
    UUID: "binary",
    HALF: "binary",
}
"""Kinds that Spark has no reader for → the type that reads their bytes or numbers."""
_NARROW = {"tinyint", "smallint", *(kind for kind in _DIGITS if kind.startswith("unsigned"))}
"""Kinds that Spark's vectorized reader does not read as a DECIMAL."""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def merge_types(columns: "Collection[Held]") -> Held:
    """Return a type with the fields of all; a leaf that differs gets the first one's kind."""
    first = next((each for each in columns if not is_null(each)), next(iter(columns)))
    match first:
        case Struct():
            names: dict[str, str] = {}
            parts: dict[str, list[Held]] = {}
            for each in columns:
                for name, part in each.fields if isinstance(each, Struct) else ():
                    names.setdefault(name.lower(), name)
                    parts.setdefault(name.lower(), []).append(part)
            return Struct(tuple((name, merge_types(parts[key])) for key, name in names.items()))
        case Array():
            return Array(merge_types([each.element for each in columns if isinstance(each, Array)]))
        case Map():
            maps = [each for each in columns if isinstance(each, Map)]
            return Map(
                merge_types([each.key for each in maps]), merge_types([each.value for each in maps])
            )
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


def with_kinds(held: Held, kind_at: Callable[[Path, str], str], path: Path = ()) -> Held:
    """Return a type with other kinds of leaves: `kind_at` takes the path and kind of each."""
    match held:
        case str():
            return kind_at(path, held)
        case Struct():
            fields = [
                (name, with_kinds(part, kind_at, (*path, name.lower())))
                for name, part in held.fields
            ]
            return Struct(tuple(fields))
        case Array():
            return Array(with_kinds(held.element, kind_at, (*path, "element")))
        case Map():
            key = with_kinds(held.key, kind_at, (*path, "key"))
            return Map(key, with_kinds(held.value, kind_at, (*path, "value")))


def convert_spark_type(kind: "DataType") -> Held:
    """Convert a Spark type into a tree of the same form."""
    from pyspark.sql import types as ty

    if isinstance(kind, ty.StructType):
        return Struct(tuple((f.name, convert_spark_type(f.dataType)) for f in kind.fields))
    if isinstance(kind, ty.ArrayType):
        return Array(convert_spark_type(kind.elementType))
    if isinstance(kind, ty.MapType):
        return Map(convert_spark_type(kind.keyType), convert_spark_type(kind.valueType))
    name = kind.simpleString()
    return "string" if re.match(r"(var)?char\(", name) else name


def is_null(held: Held) -> bool:
    """Return True if all values of a leaf are NULL."""
    return isinstance(held, str) and (held == NULL or held.startswith(ALL_NULL))


def natural_type(kind: str) -> str | None:
    """Return the Spark type that reads a kind; None for kinds that no type holds."""
    kind = kind.removeprefix(ALL_NULL)
    if found := _DECIMAL.fullmatch(kind):
        return kind if int(found[1]) <= 38 else None
    if kind in _UNREADABLE:
        return None
    return _NATURAL.get(kind, kind)


def readable_type(kind: str) -> str:
    """Return the type to write in `columns` for a kind, in upper case."""
    natural = natural_type(kind)
    return natural.upper() if natural else _UNREADABLE.get(kind, "BINARY")


def carrier(kind: str, declared: str) -> str:
    """Return the type to read a kind with if `declared` is wanted: the same, or one to convert."""
    own = _CARRIERS.get(kind.removeprefix(ALL_NULL)) or readable_type(kind).lower()
    if is_null(kind):
        return declared if kind == NULL and declared in _EXACT["int"] else own
    if kind in _CARRIERS:
        return declared if declared in (own, "bigint") else own
    is_decimal = _DECIMAL.fullmatch(declared) is not None
    if kind in _NARROW and (is_decimal or declared == "double"):
        return own
    return (
        own if declared == "string" and (kind in _TEXTS or _DECIMAL.fullmatch(kind)) else declared
    )


def units_of_a_second(kind: str) -> int | None:
    """Return the number of units of a time of day per second; None for other kinds."""
    return _TIMES.get(kind)


def can_be_infinite(kind: str) -> bool:
    """Return True if some programs store infinity in a kind."""
    return kind in _INFINITE


def is_exact(kind: str, declared: str) -> bool:
    """Return True if a Spark type in `columns` holds each value of a kind unchanged.

    Types without a known kind, such as intervals, are left to Spark.
    """
    if is_null(kind):
        return True
    if declared == "string" and (kind in _TEXTS or _DECIMAL.fullmatch(kind)):
        return natural_type(kind) is not None
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


_TEXTS = {"boolean", "date", *_DIGITS}
"""Kinds whose values each have exactly one text."""
_SAFE = frozenset().union(*_EXACT.values())


def have_one_meaning(kinds: Collection[str], declared: str) -> bool:
    """Return True if one Spark type can read the kinds of a column in several files.

    A number may be the bare one of a time, whose unit must be the same in all files.
    """
    held = {kind.removesuffix(WITH_INFINITY) for kind in kinds if not is_null(kind)}
    return (
        len(held) < 2
        or declared not in ("int", "bigint")
        or not any(kind.startswith(("time", "duration", PERIOD)) for kind in held)
    )


def wider(kinds: Collection[str]) -> str | None:
    """Return the type that reads the kinds of several files exactly; None if there is none.

    Numbers are not converted to text implicitly.
    """
    held = [kind for kind in kinds if not is_null(kind)] or list(kinds)
    naturals = [natural_type(kind) for kind in held]
    for declared in (*naturals, _wider_decimal(held), "double"):
        if (
            declared
            and (declared != "string" or set(naturals) == {"string"})
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
