"""Values in text files that Spark's parsers change: read as another type, and checked in SQL.

Spark reads `10:00` as a time of today and 12,5 as 125, moves times that clocks skip, cuts digits
off, and turns a TINYINT of 128 into -128. It infers numbers for 007 and for integers that a DOUBLE
cannot hold. The checks apply at any depth of a column.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.files import (
    CsvSource,
    JsonSource,
    RecordsSource,
    TextSource,
)
from logdriven_dagster.engine.queries.nested_values import (
    any_leaf,
    change_leaves,
    first_of_leaves,
    sql_type,
)
from logdriven_dagster.engine.queries.quoting import plain, quote_name, text_literal

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructField

UNDECODABLE = "holds bytes that cannot be decoded"
MISFIT = ", not a valid"
REPLACEMENT = "\ufffd"
"""The character that Java substitutes for bytes that are invalid in the file's encoding."""
SKIPPED = " since clocks skip it"
LOST_DIGITS = " since it has digits below a microsecond"
INFERRED = " since Spark infers this type, which would change it"
_DIGITS = 38
_WALL_TIME = "^[0-9]+-[0-9]+-[0-9]+([ T][0-9:.]+)?$"
_MICRO_DIGITS = 6
_SHORTEST_WITH_NANOS = 15
"""The length of the interval `0 1:2:3.1234567`."""
_FORMATS = {"timestamp": "timestampformat", "timestamp_ntz": "timestampntzformat"}
"""Type → the option with its format."""
_OF_TIMES = {"locale", "timezone", "enabledatetimeparsingfallback"}
"""Options that change the meaning of a format."""
_OF_NO_NUMBERS = {"nanvalue", "positiveinf", "negativeinf"}
"""Options of CSV with texts that Spark's parser reads as numbers."""
_REAL = "^([-+]?([0-9.]+E[-+]?[0-9]+|INF(INITY)?)|NAN)$"
_DIGITS_OF_DOUBLES = 15
"""The number of digits that every DOUBLE keeps."""


@dataclass(frozen=True, slots=True)
class Check:
    """Reading of values of a simple type: functions take the SQL of a value, and return SQL."""

    read: "DataType"
    """The type with which Spark's parser reads them."""
    is_good: Callable[[str], str]
    value: Callable[[str], str]
    problem: Callable[[str], str]
    """The parts of an error's text, after the column's name."""


def read_type(source: RecordsSource, field: "StructField") -> "DataType":
    """Return the type with which Spark's parser reads a column."""
    return map_type(
        field.dataType,
        lambda leaf: (
            leaf if (check := find_check(source, field.name, leaf)) is None else check.read
        ),
    )


@dataclass(frozen=True, slots=True)
class Doubt:
    """SQL for a column whose values Spark may read differently from the file's."""

    name: str
    bad: str
    """A condition: the value differs from the file's."""
    value: str
    """The value in the column's own type."""
    instead: str
    """The replacement for a bad value in a source that is not strict."""
    message: str
    """The error message for a bad value."""


def find_doubt(source: RecordsSource, field: "StructField") -> Doubt | None:
    """Return the doubt about a column; None if Spark's parser reads it strictly."""
    found = build_doubt(field, lambda leaf: find_check(source, field.name, leaf))
    if found is None or not isinstance(source, TextSource):
        return found
    return replace(found, instead=f"make_valid_utf8({quote_name(field.name)})")


def build_doubt(field: "StructField", check: "Callable[[DataType], Check | None]") -> Doubt | None:
    """Return the doubt about a column with the checks of its simple types; None without any."""
    name, kind = field.name, field.dataType

    def is_bad(v: str, leaf: "DataType") -> str | None:
        if (known := check(leaf)) is None:
            return None
        return f"({v} IS NOT NULL AND NOT coalesce({known.is_good(v)}, false))"

    def value(v: str, leaf: "DataType") -> str:
        known = check(leaf)
        return v if known is None else known.value(v)

    def message(v: str, leaf: "DataType", path: str) -> str | None:
        if (known := check(leaf)) is None:
            return None
        text = f"concat('column {plain(path)} ', {known.problem(v)})"
        return f"CASE WHEN {is_bad(v, leaf)} THEN {text} END"

    v = quote_name(name)
    if (bad := any_leaf(v, kind, is_bad)) is None:
        return None
    found = str(first_of_leaves(v, kind, message, name))
    instead = v if kind.typeName() == "string" else "NULL"
    return Doubt(name, bad, change_leaves(v, kind, value), instead, found)


def reads_bytes(source: RecordsSource) -> bool:
    """Return True if Spark's parser itself refuses bytes that are not UTF-8."""
    return isinstance(source, JsonSource) and not _given(source) & {"encoding", "charset"}


def find_check(source: RecordsSource, column: str, leaf: "DataType") -> Check | None:
    """Return the check of a simple type at any depth of a column; None if it needs none."""
    from pyspark.sql import types as ty

    given = _given(source)
    # The window column stays unchanged, so that Spark's reader can skip rows of other windows.
    is_window = column.lower() == (source.window_name or "").lower()
    match leaf:
        case ty.StringType():
            return None if reads_bytes(source) else _check_text(source, leaf)
        case _ if isinstance(source, TextSource):
            return None
        case _ if source.columns is None:
            return None if is_window else _check_inferred(source, leaf)
        case ty.TimestampType() | ty.TimestampNTZType():
            return None if is_window else _check_any_time(source, leaf)
        case ty.DayTimeIntervalType():
            return _check_interval(leaf)
        case ty.DecimalType():
            return _check_decimal(leaf, as_text="locale" not in given)
        case ty.DoubleType() | ty.FloatType() if isinstance(source, CsvSource):
            return None if is_window or given & _OF_NO_NUMBERS else _check_real(leaf)
        case ty.ByteType() if isinstance(source, JsonSource):
            return _check_by_cast(ty.ShortType(), leaf)
    return None


def _given(source: RecordsSource) -> set[str]:
    return {name.lower() for name in source.options}


def _check_text(source: RecordsSource, leaf: "DataType") -> Check:
    def is_good(v: str) -> str:
        if isinstance(source, TextSource):
            return f"is_valid_utf8({v})"
        return f"NOT contains({v}, '{REPLACEMENT}')"

    return Check(leaf, is_good, lambda v: v, lambda _: f"'{UNDECODABLE}'")


def _check_time(*, with_seconds: bool) -> Check:
    """Check an instant: it must have a day, and the zone's clocks must not skip it.

    `with_seconds`: a number is one of seconds, as in Spark.
    """
    from pyspark.sql.types import StringType

    def has_day(v: str) -> str:
        return (
            f"length(trim({v})) >= 8 AND substring(trim({v}), 5, 1) = '-' "
            f"AND try_cast({v} AS TIMESTAMP) IS NOT NULL"
        )

    def is_good(v: str) -> str:
        is_shown = (
            f"CAST(try_cast({v} AS TIMESTAMP) AS TIMESTAMP_NTZ) = "
            f"try_cast({v} AS TIMESTAMP_NTZ) OR NOT trim({v}) RLIKE '{_WALL_TIME}'"
        )
        good = f"{has_day(v)} AND {has_micros(v)} AND ({is_shown})"
        return f"{_is_number(v)} OR ({good})" if with_seconds else good

    def value(v: str) -> str:
        time = f"try_cast({v} AS TIMESTAMP)"
        if not with_seconds:
            return time
        seconds = f"timestamp_seconds(CAST({v} AS BIGINT))"
        return f"CASE WHEN {_is_number(v)} THEN {seconds} ELSE {time} END"

    def problem(v: str) -> str:
        reason = _explain_digits(v, f"CASE WHEN {has_day(v)} THEN '{SKIPPED}' ELSE '' END")
        return f"'holds \\'', {v}, '\\'{MISFIT} timestamp', {reason}"

    return Check(StringType(), is_good, value, problem)


def _check_wall_time() -> Check:
    """Check a time without a zone: it must have a day, and must not have a zone."""
    from pyspark.sql.types import StringType

    def is_good(v: str) -> str:
        time = f"try_cast({v} AS TIMESTAMP_NTZ) IS NOT NULL"
        return f"trim({v}) RLIKE '{_WALL_TIME}' AND {time} AND {has_micros(v)}"

    def problem(v: str) -> str:
        return f"'holds \\'', {v}, '\\'{MISFIT} timestamp_ntz', {_explain_digits(v)}"

    return Check(StringType(), is_good, lambda v: f"try_cast({v} AS TIMESTAMP_NTZ)", problem)


def _check_any_time(source: RecordsSource, leaf: "DataType") -> Check | None:
    """Check a time; with a format, one with digits below a microsecond or without a zone."""
    kind = leaf.typeName()
    given = {name.lower(): str(value) for name, value in source.options.items()}
    form = given.get(_FORMATS[kind])
    if form is not None and "S" * 7 in form:
        return _check_formatted_time(form, kind, given)
    if form is not None:
        is_local = kind == "timestamp" and find_local_format(source) is not None
        return _check_shown_time(form, given) if is_local else None
    if kind == "timestamp_ntz":
        return _check_wall_time()
    return _check_time(with_seconds=isinstance(source, JsonSource))


def find_local_format(source: RecordsSource) -> str | None:
    """Return the format of times without a zone, which Spark moves if clocks skip them.

    Spark reads them as TIMESTAMP_NTZ by the same format, unless options say otherwise.
    """
    given = {name.lower(): str(value) for name, value in source.options.items()}
    form = given.get(_FORMATS["timestamp"])
    if form is None or given.keys() & {_FORMATS["timestamp_ntz"], "timezone"}:
        return None
    if "timestamp_ntz" in (source.columns or "").lower():
        return None
    return None if re.search("[VzOXxZ]", re.sub("'[^']*'", "", form)) else form


def _check_shown_time(form: str, given: Mapping[str, str]) -> Check:
    """Check a time that is read without a zone, by a format: clocks must not skip it."""
    from pyspark.sql.types import TimestampNTZType

    def problem(v: str) -> str:
        # Spark's date_format would move it, too.
        options = _format_options({**_time_options(given), _FORMATS["timestamp_ntz"]: form})
        text = f"get_json_object(to_json(named_struct('v', {v}), {options}), '$.v')"
        return f"'holds \\'', {text}, '\\'{MISFIT} timestamp{SKIPPED}'"

    return Check(
        TimestampNTZType(),
        lambda v: f"CAST(CAST({v} AS TIMESTAMP) AS TIMESTAMP_NTZ) = {v}",
        lambda v: f"CAST({v} AS TIMESTAMP)",
        problem,
    )


def _time_options(given: Mapping[str, str]) -> dict[str, str]:
    return {name: given[name] for name in sorted(_OF_TIMES & given.keys())}


def _format_options(options: Mapping[str, str]) -> str:
    pairs = (f"'{name}', {text_literal(value)}" for name, value in options.items())
    return f"map({', '.join(pairs)})"


def _check_formatted_time(form: str, kind: str, given: Mapping[str, str]) -> Check:
    """Check a time that Spark reads by a format with digits below a microsecond.

    `given` are the options of the source. Spark's parser of JSON reads a text by them as that of
    CSV does.
    """
    from pyspark.sql.types import StringType

    def parse(v: str, text: str) -> str:
        options = _format_options({**_time_options(given), _FORMATS[kind]: text})
        return f"from_json(to_json(named_struct('v', {v})), 'v {kind}', {options}).v"

    def is_exact(v: str) -> str:
        if all(before in ".," for before in re.findall("([^S]?)S{7,}", form)):
            return has_micros(v)
        # The fraction has at most six digits, or only zeros after them.
        more = max(map(len, re.findall("S{7,}", form))) - _MICRO_DIGITS
        short = re.sub("S{7,}", "S" * _MICRO_DIGITS, form)
        rest, zeros = f"left({v}, length({v}) - {more})", f"right({v}, {more}) = '{'0' * more}'"
        return f"({parse(v, short)} IS NOT NULL OR {zeros} AND {parse(rest, short)} IS NOT NULL)"

    def problem(v: str) -> str:
        reason = f"CASE WHEN {parse(v, form)} IS NULL THEN '' ELSE '{LOST_DIGITS}' END"
        return f"'holds \\'', {v}, '\\'{MISFIT} {kind}', {reason}"

    return Check(
        StringType(),
        lambda v: f"{parse(v, form)} IS NOT NULL AND {is_exact(v)}",
        lambda v: parse(v, form),
        problem,
    )


def _check_interval(leaf: "DataType") -> Check:
    """Check an interval of days to seconds: Spark cuts off digits below a microsecond."""
    from pyspark.sql.types import StringType

    name = sql_type(leaf)

    def problem(v: str) -> str:
        return f"'holds \\'', {v}, '\\'{MISFIT} interval', {_explain_digits(v)}"

    return Check(
        StringType(),
        lambda v: f"try_cast({v} AS {name}) IS NOT NULL AND {has_micros(v)}",
        lambda v: f"try_cast({v} AS {name})",
        problem,
    )


def _is_number(v: str) -> str:
    return f"{v} RLIKE '^-?[0-9]{{1,11}}$'"


def has_micros(v: str) -> str:
    """Return SQL that is true if a text has no digits below a microsecond."""
    nanos = "[.,][0-9]{6}[0-9]*[1-9]"
    return f"(length({v}) < {_SHORTEST_WITH_NANOS} OR NOT {v} RLIKE '{nanos}')"


def _explain_digits(v: str, otherwise: str = "''") -> str:
    """Return SQL of the reason in an error: digits below a microsecond, or another one."""
    return f"CASE WHEN NOT {has_micros(v)} THEN '{LOST_DIGITS}' ELSE {otherwise} END"


def _check_decimal(leaf: "DataType", *, as_text: bool) -> Check:
    """Check a decimal: it must not have more digits than its type, nor a comma in a text.

    Without a locale Spark removes commas from texts: 12,5 would be 125.
    """
    from pyspark.sql.types import DecimalType, StringType

    assert isinstance(leaf, DecimalType)
    wide = DecimalType(_DIGITS, _DIGITS - (leaf.precision - leaf.scale))
    if not as_text:
        return _check_by_cast(wide, leaf)
    whole, name = sql_type(wide), sql_type(leaf)

    def is_good(v: str) -> str:
        return f"try_cast({v} AS {whole}) = CAST(try_cast({v} AS {name}) AS {whole})"

    def problem(v: str) -> str:
        quoted = f"concat('\\'', {v}, '\\'')"
        shown = f"CASE WHEN try_cast({v} AS {whole}) IS NULL THEN {quoted} ELSE {v} END"
        return f"'holds ', {shown}, '{MISFIT} {name}'"

    return Check(StringType(), is_good, lambda v: f"try_cast({v} AS {name})", problem)


def _check_inferred(source: RecordsSource, leaf: "DataType") -> Check | None:
    """Check a number whose type Spark infers: its text must be one of the value.

    In CSV 007 may be a code, and a DOUBLE may have more digits than it keeps.
    """
    from pyspark.sql import types as ty

    is_double = isinstance(leaf, ty.DoubleType)
    is_of_csv = isinstance(source, CsvSource)
    if not is_double and not (is_of_csv and _has_plain_digits(source, leaf)):
        return None
    name = sql_type(leaf)

    def is_good(v: str) -> str:
        value, conditions = f"try_cast({v} AS {name})", []
        conditions.append(f"{value} IS NOT NULL")
        if is_of_csv:
            # A leading zero or plus sign; most texts begin with another digit.
            conditions.append(f"(left({v}, 1) > '0' OR NOT {v} RLIKE '^([+]|-?0[0-9])')")
        if is_double:
            few = f"length({v}) <= {_DIGITS_OF_DOUBLES} AND upper({v}) = lower({v})"
            conditions.append(f"({few} OR {_digits(v)} = {_digits(f'CAST({value} AS STRING)')})")
        return " AND ".join(conditions)

    def problem(v: str) -> str:
        reason = f"CASE WHEN try_cast({v} AS {name}) IS NULL THEN '' ELSE '{INFERRED}' END"
        return f"'holds \\'', {v}, '\\'{MISFIT} {name}', {reason}"

    return Check(ty.StringType(), is_good, lambda v: f"try_cast({v} AS {name})", problem)


def _has_plain_digits(source: RecordsSource, leaf: "DataType") -> bool:
    """Return True if SQL reads the texts of a number's type as Spark's parser does."""
    from pyspark.sql import types as ty

    if isinstance(leaf, ty.DecimalType):
        return "locale" not in _given(source)
    return isinstance(leaf, ty.IntegerType | ty.LongType)


def _digits(text: str) -> str:
    """Return SQL of the digits of a number, without those of its exponent and outer zeros."""
    mantissa = f"substring_index(replace(upper({text}), 'INITY', ''), 'E', 1)"
    return f"trim('0' FROM replace(ltrim('-', {mantissa}), '.', ''))"


def _check_real(leaf: "DataType") -> Check:
    """Check a FLOAT or DOUBLE of CSV: Java also reads 5d, 5f and hexadecimal digits as numbers."""
    from pyspark.sql.types import StringType

    name = sql_type(leaf)

    def is_good(v: str) -> str:
        has_form = f"upper({v}) = lower({v}) OR upper(trim({v})) RLIKE '{_REAL}'"
        return f"try_cast({v} AS {name}) IS NOT NULL AND ({has_form})"

    return Check(
        StringType(),
        is_good,
        lambda v: f"try_cast({v} AS {name})",
        lambda v: f"'holds \\'', {v}, '\\'{MISFIT} {name}'",
    )


def _check_by_cast(wide: "DataType", leaf: "DataType") -> Check:
    """Check a number that is read as a wider type, which holds what Spark would round or wrap."""
    name = sql_type(leaf)

    def problem(v: str) -> str:
        # Without the zeros of the wider type.
        digits = f"regexp_replace(CAST({v} AS STRING), '[.]?0+$', '')"
        shown = f"CASE WHEN contains({v}, '.') THEN {digits} ELSE {v} END"
        return f"'holds ', {shown}, '{MISFIT} {name}'"

    return Check(
        wide,
        lambda v: f"{v} = CAST(try_cast({v} AS {name}) AS {sql_type(wide)})",
        lambda v: f"try_cast({v} AS {name})",
        problem,
    )


def map_type(kind: "DataType", change: "Callable[[DataType], DataType]") -> "DataType":
    """Return a type with each simple type within it changed."""
    from pyspark.sql import types as ty

    if isinstance(kind, ty.ArrayType):
        return ty.ArrayType(map_type(kind.elementType, change))
    if isinstance(kind, ty.MapType):
        return ty.MapType(map_type(kind.keyType, change), map_type(kind.valueType, change))
    if isinstance(kind, ty.StructType):
        fields = [ty.StructField(f.name, map_type(f.dataType, change)) for f in kind.fields]
        return ty.StructType(fields)
    return change(kind)
