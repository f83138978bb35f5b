"""SQL that converts values that Spark reads from Parquet and ORC files to a wanted type.

Spark has no reader for some types of files, and one schema for all files of a query. A leaf is read
as its carrier, the type of its numbers or bytes, and converted if nothing is lost.
"""

from typing import TYPE_CHECKING

from logdriven_dagster.engine.queries.nested_values import (
    GROUPS_OF_A_UUID,
    of_each,
    of_entries,
    sql_type,
)
from logdriven_dagster.engine.queries.quoting import plain, quote_name
from logdriven_dagster.engine.queries.schemas import ddl_type
from logdriven_dagster.engine.sources.files.typed.held_types import (
    HALF,
    NANOS,
    NANOS_NTZ,
    OF_ORC_NANOS,
    UUID,
    Array,
    Held,
    Map,
    Path,
    Struct,
    carrier,
    is_null,
    units_of_a_second,
)
from logdriven_dagster.engine.sources.files.typed.orc_values import OLD_FRACTION

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_LOST = "whose nanoseconds a TIMESTAMP cannot store; declare it as BIGINT in `columns`"
_NO_TIME = "which is not a time of day; declare it as BIGINT in `columns`"
_LOST_DIGITS = "more digits than a TIMESTAMP can store; write the column as text"
_NO_TIME = "which is not a time of day; declare it as BIGINT in `columns`"
_LOST_DIGITS = "more digits than a TIMESTAMP can store; write the column as text"
_OLD_FRACTION = (
    "a fraction of a second before 1970, which Java libraries may misread in ORC; write the "
    "column as text, or the file as Parquet"
)
_OLD_TIME = (
    "a timestamp before 1900, next to others with digits below a microsecond or outside the years "
    "1677 to 2262; write the column as text, or the file as Parquet"
)
_EPOCH = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
_DAY, _OF_1900 = 86_400, -2_208_988_800
"""Seconds since 1970; no zone differs from UTC by more than a day."""


def read_as(held: Held, wanted: "DataType") -> "DataType":
    """Return the type with which Spark reads files whose columns are `held`."""
    from pyspark.sql import types as ty

    match held:
        case Struct() if isinstance(wanted, ty.StructType):
            parts = _parts(held)
            fields = []
            for field in wanted.fields:
                part = parts.get(field.name.lower())
                kind = field.dataType if part is None else read_as(part, field.dataType)
                fields.append(ty.StructField(field.name, kind))
            return ty.StructType(fields)
        case Array() if isinstance(wanted, ty.ArrayType):
            return ty.ArrayType(read_as(held.element, wanted.elementType))
        case Map() if isinstance(wanted, ty.MapType):
            return ty.MapType(
                read_as(held.key, wanted.keyType), read_as(held.value, wanted.valueType)
            )
        case str() if is_null(held) or not isinstance(
            wanted, (ty.StructType, ty.ArrayType, ty.MapType)
        ):
            return _carrier(held, wanted)
        case _:
            return wanted


def build_conversion(v: str, held: Held, wanted: "DataType", place: str, path: Path) -> str:
    """Return the SQL of a wanted value: `v` itself if Spark reads it unchanged.

    `place` and `path` are for the error of a row whose value the type cannot hold.
    """
    from pyspark.sql import types as ty

    match held:
        case Struct() if isinstance(wanted, ty.StructType):
            return _struct(v, _parts(held), wanted, place, path)
        case Array() if isinstance(wanted, ty.ArrayType):
            kinds = held.element, wanted.elementType, place, (*path, "element")
            if build_conversion(v, *kinds) == v:
                return v
            return of_each(v, lambda element: build_conversion(element, *kinds), len(path))
        case Map() if isinstance(wanted, ty.MapType):
            keys = held.key, wanted.keyType, place, (*path, "key")
            values = held.value, wanted.valueType, place, (*path, "value")
            if build_conversion(v, *keys) == build_conversion(v, *values) == v:
                return v
            return of_entries(
                v,
                lambda key: build_conversion(key, *keys),
                lambda each: build_conversion(each, *values),
                len(path),
            )
        case str() if is_null(held) and _carrier(held, wanted) != wanted:
            return f"CAST(NULL AS {sql_type(wanted)})"
        case str() if read_as(held, wanted) != wanted:
            return _leaf(v, held, wanted, f"{plain(place)}: column {plain('.'.join(path))}")
        case _:
            return v


def _parts(held: Struct) -> dict[str, Held]:
    return {name.lower(): part for name, part in held.fields}


def _carrier(kind: str, wanted: "DataType") -> "DataType":
    name = wanted.simpleString()
    found = carrier(kind, name)
    return wanted if found == name else ddl_type(found)


def _struct(v: str, held: dict[str, Held], wanted: "DataType", place: str, path: Path) -> str:
    from pyspark.sql import types as ty

    assert isinstance(wanted, ty.StructType)
    values, same = [], True
    for field in wanted.fields:
        own = value = f"{v}.{quote_name(field.name)}"
        key = field.name.lower()
        if key in held:
            value = build_conversion(own, held[key], field.dataType, place, (*path, key))
        same &= value == own
        values.append(f"'{plain(field.name)}', {value}")
    if same:
        return v
    return f"CASE WHEN {v} IS NOT NULL THEN named_struct({', '.join(values)}) END"


def _leaf(v: str, kind: str, wanted: "DataType", where: str) -> str:
    if kind in (NANOS, NANOS_NTZ):
        return _time(v, wanted, where)
    if kind == OF_ORC_NANOS:
        return _time_of_seconds(v, where)
    if kind == UUID:
        groups, text = GROUPS_OF_A_UUID
        return f"regexp_replace(lower(hex({v})), '{groups}', '{text}')"
    if kind == HALF:
        return f"CAST({_half(v)} AS {sql_type(wanted)})"
    if units := units_of_a_second(kind):
        return _time_of_day(v, units, where)
    return f"CAST({v} AS {sql_type(wanted)})"


def _time(v: str, wanted: "DataType", where: str) -> str:
    micros = f"{v} div 1000"
    time = f"timestamp_micros({micros})"
    if wanted.typeName() == "timestamp_ntz":
        seconds = f"CAST({micros} AS DECIMAL(20, 0)) / 1000000BD"
        time = f"{_EPOCH} + make_dt_interval(0, 0, 0, {seconds})"
    problem = f"'{where} holds ', {v}, ', {_LOST}'"
    return f"CASE WHEN {v} % 1000 != 0 THEN raise_error(concat({problem})) ELSE {time} END"


def _time_of_seconds(v: str, where: str) -> str:
    """Return SQL of a timestamp from its seconds since 1970 with nine decimals.

    PyArrow writes fractions before 1970 as negative nanoseconds, which Java adds to other seconds.
    Before 1900, Java's seconds and Spark's timestamps follow different offsets of a zone.
    """
    problem = f"'{where} holds ', {v}, ' seconds since 1970, {_LOST_DIGITS}'"
    return (
        f"CASE WHEN {v} < {_DAY}BD AND {v} % 1BD != 0BD "
        f"THEN raise_error('{where} holds {OLD_FRACTION}') "
        f"WHEN {v} < {_OF_1900}BD THEN raise_error('{where} holds {_OLD_TIME}') "
        f"WHEN {v} % 0.000001BD != 0BD THEN raise_error(concat({problem})) "
        f"ELSE timestamp_micros(CAST({v} * 1000000BD AS BIGINT)) END"
    )


def _time_of_day(v: str, units: int, where: str) -> str:
    """Return SQL of a time's text, such as `01:02:03.5`, from its number of units of a second."""
    seconds = f"{v} div {units}"
    parts = (f"{seconds} div 3600", f"{seconds} div 60 % 60", f"{seconds} % 60")
    clock = ", ':', ".join(f"lpad(CAST({part} AS STRING), 2, '0')" for part in parts)
    digits = f"rtrim('0', lpad(CAST({v} % {units} AS STRING), {len(str(units)) - 1}, '0'))"
    fraction = f"CASE WHEN {v} % {units} != 0 THEN concat('.', {digits}) ELSE '' END"
    problem = f"'{where} holds ', {v}, ', {_NO_TIME}'"
    return (
        f"CASE WHEN {v} NOT BETWEEN 0 AND {86400 * units}L THEN raise_error(concat({problem})) "
        f"WHEN {v} IS NOT NULL THEN concat({clock}, {fraction}) END"
    )


def _half(v: str) -> str:
    """Return SQL of the DOUBLE in two bytes of a float, the lower byte first."""
    bits = f"CAST(conv(concat(substr(hex({v}), 3), substr(hex({v}), 1, 2)), 16, 10) AS INT)"
    power, rest = f"(({bits} div 1024) % 32)", f"({bits} % 1024)"
    size = (
        f"CASE WHEN {power} = 0 THEN {rest} * pow(2D, -24) "
        f"WHEN {power} < 31 THEN (1024 + {rest}) * pow(2D, {power} - 25) "
        f"WHEN {rest} = 0 THEN DOUBLE('Infinity') WHEN {rest} > 0 THEN DOUBLE('NaN') END"
    )
    return f"({size}) * CASE WHEN {bits} >= 32768 THEN -1D ELSE 1D END"
