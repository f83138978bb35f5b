"""Exact reads of databases: no value changes on its way into Spark.

Spark infers the types of columns from driver metadata, and some inferred types change values
silently (measured with the drivers of SQLite, PostgreSQL and MariaDB): decimals of more than 38
digits lose their fraction, times of day their microseconds, and SQLite's times nearly everything.
Such a column is read as a type that holds every value, and converted in the frame; a value that its
final type cannot hold is an error with the column's name. Columns in `options.customSchema` are
never changed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from logdriven_dagster.config.connections import Connection
from logdriven_dagster.engine.databases.connections import database
from logdriven_dagster.engine.databases.exact_times import (
    as_given,
    depth_of_postgresql,
    digits_of_server,
    numbers_of_postgresql,
    time_of_server,
    time_of_sqlite,
)
from logdriven_dagster.engine.databases.exact_values import (
    MOST_DIGITS,
    Exact,
    build_checked_cast,
    get_declared_type,
    matches,
    refuse_undeclared,
)
from logdriven_dagster.engine.queries.quoting import plain, quote_name
from logdriven_dagster.engine.spark import functions as sf
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

_UNKNOWN_TYPE = re.compile(r"UNRECOGNIZED_SQL_TYPE\].* name: (\w+), id:")
_NEGATIVE_SCALE = "DECIMAL_SCALE_EXCEEDS_PRECISION"
"""Spark's error for an array such as `numeric(5,-2)[]`."""
_NEGATIVE_SCALES = 1024
"""PostgreSQL's scales have eleven bits with a sign; values from here on are negative."""
_SEEMS_NUMBER = ("", "NUMERIC", "DECIMAL")
"""Types that SQLite's driver also reports for expressions, which have no declared type."""


def read_exactly(
    spark: "SparkSession",
    connection: Connection,
    options: Mapping[str, str],
    zone: ZoneInfo,
) -> "ExactFrame":
    """Return the rows of the table or query in Spark's options, with exact column types.

    `zone` is the zone of times without a zone. Raises TerminalStepError if Spark cannot read a
    column's type, or does not report the database's types.
    """
    from pyspark.sql.types import StructType

    with _unknown_types_named(connection, options):
        frame = _load(spark, options)
    text = options.get("customSchema")
    given: Any = StructType.fromDDL(text) if text else StructType()
    refuse_undeclared(frame.schema.fields)
    look = _ColumnContext(connection.url.get_backend_name(), zone, given)
    exact = {f.name: found for f in frame.schema.fields if (found := look.find_exact(f))}
    if not exact:
        return ExactFrame(frame, dict(options), {}, zone, look.quote)
    changed = {name.lower() for name in exact}
    types = {f.name: f.dataType.simpleString() for f in given if f.name.lower() not in changed}
    types |= {n: each.read_as for n, each in exact.items() if each.read_as and not each.selected}
    wanted = {name: value for name, value in options.items() if name != "customSchema"}
    if types:
        wanted["customSchema"] = ", ".join(f"{quote_name(n)} {kind}" for n, kind in types.items())
    asked = _wrap_query(wanted, exact, frame.columns, look.quote)
    return ExactFrame(_load(spark, asked), wanted, exact, zone, look.quote)


@dataclass(frozen=True)
class ExactFrame:
    """A database's rows as they were read, and the conversion of their columns."""

    raw: "DataFrame"
    given: dict[str, str]
    """Spark's options with the original table or query."""
    exact: Mapping[str, Exact]
    zone: ZoneInfo
    quote: str
    """The quote character of names in the database's SQL."""

    @property
    def options(self) -> dict[str, str]:
        """Spark's options that read `raw`."""
        return _wrap_query(self.given, self.exact, self.raw.columns, self.quote)

    def convert(self, raw: "DataFrame | None" = None) -> "DataFrame":
        """Return the rows with their final column types.

        `raw` are the rows to convert, by default all.
        """
        frame = self.raw if raw is None else raw
        changes = {
            name: sf.expr(
                exact.converted.replace("{zone}", str(self.zone)).replace("{v}", quote_name(name))
            )
            for name, exact in self.exact.items()
            if exact.converted
        }
        return frame.withColumns(changes) if changes else frame

    def near(self, column: str, window: TimeWindow) -> "DataFrame":
        """Return the raw rows that may lie in the window, by a filter that the database can use.

        SQLite's texts are compared by date, with a margin of two days on each side for offsets and
        zones. Values that are not text starting with a digit pass, so that their conversion can
        refuse them.
        """
        name = next((name for name in self.exact if name.lower() == column.lower()), None)
        if name is not None and (within := self.exact[name].within) is not None:
            where = within(_name(name, self.quote), window)
            asked = _wrap_query(self.given, self.exact, self.raw.columns, self.quote, where)
            return _load(self.raw.sparkSession, asked)
        if name is None or not self.exact[name].has_days:
            return self.raw
        text = self.raw[quote_name(name)]
        first, last = window.start_clock - timedelta(days=2), window.end_clock + timedelta(days=2)
        near = (text >= sf.lit(f"{first:%Y-%m-%d}")) & (text < sf.lit(f"{last:%Y-%m-%d}"))
        # In SQLite a number comes before every text, and ":" follows the digits.
        return self.raw.where(near | (text < sf.lit("-")) | (text >= sf.lit(":")))


@contextmanager
def _unknown_types_named(connection: Connection, options: Mapping[str, str]) -> Iterator[None]:
    """Name the columns of a type that Spark does not know, such as an array of `money`.

    Raises TerminalStepError. Spark's error has only the type's name, even with `customSchema`.
    """
    try:
        yield
    except Exception as error:
        known = _UNKNOWN_TYPE.search(str(error))
        if known is None and _NEGATIVE_SCALE not in str(error):
            raise
        name = known[1] if known else "_numeric"
        columns = ", ".join(_columns_of_type(connection, options, name)) or "a column"
        kind = f"{name[1:]}[]" if name.startswith("_") else name
        problem = f"{columns}: Spark cannot read the type {kind}"
        raise TerminalStepError(f"{problem}; read it by `query`, as CAST(… AS TEXT)") from None


def _columns_of_type(
    connection: Connection, options: Mapping[str, str], kind: str
) -> Iterator[str]:
    """Yield the columns of a PostgreSQL type, found by its Python driver."""
    if connection.url.get_backend_name() != "postgresql":
        return
    origin = options.get("dbtable") or f"({options['query']}) logdriven_origin"
    with database(connection) as engine, engine.connect() as conn:
        found = conn.exec_driver_sql("SELECT oid FROM pg_type WHERE typname = %s", (kind,))
        types = set(found.scalars())
        empty = conn.exec_driver_sql(f"SELECT * FROM {origin} LIMIT 0")  # noqa: S608 - a source's own
        assert empty.cursor is not None
        for column in empty.cursor.description:
            if column[1] in types:
                yield f"column {plain(column[0])}"


def _load(spark: "SparkSession", options: Mapping[str, str]) -> "DataFrame":
    return spark.read.format("jdbc").options(**options).load()


def _wrap_query(
    options: Mapping[str, str],
    exact: Mapping[str, Exact],
    columns: Sequence[str],
    quote: str,
    where: str = "",
) -> dict[str, str]:
    """Return the options with our own query around the table or query, if a column needs it."""
    if not any(each.selected or each.refused for each in exact.values()):
        return dict(options)
    chosen, conditions = [], [where] if where else []
    for name in columns:
        column, each = _name(name, quote), exact.get(name, Exact())
        selected = each.selected and f"{each.selected.replace('{c}', column)} AS {column}"
        chosen.append(selected or column)
        if each.refused:
            conditions.append(each.refused.replace("{c}", column))
    origin = options.get("dbtable") or f"({options['query']}) logdriven_origin"
    query = f"SELECT {', '.join(chosen)} FROM {origin}"  # noqa: S608 - names are quoted
    if conditions:
        query = f"{query} WHERE {' AND '.join(conditions)}"
    rest = {name: value for name, value in options.items() if name not in ("dbtable", "query")}
    return rest | {"dbtable": f"({query}) logdriven_exact"}


def _name(column: str, quote: str) -> str:
    return f"{quote}{column.replace(quote, quote * 2)}{quote}"


@dataclass(frozen=True)
class _ColumnContext:
    """Properties of a database and a read that determine how its columns are read."""

    backend: str
    zone: ZoneInfo
    given: "StructType"
    """The schema in `options.customSchema`."""

    @property
    def quote(self) -> str:
        return "`" if self.backend in ("mysql", "mariadb") else '"'

    def find_exact(self, field: "StructField") -> Exact | None:
        """Return the exact read of a column; None if Spark is exact or the user sets the type."""
        kinds = {f.name.lower(): f.dataType.typeName() for f in self.given.fields}
        kind = kinds.get(field.name.lower())
        if kind is not None:
            return as_given(field, kind, self.backend)
        if self.backend == "sqlite":
            return time_of_sqlite(field) or _sqlite(field)
        found = time_of_server(field, self.backend, self.zone) or _server(field)
        conditions = [found.refused] if found and found.refused else []
        if self.backend == "postgresql":
            conditions = [*_conditions_of_postgresql(field, found), *conditions]
        if (found is None or found.read_as is None) and (
            digits := digits_of_server(field, self.backend)
        ):
            conditions.append(digits)
        return replace(found or Exact(), refused=" AND ".join(conditions)) if conditions else found


def _sqlite(field: "StructField") -> Exact | None:
    """Return the exact read by the declared type, since values may have any type.

    Integers have 64 bits, of which Spark reads 32, or makes decimals of them. Source:
    sqlite.org/datatype3.
    """
    kind, guessed = get_declared_type(field), field.dataType.simpleString()
    if guessed == "boolean":
        return Exact(
            "STRING",
            build_checked_cast(field, "BOOLEAN", "true", "a value other than true and false"),
        )
    if guessed in ("int", "smallint", "tinyint", "decimal(20,0)"):
        return Exact("BIGINT")
    if guessed == "float":
        return Exact("DOUBLE")
    if guessed == "decimal(38,18)" and kind not in _SEEMS_NUMBER:
        return Exact("STRING")
    scale = _find_lost_scale(field)
    if scale is not None:
        return Exact(f"DECIMAL({MOST_DIGITS},{scale})")
    return _decimal_of_sqlite(field)


def _decimal_of_sqlite(field: "StructField") -> Exact | None:
    """Return a read of a decimal with the largest possible scale, since SQLite stores any number.

    Spark would round it to the scale that the column declares.
    """
    from pyspark.sql.types import DecimalType

    kind = field.dataType
    if not isinstance(kind, DecimalType) or kind.precision >= MOST_DIGITS:
        return None
    own = kind.simpleString()
    kept = f"CAST({{v}} AS {own}) = {{v}}"
    wide = f"DECIMAL({MOST_DIGITS},{MOST_DIGITS - kind.precision + kind.scale})"
    return Exact(wide, build_checked_cast(field, own, kept, f"a number that {own} cannot hold"))


def _server(field: "StructField") -> Exact | None:
    """Return the exact read by driver metadata, for PostgreSQL, MariaDB and others."""
    kind, guessed = get_declared_type(field), field.dataType.simpleString()
    is_time = field.metadata.get("logical_time_type") and "timestamp" in guessed
    if is_time or kind in ("_TIME", "_TIMETZ"):
        return Exact("STRING")
    if kind == "YEAR" and guessed == "date":
        return Exact("INT")
    if kind == "TINYINT" and guessed == "boolean":
        return Exact(
            "SMALLINT", build_checked_cast(field, "BOOLEAN", "{v} IN (0, 1)", "neither 0 nor 1")
        )
    if kind == "BIT" and field.metadata.get("binarylong"):
        return Exact(
            "BIGINT", build_checked_cast(field, "BIGINT", "{v} >= 0", "a number beyond bigint")
        )
    if kind == "BIT" and guessed == "binary" and not field.metadata.get("binarylong"):
        return Exact("STRING")  # the digits of PostgreSQL's bits, as bytes
    if kind == "_BIT" and guessed == "array<binary>":
        return Exact("ARRAY<STRING>", selected="CAST({c} AS TEXT[])")
    if kind == "FLOAT" and guessed == "float":
        return Exact("DOUBLE", "CAST({v} AS FLOAT)", "{c} + 0E0")  # as text, it has six digits
    scale = _find_lost_scale(field)
    return None if scale is None else _decimal(field, scale)


def _conditions_of_postgresql(field: "StructField", found: Exact | None) -> Iterator[str]:
    """Yield conditions for values that would fail Spark's job without the name of their column."""
    from pyspark.sql.types import DecimalType

    read_as = found.read_as if found else None
    kind: Any = field.dataType
    is_array = kind.typeName() == "array" and read_as != "STRING"
    if is_array:
        yield depth_of_postgresql(field)
        kind = kind.elementType
    is_number = isinstance(kind, DecimalType) and "NUMERIC" in get_declared_type(field)
    # The driver makes numbers of an array's elements, also where they are read as texts.
    if is_number and (is_array or not read_as):
        yield numbers_of_postgresql(field)


def _decimal(field: "StructField", scale: int) -> Exact:
    kind = f"DECIMAL({MOST_DIGITS},{scale})"
    fits = matches(f"^-?[0-9]+([.][0-9]{{0,{scale}}}0*)?$")
    problem = f"a number that {kind.lower()} cannot hold"
    if field.dataType.typeName() != "array":
        return Exact("STRING", build_checked_cast(field, kind, fits, problem))
    element = build_checked_cast(field, kind, fits, problem).replace("{v}", "x")
    return Exact("ARRAY<STRING>", f"transform({{v}}, x -> {element})")


def _find_lost_scale(field: "StructField") -> int | None:
    """Return the scale that a decimal column needs if Spark has changed it; else None.

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
    return int(scale) if 0 < scale <= MOST_DIGITS else int(kind.scale)
