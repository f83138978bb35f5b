"""Text files, read so that no value changes or goes missing silently.

By default, a record that does not fit fails its window. Values that Spark's strict mode accepts
wrongly are found in the same pass: bytes that could not be decoded, digits beyond a decimal's
precision, times without a day. A source with another `mode` continues, and its malformed records
are counted in the pass that reads them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.files import (
    CsvSource,
    JsonSource,
    RecordsSource,
    TextSource,
)
from logdriven_dagster.engine.queries.nested_values import any_leaf, sql_type
from logdriven_dagster.engine.queries.quoting import plain, quote_name
from logdriven_dagster.engine.queries.window_index import bins_by_window, counts_of_bins
from logdriven_dagster.engine.sources.readers import Malformed
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.engine.spark.mode import columns_of_ddl
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.spark.settings import option_text, option_texts
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

CORRUPT = "_corrupt_record"
"""The column that Spark fills with the text of a malformed record."""

UNDECODABLE = "holds bytes that cannot be decoded"
MISFIT = ", not a valid"
REPLACEMENT = "\ufffd"
"""The character that Java substitutes for bytes that are invalid in the file's encoding."""
NOTHING = "\ufdd0"
"""Placeholder for a missing value: Unicode reserves it, so no text contains it.

Spark's own default, the empty text, looks like `""`.
"""
_DIGITS = 38
_WALL_TIME = "^[0-9]+-[0-9]+-[0-9]+([ T][0-9:.]+)?$"
_NESTED = ("array", "map", "struct")
SKIPPED = " since clocks skip it"


def record_options(source: RecordsSource) -> dict[str, str]:
    """Return the options of Spark's reader: the defaults, overridden by the user's."""
    options: dict[str, str] = {}
    if isinstance(source, CsvSource):
        options = {
            "header": option_text(source.header),
            "sep": source.sep,
            "nullValue": NOTHING if source.null_value is None else source.null_value,
            # By default Spark takes columns by position, regardless of a file's header.
            "enforceSchema": "false",
            # Otherwise a line with too few or too many values is not detected.
            "columnPruning": "false",
            # Quotes are doubled within quotes (RFC 4180); by default Spark keeps both.
            "escape": '"',
            # By default Spark ignores any text after the day.
            "dateFormat": "yyyy-M-d",
        }
        if source.is_strict:
            options["unescapedQuoteHandling"] = "RAISE_ERROR"
    if isinstance(source, JsonSource):
        options = {"multiLine": option_text(source.multiline), "dateFormat": "yyyy-M-d"}
    if not isinstance(source, TextSource):
        # Spark drops records without a count; here they are counted first.
        options["mode"] = "FAILFAST" if source.is_strict else "PERMISSIVE"
        options["columnNameOfCorruptRecord"] = CORRUPT
    return options | option_texts(source.options)


def read_as(source: RecordsSource, columns: "StructType") -> "StructType":
    """Return the schema to read with: types that also hold values outside the columns' types."""
    from pyspark.sql.types import StringType, StructField, StructType

    def wide(field: StructField) -> "DataType":
        judged = _is_judged_as_text(source, field)
        return StringType() if judged else _read_type(source, field.dataType)

    fields = [
        StructField(field.name, wide(field)) for field in columns.fields if field.name != CORRUPT
    ]
    if not source.is_strict and not isinstance(source, TextSource):
        fields.append(StructField(CORRUPT, StringType()))
    return StructType(fields)


def parse_declared_columns(source: RecordsSource) -> "StructType | None":
    """Return the columns that the configuration declares; None if it declares none."""
    return columns_of_ddl(source.columns) if source.columns else None


def check_values(
    frame: "DataFrame", source: RecordsSource, *, decodable: bool = False
) -> "DataFrame":
    """Return the rows, with an error in place of each value that differs from the file's.

    `decodable`: every byte of the files is known to be valid text.
    """
    columns = {
        doubt.name: sf.expr(
            f"CASE WHEN {doubt.bad} THEN raise_error({doubt.message}) ELSE {doubt.value} END"
        )
        for doubt in doubts(frame, source)
        if not (decodable and UNDECODABLE in doubt.message)
    }
    return frame.withColumns(columns) if columns else frame


def clean_malformed(
    frame: "DataFrame", source: RecordsSource, windows: Sequence[TimeWindow]
) -> "tuple[DataFrame, Malformed]":
    """Return the rows with NULL for unreadable values, or without such rows, and their counts.

    The second value returns the number of malformed records of each window after the query; None
    where it is not known.
    """
    from pyspark.sql import Observation

    found, names = doubts(frame, source), [name for name in frame.columns if name != CORRUPT]
    unfit = [f"{quote_name(CORRUPT)} IS NOT NULL"] if CORRUPT in frame.columns else []
    unfit += [f"coalesce({doubt.bad}, false)" for doubt in found]
    malformed = sf.expr(" OR ".join(unfit) or "false")
    column = source.window_column if len(windows) > 1 else None
    bins = bins_by_window(frame, column, windows, malformed) if column else None
    observation = Observation()
    observed = frame.observe(
        observation,
        sf.count_if(malformed).alias("malformed"),
        (sf.lit("") if bins is None else bins).alias("bins"),
        # Spark refuses a query that selects only the corrupt column.
        sf.count(quote_name(names[0])).alias("asked"),
    )
    session = frame.sparkSession

    def counts() -> list[int | None]:
        values = mode_of(session).read_observation(observation)
        if "malformed" not in values:
            return [None] * len(windows)
        if column:
            return list(counts_of_bins(values["bins"], len(windows)))
        return [values["malformed"]] * len(windows)

    if source.mode == "DROPMALFORMED":
        observed = observed.where(~malformed)
    changes = {
        d.name: sf.expr(f"CASE WHEN {d.bad} THEN {d.instead} ELSE {d.value} END") for d in found
    }
    observed = observed.withColumns(changes) if changes else observed
    return observed.select(*map(quote_name, names)), counts


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


def doubts(frame: "DataFrame", source: RecordsSource) -> list[Doubt]:
    """Return the columns that Spark itself does not read strictly."""
    columns = parse_declared_columns(source)
    goals = {field.name.lower(): field.dataType for field in columns.fields} if columns else {}
    found = []
    for field in (read_as(source, columns) if columns else frame.schema).fields:
        kind, name = field.dataType.simpleString(), field.name
        v, goal = quote_name(name), goals.get(name.lower(), field.dataType)
        text = f"'column {plain(name)} {UNDECODABLE}'"
        if name == CORRUPT or (reads_bytes(source) and kind == goal.simpleString() == "string"):
            continue
        if kind == "string" and goal.simpleString() == "timestamp":
            found.append(_build_time_doubt(name, source))
        elif _decimals_are_texts(source) and _holds_decimals(goal):
            found.append(_of_decimals(name, source, goal))
        elif isinstance(source, TextSource) and kind == "string":
            found.append(Doubt(name, f"NOT is_valid_utf8({v})", v, f"make_valid_utf8({v})", text))
        elif kind == "string":
            found.append(Doubt(name, f"contains({v}, '{REPLACEMENT}')", v, v, text))
        elif kind != goal.simpleString():
            found.append(_build_narrowing_doubt(name, field.dataType, goal))
    return found


def reads_bytes(source: RecordsSource) -> bool:
    """Return True if Spark's parser itself refuses bytes that are not UTF-8."""
    given = {name.lower() for name in source.options}
    return isinstance(source, JsonSource) and not given & {"encoding", "charset"}


def _is_judged_as_text(source: RecordsSource, field: "StructField") -> bool:
    """Return True if times in the column are validated here: Spark accepts `10:00` as a time today.

    The window column stays unchanged, so that Spark's reader can skip rows of other windows.
    """
    given = {name.lower() for name in source.options}
    is_window = field.name.lower() == (source.window_name or "").lower()
    is_time = field.dataType.simpleString() == "timestamp" and not isinstance(source, TextSource)
    return is_time and not is_window and "timestampformat" not in given


def _build_time_doubt(name: str, source: RecordsSource) -> Doubt:
    """Validate a time in a text: it must have a day, and must not be skipped by the zone's clocks.

    A number in JSON is one of seconds, as in Spark.
    """
    v = quote_name(name)
    time = f"try_cast({v} AS TIMESTAMP)"
    begins = f"length(trim({v})) >= 8 AND substring(trim({v}), 5, 1) = '-' AND {time} IS NOT NULL"
    is_shown = (
        f"CAST({time} AS TIMESTAMP_NTZ) = try_cast({v} AS TIMESTAMP_NTZ) "
        f"OR NOT trim({v}) RLIKE '{_WALL_TIME}'"
    )
    good, value = f"{begins} AND ({is_shown})", time
    if isinstance(source, JsonSource):
        seconds = f"{v} RLIKE '^-?[0-9]{{1,11}}$'"
        good = f"{seconds} OR ({good})"
        value = f"CASE WHEN {seconds} THEN timestamp_seconds(CAST({v} AS BIGINT)) ELSE {time} END"
    which = f"CASE WHEN {begins} THEN '{SKIPPED}' ELSE '' END"
    message = f"concat('column {plain(name)} holds \\'', {v}, '\\'{MISFIT} timestamp', {which})"
    return Doubt(name, f"{v} IS NOT NULL AND NOT coalesce({good}, false)", value, "NULL", message)


def _build_narrowing_doubt(name: str, wide: "DataType", narrow: "DataType") -> Doubt:
    """Validate a column that was read with a wider type: values that need that type do not fit."""
    v = quote_name(name)
    fits, shown = f"try_cast({v} AS {sql_type(narrow)})", f"CAST({v} AS STRING)"
    bad = f"NOT {v} <=> {fits}"
    if wide.typeName() in _NESTED:  # Spark compares some of these only as texts
        bad = f"NOT {shown} <=> CAST(CAST({fits} AS {sql_type(wide)}) AS STRING)"
    digits = f"regexp_replace({shown}, '([.][0-9]*[1-9])0+(?![0-9])|[.]0+(?![0-9])', '$1')"
    message = f"concat('column {plain(name)} holds ', {digits}, '{MISFIT} {narrow.simpleString()}')"
    return Doubt(name, bad, fits, "NULL", message)


def _of_decimals(name: str, source: RecordsSource, goal: "DataType") -> Doubt:
    """Validate decimals that were read as text, including those within nested values.

    A decimal must not contain a comma or more digits than its type.
    """
    v, wide = quote_name(name), _get_wider_type(source, goal)
    known, fits = f"try_cast({v} AS {sql_type(wide)})", f"try_cast({v} AS {sql_type(goal)})"
    unread = any_leaf(v, goal, _is_no_decimal) or "false"
    bad = f"{known} != CAST({fits} AS {sql_type(wide)})"
    shown = v
    if goal.typeName() in _NESTED:  # Spark compares some of these only as texts
        shown = f"CAST({v} AS STRING)"
        bad = f"NOT CAST({known} AS STRING) <=> CAST(CAST({fits} AS {sql_type(wide)}) AS STRING)"
    else:
        shown = f"CASE WHEN {unread} THEN concat('\\'', {v}, '\\'') ELSE {v} END"
    message = f"concat('column {plain(name)} holds ', {shown}, '{MISFIT} {goal.simpleString()}')"
    return Doubt(name, f"coalesce(({unread}) OR {bad}, {v} IS NOT NULL)", fits, "NULL", message)


def _is_no_decimal(v: str, kind: "DataType") -> str | None:
    from pyspark.sql.types import DecimalType

    if not isinstance(kind, DecimalType):
        return None
    wide = f"DECIMAL({_DIGITS}, {_DIGITS - (kind.precision - kind.scale)})"
    return f"({v} IS NOT NULL AND try_cast({v} AS {wide}) IS NULL)"


def _decimals_are_texts(source: RecordsSource) -> bool:
    """Return True if decimals are validated here.

    Without a locale Spark removes commas from them: 12,5 would be 125.
    """
    return not isinstance(source, TextSource) and "locale" not in map(str.lower, source.options)


def _holds_decimals(kind: "DataType") -> bool:
    return any_leaf("", kind, _is_no_decimal) is not None


def _read_type(source: RecordsSource, kind: "DataType") -> "DataType":
    """Return the type with which Spark's parser reads a column of this type."""
    from pyspark.sql.types import DecimalType, StringType

    texts = _decimals_are_texts(source)
    return _map_type(
        _get_wider_type(source, kind),
        lambda leaf: StringType() if texts and isinstance(leaf, DecimalType) else leaf,
    )


def _get_wider_type(source: RecordsSource, kind: "DataType") -> "DataType":
    """Return a type that holds values that Spark would round or wrap around in this one."""
    from pyspark.sql import types as ty

    def wide(leaf: ty.DataType) -> ty.DataType:
        if isinstance(leaf, ty.DecimalType):
            return ty.DecimalType(_DIGITS, _DIGITS - (leaf.precision - leaf.scale))
        if isinstance(leaf, ty.ByteType) and isinstance(source, JsonSource):
            return ty.ShortType()  # Spark turns 128 into -128
        return leaf

    return _map_type(kind, wide)


def _map_type(kind: "DataType", change: "Callable[[DataType], DataType]") -> "DataType":
    """Return a type with each simple type within it changed."""
    from pyspark.sql import types as ty

    if isinstance(kind, ty.ArrayType):
        return ty.ArrayType(_map_type(kind.elementType, change))
    if isinstance(kind, ty.MapType):
        return ty.MapType(_map_type(kind.keyType, change), _map_type(kind.valueType, change))
    if isinstance(kind, ty.StructType):
        fields = [ty.StructField(f.name, _map_type(f.dataType, change)) for f in kind.fields]
        return ty.StructType(fields)
    return change(kind)
