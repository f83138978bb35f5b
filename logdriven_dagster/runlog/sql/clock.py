"""The database server's clock, in UTC: workers' clocks drift, and one log needs one time."""

from datetime import datetime, timedelta, timezone
from typing import Any

from sqlalchemy import ColumnElement, DateTime, Float, literal
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement

Timestamp = DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
"""A naive UTC time with microseconds (milliseconds on SQLite)."""

SET_BACK = timedelta(minutes=1)
"""A timestamp further in the future than this shows that a clock was set back: servers of one
database differ by less."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def count_microseconds(instant: datetime) -> int:
    """Return a naive UTC time as microseconds since 1970: a number that grows from run to run."""
    return (instant.replace(tzinfo=timezone.utc) - _EPOCH) // timedelta(microseconds=1)


class utc_now(FunctionElement[Any]):  # noqa: N801 - reads as the SQL function that it is
    """The server's current time, not that of the transaction's start."""

    type = Timestamp
    inherit_cache = True


class utc_from_now(FunctionElement[Any]):  # noqa: N801 - as above
    """The server's current time plus an interval."""

    type = Timestamp
    inherit_cache = True

    def __init__(self, later: timedelta) -> None:
        super().__init__(literal(later.total_seconds(), Float))


class elapsed_seconds(FunctionElement[Any]):  # noqa: N801 - as above
    """The seconds between two timestamps of the log."""

    type = Float()
    inherit_cache = True


def match_past(instant: ColumnElement[Any]) -> ColumnElement[bool]:
    """Match timestamps of the log that are in the past; others show that the clock was set back."""
    return instant <= utc_from_now(SET_BACK)


def measure_since(instant: datetime, now: datetime) -> timedelta | None:
    """Return the time since a timestamp; None, for unknown, if the clock was set back since."""
    return None if instant - now > SET_BACK else max(now - instant, timedelta(0))


@compiles(utc_now, "sqlite")
def _compile_now_sqlite(_element: utc_now, _compiler: Any, **_kw: Any) -> str:
    return "strftime('%Y-%m-%d %H:%M:%f000', 'now')"


@compiles(utc_now, "postgresql")
def _compile_now_postgresql(_element: utc_now, _compiler: Any, **_kw: Any) -> str:
    return "timezone('utc', clock_timestamp())"


@compiles(utc_now, "mysql")
@compiles(utc_now, "mariadb")
def _compile_now_mysql(_element: utc_now, _compiler: Any, **_kw: Any) -> str:
    return "UTC_TIMESTAMP(6)"


@compiles(utc_from_now, "sqlite")
def _compile_later_sqlite(element: utc_from_now, compiler: Any, **kw: Any) -> str:
    seconds = compiler.process(element.clauses, **kw)
    return f"strftime('%Y-%m-%d %H:%M:%f000', 'now', {seconds} || ' seconds')"


@compiles(utc_from_now, "postgresql")
def _compile_later_postgresql(element: utc_from_now, compiler: Any, **kw: Any) -> str:
    seconds = compiler.process(element.clauses, **kw)
    return f"timezone('utc', clock_timestamp()) + make_interval(secs => {seconds})"


@compiles(utc_from_now, "mysql")
@compiles(utc_from_now, "mariadb")
def _compile_later_mysql(element: utc_from_now, compiler: Any, **kw: Any) -> str:
    seconds = compiler.process(element.clauses, **kw)
    return f"UTC_TIMESTAMP(6) + INTERVAL CAST({seconds} * 1000000 AS SIGNED) MICROSECOND"


@compiles(elapsed_seconds, "sqlite")
def _compile_elapsed_sqlite(element: elapsed_seconds, compiler: Any, **kw: Any) -> str:
    start, end = (compiler.process(each, **kw) for each in element.clauses)
    return f"((julianday({end}) - julianday({start})) * 86400.0)"


@compiles(elapsed_seconds, "postgresql")
def _compile_elapsed_postgresql(element: elapsed_seconds, compiler: Any, **kw: Any) -> str:
    start, end = (compiler.process(each, **kw) for each in element.clauses)
    return f"EXTRACT(EPOCH FROM ({end} - {start}))"


@compiles(elapsed_seconds, "mysql")
@compiles(elapsed_seconds, "mariadb")
def _compile_elapsed_mysql(element: elapsed_seconds, compiler: Any, **kw: Any) -> str:
    start, end = (compiler.process(each, **kw) for each in element.clauses)
    return f"(TIMESTAMPDIFF(MICROSECOND, {start}, {end}) / 1000000.0)"
