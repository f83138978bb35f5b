"""Exact reads of database times for which JDBC drivers are not exact.

SQLite's times are texts of any form. Drivers of servers convert wall times with Java's time zone:
times that its clocks skip are moved, and October 1582 lacks ten days. Spark's filters express
instants as wall times, some of which exist twice, and shift instants before 1900 by the part of the
zone's old offset that is not a whole hour. Such columns become texts or numbers in a query of ours,
which includes the window's filter, so that the database can use its indexes. If everything is in
UTC, and for dates, the drivers are exact, except for values that Spark lacks (infinity, zero dates)
and those ten days (measured): these make a condition of our query fail.
"""

from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from logdriven_dagster.engine.databases.exact_values import (
    DATE,
    DAY,
    EXISTS,
    MOST_DIGITS,
    NO_TIME,
    TIMESTAMP,
    ZONED,
    Exact,
    build_checked_cast,
    get_declared_type,
    matches,
    refusal,
)
from logdriven_dagster.model.windows import TimeWindow, find_wall_bound

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

_LAST = 2**31 - 1
"""The last second that FROM_UNIXTIME supports everywhere."""
_WALL = f"^{DAY}([ T][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}([.][0-9]+)?)?)?$"
_SELECTED_WALL = {"TIMESTAMP": "CAST({c} AS TEXT)", "DATETIME": "CAST({c} AS CHAR)"}
_NOT_IN_SPARK = (
    "a time that Spark does not have: infinity, a zero date, a year before 1 "
    "or after 9999, or a day from the 5th to the 14th of October 1582"
)
_MOVED = "a timestamp before 1900, which Spark shifts in arrays, or a time that Spark does not have"
_SHOWN = {
    # As texts, Java moves zero months, bits are signed bytes, and a FLOAT has six digits.
    "DATE": "CAST({c} AS CHAR)",
    "YEAR": "CAST({c} AS CHAR)",
    "BIT": "CAST({c} + 0 AS CHAR)",
    "FLOAT": "CAST({c} + 0E0 AS CHAR)",
}
"""MariaDB's own text of values of a type, where its driver returns another text."""
_MYSQL_KNOWN = "DAYOFMONTH({c}) > 0 AND MONTH({c}) > 0 AND YEAR({c}) > 0"
_MYSQL_FAILING = "~0 + (CONCAT({c}, ': {text}') <> '') > 0"
_KNOWN = {
    "postgresql": "{c} >= '{first}' AND {c} < '10000-01-01'",
    "mysql": _MYSQL_KNOWN,
    "mariadb": _MYSQL_KNOWN,
}
_FAILING = {
    "postgresql": "CAST(CAST({c} AS TEXT) || ': {text}' AS TIMESTAMP) IS NULL",
    "mysql": _MYSQL_FAILING,
    "mariadb": _MYSQL_FAILING,
}
"""Conversions that fail in PostgreSQL and additions that fail in MariaDB, with the text."""
_MICROS = (
    "CAST(EXTRACT(EPOCH FROM date_trunc('second', {c})) AS BIGINT) * 1000000 "
    "+ CAST(EXTRACT(MICROSECONDS FROM {c}) AS BIGINT) % 1000000"
)
"""An instant of PostgreSQL as a number: Spark shifts drivers' values before 1900."""
_SECONDS = "CAST({v} AS DECIMAL(38,6))"


def as_given(field: "StructField", kind: str, backend: str) -> Exact | None:
    """Return the read of a column whose driver changes values of the type `kind`, or None.

    `kind` is the type that the user has set. Drivers change wall times, and texts of some MariaDB
    types.
    """
    if kind == "string" and backend in ("mysql", "mariadb") and get_declared_type(field) in _SHOWN:
        return Exact("STRING", None, _SHOWN[get_declared_type(field)])
    is_wall = backend == "sqlite" or _holds_wall_times(field, backend)
    if kind not in ("string", "timestamp_ntz") or not is_wall:
        return None
    shown = "a value that is not a time such as 2022-01-31 12:00:00"
    text = kind == "string"
    converted = None if text else build_checked_cast(field, "TIMESTAMP_NTZ", matches(_WALL), shown)
    if backend == "sqlite":
        return Exact("STRING", converted)
    return Exact("STRING", converted, _SELECTED_WALL[get_declared_type(field)], _wall_within)


def time_of_sqlite(field: "StructField") -> Exact | None:
    """Return the read of a date or time column, by its declared type; None for others."""
    if get_declared_type(field) == "DATE":
        day = build_checked_cast(
            field, "DATE", matches(DATE), "a value that is not a day such as 2022-01-31"
        )
        return Exact("STRING", day, has_days=True)
    if get_declared_type(field).startswith(("DATETIME", "TIMESTAMP")):
        return Exact("STRING", _cast_timestamp(field), has_days=True)
    return None


def time_of_server(field: "StructField", backend: str, zone: ZoneInfo) -> Exact | None:
    """Return the read of a time column; None if its driver is exact or it holds no times.

    `backend` is SQLAlchemy's name of the database, `zone` the zone of times without a zone.
    """
    if _holds_wall_times(field, backend):
        if str(zone) == "UTC":
            return _native(field, backend)
        selected = _SELECTED_WALL[get_declared_type(field)]
        return Exact("STRING", _cast_timestamp(field), selected, _wall_within)
    if backend == "postgresql" and get_declared_type(field) == "TIMESTAMPTZ":
        known = _native(field, backend)
        if known is None or str(zone) == "UTC":
            return known
        converted = "timestamp_micros({v})"
        return Exact("BIGINT", converted, _MICROS, _instant_within, known.refused)
    if backend in ("mysql", "mariadb") and get_declared_type(field) == "TIMESTAMP":
        # Its text would be in the zone of the server's session.
        value = f"timestamp_micros(CAST({_SECONDS} * 1000000 AS BIGINT))"
        converted = build_checked_cast(field, "TIMESTAMP", f"{_SECONDS} > 0", "a zero date", value)
        return Exact("STRING", converted, "CAST(UNIX_TIMESTAMP({c}) AS CHAR)", _unix_within)
    if get_declared_type(field) == "_TIMESTAMPTZ" and str(zone) != "UTC":
        return _native(field, backend, "1900-01-02", _MOVED)
    if get_declared_type(field) in ("DATE", "_DATE", "_TIMESTAMP", "_TIMESTAMPTZ"):
        return _native(field, backend)
    return None


def _cast_timestamp(field: "StructField") -> str:
    exists = f"{matches(TIMESTAMP)} AND {EXISTS}"
    return build_checked_cast(field, "TIMESTAMP", exists, NO_TIME, ZONED)


def _native(
    field: "StructField", backend: str, first: str = "0001-01-01", problem: str = _NOT_IN_SPARK
) -> Exact | None:
    """Return a driver read whose query refuses values outside of Spark's calendar.

    `first` is the first valid day in PostgreSQL, `problem` the error message.
    """
    if backend not in _FAILING:
        return None
    known = f"{_KNOWN[backend]} AND ({{c}} < '1582-10-05' OR {{c}} >= '1582-10-15')"
    known = known.replace("{first}", first)
    if field.dataType.typeName() == "array":
        others = f"SELECT 1 FROM unnest({{c}}) AS e WHERE NOT ({known.replace('{c}', 'e')})"  # noqa: S608
        known = f"NOT EXISTS ({others})"
    return Exact(refused=_passing(field, backend, known, problem))


def numbers_of_postgresql(field: "StructField") -> str:
    """Return the condition that decimals are numbers: Spark has neither NaN nor infinity."""
    known = "{c} - {c} = 0"
    if field.dataType.typeName() == "array":
        known = "NOT EXISTS (SELECT 1 FROM unnest({c}) AS e WHERE e - e <> 0)"
    return _passing(field, "postgresql", known, "NaN or infinity, which decimals do not have")


def digits_of_server(field: "StructField", backend: str) -> str | None:
    """Return the condition that decimals of Spark's maximum precision have no more digits."""
    kind: Any = field.dataType
    is_array = kind.typeName() == "array"
    kind = kind.elementType if is_array else kind
    if backend not in _FAILING or getattr(kind, "precision", 0) < MOST_DIGITS:
        return None
    most = f"1{'0' * (MOST_DIGITS - kind.scale)}"
    known = f"ABS({{c}}) < {most}"
    if is_array:
        known = f"NOT EXISTS (SELECT 1 FROM unnest({{c}}) AS e WHERE ABS(e) >= {most})"  # noqa: S608
    return _passing(field, backend, known, f"a number that {kind.simpleString()} cannot hold")


def depth_of_postgresql(field: "StructField") -> str:
    """Return the condition that arrays have as many dimensions as Spark reads.

    PostgreSQL's types do not include the number: a column of type `text[]` may hold any.
    """
    kind, depth = field.dataType, 0
    while kind.typeName() == "array":
        kind, depth = kind.elementType, depth + 1  # type: ignore[attr-defined]
    known = f"coalesce(array_ndims({{c}}), {depth}) = {depth}"
    expected = "one dimension" if depth == 1 else f"{depth} dimensions"
    return _passing(field, "postgresql", known, f"an array of other than {expected}")


def _passing(field: "StructField", backend: str, known: str, problem: str) -> str:
    """Return an SQL condition that is true, or raises an error for an unknown value."""
    failed = _FAILING[backend].replace("{text}", refusal(field, problem))
    return f"CASE WHEN {{c}} IS NULL OR {known} THEN TRUE ELSE {failed} END"


def _holds_wall_times(field: "StructField", backend: str) -> bool:
    wall = {"postgresql": "TIMESTAMP", "mysql": "DATETIME", "mariadb": "DATETIME"}
    return get_declared_type(field) == wall.get(backend)


def _wall_within(column: str, window: TimeWindow) -> str:
    start, end = find_wall_bound(window.start_clock), find_wall_bound(window.end_clock)
    return f"{column} >= '{start}' AND {column} < '{end}'"


def _instant_within(column: str, window: TimeWindow) -> str:
    return f"{column} >= '{window.start}' AND {column} < '{window.end}'"


def _unix_within(column: str, window: TimeWindow) -> str:
    """Return the window's filter with a margin of two hours, for the wall clock of the server."""
    start, end = (int(instant.timestamp()) for instant in (window.start, window.end))
    terms = [f"{column} >= FROM_UNIXTIME({min(max(start - 7200, 0), _LAST)})"]
    if end + 7200 < _LAST:
        terms.append(f"{column} < FROM_UNIXTIME({max(end + 7200, 0)})")
    return " AND ".join(terms)
