"""Reading databases so that no value changes on its way into Spark.

Spark guesses the types of columns from what drivers tell, and some guesses change values in
silence (measured over the drivers of SQLite, PostgreSQL and MariaDB): decimals of more than 38
digits lose their fraction, times of day their microseconds, and SQLite's times nearly everything.
Such a column is read as something that holds every value, and converted in the frame; a value that
its type cannot hold is an error which names the column. What `options.customSchema` says of a
column is never touched.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from logdriven_dagster.config.connections import Connection
from logdriven_dagster.engine.quoting import plain, quoted
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField

_DIGITS = 38
_NEGATIVE_SCALES = 1024
"""PostgreSQL's scales have eleven bits with a sign; those from here on are negative."""
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_OFFSET = " ?(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
_MOMENT = f"^{_DAY}([ T][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}([.][0-9]+)?)?({_OFFSET})?)?$"
_DATE = f"^{_DAY}([ T]00:00(:00([.]0+)?)?)?$"
_ZONED = (
    "CASE length({v}) WHEN 10 THEN concat({v}, ' 00:00:00 {zone}') "
    "WHEN 16 THEN concat({v}, ':00 {zone}') ELSE CASE "
    f"WHEN {{v}} RLIKE ':[0-9.]+{_OFFSET}$' THEN {{v}} ELSE concat({{v}}, ' {{zone}}') END END"
)
"""A time's text with a zone: that of the project where it has none, whatever the session's is."""
_SEEMS_NUMBER = ("", "NUMERIC", "DECIMAL")
"""What SQLite's driver also says of expressions, which have no declared type."""


@dataclass(frozen=True, slots=True)
class Exact:
    """How to read a column: as which type, and the expression that converts it.

    `{v}` stands for the column and `{zone}` for the project's zone in the expression; without one
    it stays as it was read.
    """

    read_as: str
    converted: str | None = None


def read_exactly(
    spark: "SparkSession", connection: Connection, options: Mapping[str, str], zone: ZoneInfo
) -> "ExactFrame":
    """The table or query that Spark's options name; texts without a zone are times in this one."""
    frame = _load(spark, options)
    exact = _exact_columns(connection, frame, options.get("customSchema"))
    if not exact:
        return ExactFrame(frame, dict(options), {}, zone)
    given = [text] if (text := options.get("customSchema")) else []
    schema = ", ".join([*given, *(f"{quoted(n)} {e.read_as}" for n, e in exact.items())])
    wanted = {**options, "customSchema": schema}
    return ExactFrame(_load(spark, wanted), wanted, exact, zone)


@dataclass(frozen=True)
class ExactFrame:
    """A database's rows as they were read, and how their columns become what they are."""

    raw: "DataFrame"
    options: dict[str, str]
    """Spark's options that read `raw`."""
    exact: Mapping[str, Exact]
    zone: ZoneInfo

    def converted(self, raw: "DataFrame | None" = None) -> "DataFrame":
        """The rows with their columns' own types; of `raw`, if these are the rows to convert."""
        from pyspark.sql import functions as sf

        frame = self.raw if raw is None else raw
        changes = {
            name: sf.expr(
                exact.converted.replace("{zone}", str(self.zone)).replace("{v}", quoted(name))
            )
            for name, exact in self.exact.items()
            if exact.converted
        }
        return frame.withColumns(changes) if changes else frame

    def near(self, column: str, window: TimeWindow) -> "DataFrame":
        """The raw rows among which those of the window are, by a filter that SQLite can use.

        Texts are compared by their days, two more at either side for offsets and zones. Whatever is
        no text that begins with a digit stays, so that its conversion can refuse it.
        """
        from pyspark.sql import functions as sf

        name = next((name for name in self.exact if name.lower() == column.lower()), None)
        if name is None or not _is_moment(self.exact[name]):
            return self.raw
        text = self.raw[quoted(name)]
        first, last = window.start - timedelta(days=2), window.end + timedelta(days=2)
        near = (text >= sf.lit(f"{first:%Y-%m-%d}")) & (text < sf.lit(f"{last:%Y-%m-%d}"))
        # In SQLite a number comes before every text, and ":" follows the digits.
        return self.raw.where(near | (text < sf.lit("-")) | (text >= sf.lit(":")))


def stored(connection: Connection, frame: "DataFrame") -> "DataFrame":
    """The rows as Spark has to write them. Only SQLite needs more than Spark does by itself.

    Its driver keeps only milliseconds of times; their own form, which databases hold already and
    keys are compared by, stays where it is exact. Decimals are doubles there, and NaN is null: a
    row that would come back as another is an error.
    """
    from pyspark.sql import functions as sf

    if connection.url.get_backend_name() != "sqlite":
        return frame
    changes = {}
    for field in frame.schema.fields:
        kind, v = field.dataType.simpleString(), quoted(field.name)
        if kind == "timestamp":
            text = f"date_format({v}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
            changes[field.name] = sf.expr(f"regexp_replace({text}, '000$', '')")
        elif kind in ("float", "double"):
            changes[field.name] = _survivors(field, f"NOT isnan({v})")
        elif kind.startswith("decimal"):
            same = f"try_cast(CAST({v} AS DOUBLE) AS {kind}) <=> {v}"
            changes[field.name] = _survivors(field, same)
    return frame.withColumns(changes) if changes else frame


def _survivors(field: "StructField", condition: str) -> "Column":
    """The values that meet the condition; an error for the others."""
    from pyspark.sql import functions as sf

    kind = field.dataType.simpleString()
    text = f"column {plain(field.name)}: SQLite cannot hold this {kind}; write it as text"
    v = quoted(field.name)
    return sf.expr(f"CASE WHEN {v} IS NULL OR {condition} THEN {v} ELSE raise_error('{text}') END")


def _load(spark: "SparkSession", options: Mapping[str, str]) -> "DataFrame":
    return spark.read.format("jdbc").options(**options).load()


def _exact_columns(
    connection: Connection, frame: "DataFrame", custom_schema: str | None
) -> dict[str, Exact]:
    from pyspark.sql.types import StructType

    given: Any = StructType.fromDDL(custom_schema) if custom_schema else StructType()
    known = {name.lower() for name in given.names}
    look = _sqlite if connection.url.get_backend_name() == "sqlite" else _server
    found = {f.name: look(f) for f in frame.schema.fields if f.name.lower() not in known}
    return {name: exact for name, exact in found.items() if exact}


def _sqlite(field: "StructField") -> Exact | None:
    """By the declared type, since values may be anything. Source: sqlite.org/datatype3, affinity.

    Integers have 64 bits, of which Spark reads 32, or makes decimals of them (DESIGN §9).
    """
    declared, guessed = _declared(field), field.dataType.simpleString()
    if declared == "DATE":
        return Exact("STRING", _checked(field, "DATE", _matches(_DATE), "no day like 2022-01-31"))
    if declared.startswith(("DATETIME", "TIMESTAMP")):
        problem = "no time like 2022-01-31 12:00:00"
        return Exact("STRING", _checked(field, "TIMESTAMP", _matches(_MOMENT), problem, _ZONED))
    if guessed == "boolean":
        return Exact("STRING", _checked(field, "BOOLEAN", "true", "neither true nor false"))
    if guessed in ("int", "smallint", "tinyint", "decimal(20,0)"):
        return Exact("BIGINT")
    if guessed == "float":
        return Exact("DOUBLE")
    if guessed == "decimal(38,18)" and declared not in _SEEMS_NUMBER:
        return Exact("STRING")
    scale = _lost_scale(field)
    return None if scale is None else Exact(f"DECIMAL({_DIGITS},{scale})")


def _server(field: "StructField") -> Exact | None:
    """PostgreSQL, MariaDB and others, by what their drivers say of a column."""
    declared, guessed = _declared(field), field.dataType.simpleString()
    is_time = field.metadata.get("logical_time_type") and "timestamp" in guessed
    if is_time or declared in ("_TIME", "_TIMETZ"):
        return Exact("STRING")
    if declared == "YEAR" and guessed == "date":
        return Exact("INT")
    if declared == "TINYINT" and guessed == "boolean":
        return Exact("TINYINT", _checked(field, "BOOLEAN", "{v} IN (0, 1)", "neither 0 nor 1"))
    if declared == "BIT" and field.metadata.get("binarylong"):
        return Exact("BIGINT")
    scale = _lost_scale(field)
    return None if scale is None else _decimal(field, scale)


def _decimal(field: "StructField", scale: int) -> Exact:
    kind = f"DECIMAL({_DIGITS},{scale})"
    fits = _matches(f"^-?[0-9]+([.][0-9]{{0,{scale}}}0*)?$")
    problem = f"a number that {kind.lower()} cannot hold"
    if field.dataType.typeName() != "array":
        return Exact("STRING", _checked(field, kind, fits, problem))
    element = _checked(field, kind, fits, problem).replace("{v}", "x")
    return Exact("ARRAY<STRING>", f"transform({{v}}, x -> {element})")


def _lost_scale(field: "StructField") -> int | None:
    """The scale that a decimal column needs, where Spark has changed it; else None.

    Beyond 38 decimals, Spark's own choice keeps room for the digits before the point.
    """
    from pyspark.sql.types import ArrayType, DecimalType

    kind: Any = field.dataType
    kind = kind.elementType if isinstance(kind, ArrayType) else kind
    scale = field.metadata.get("scale")
    if not isinstance(kind, DecimalType) or scale is None or kind.scale == scale:
        return None
    if scale >= _NEGATIVE_SCALES:
        return 0
    return int(scale) if 0 < scale <= _DIGITS else int(kind.scale)


def _checked(
    field: "StructField", kind: str, condition: str, problem: str, value: str = "{v}"
) -> str:
    """The cast of a value that meets the condition; an error naming the column for any other."""
    name = plain(field.name)
    hint = f"read it with options.customSchema: `{name}` STRING, or convert it in query"
    text = f"column {name} ({_declared(field).strip('_')}) holds {problem}; {hint}"
    return (
        f"CASE WHEN {{v}} IS NULL THEN NULL "
        f"WHEN {condition} AND try_cast({value} AS {kind}) IS NOT NULL "
        f"THEN CAST({value} AS {kind}) ELSE raise_error('{text}') END"
    )


def _matches(pattern: str) -> str:
    return f"{{v}} RLIKE '{pattern}'"


def _is_moment(exact: Exact) -> bool:
    return exact.converted is not None and (_MOMENT in exact.converted or _DATE in exact.converted)


def _declared(field: "StructField") -> str:
    return str(field.metadata.get("jdbcClientType", "")).upper()
