"""Exact writes to databases: values are stored unchanged, or raise an error."""

from typing import TYPE_CHECKING

from logdriven_dagster.config.connections import Connection
from logdriven_dagster.engine.databases.wall_clocks import INSTANT, WALL
from logdriven_dagster.engine.queries.quoting import plain, quote_name
from logdriven_dagster.engine.spark import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

_MARIADB = ("mysql", "mariadb")
_LACKING = "is one of the days of 1582 that database drivers do not have; write it as text"


def convert_for_write(
    connection: Connection, frame: "DataFrame", *, copied: bool = False
) -> "DataFrame":
    """Return the rows as Spark must write them; a row that would change raises an error.

    Wall times are sent as texts, since drivers would apply Java's time zone. So are instants, in
    UTC: Spark shifts those before 1900 on their way into a driver, except for rows that are
    `copied`. SQLite's driver keeps only milliseconds of times; its own form, in which existing rows
    are stored and keys are compared, is used where it is exact.
    """
    backend = connection.url.get_backend_name()
    if backend != "sqlite":
        frame = _without_lacking_days(frame)
    changes = {}
    for field in frame.schema.fields:
        kind, v = field.dataType.simpleString(), quote_name(field.name)
        if kind == WALL:
            text = _wall_text(field.name)
            changes[field.name] = sf.expr(_own_form(text) if backend == "sqlite" else text)
        elif kind == INSTANT and backend in _MARIADB:
            changes[field.name] = sf.expr(_utc_text(v))
        elif kind == INSTANT and backend == "postgresql" and not copied:
            changes[field.name] = sf.expr(f"concat({_utc_text(v)}, 'Z')")
        elif held := _find_value_limit(kind, v, backend):
            changes[field.name] = _survivors(field, *held)
    return frame.withColumns(changes) if changes else frame


def _find_value_limit(kind: str, v: str, backend: str) -> tuple[str, str, str] | None:
    """Return the database's name, the condition of valid values, and a fix for others."""
    is_float = kind in ("float", "double")
    if backend == "sqlite" and is_float:
        return "SQLite", f"NOT isnan({v})", "write it as text"
    if backend == "sqlite" and kind.startswith("decimal"):
        # SQLite stores decimals as doubles.
        same = f"try_cast(CAST({v} AS DOUBLE) AS {kind}) <=> {v}"
        return "SQLite", same, "write it as text"
    if backend in _MARIADB and is_float:
        return "MariaDB", f"abs({v}) < double('Infinity')", "write NULL or a text instead"
    if backend == "postgresql" and kind == "string":
        return "PostgreSQL", f"instr({v}, chr(0)) = 0", "remove U+0000 from it"
    return None


def _without_lacking_days(frame: "DataFrame") -> "DataFrame":
    """Return the frame with an error for days that drivers move.

    Java's calendar lacks ten days of 1582.
    """
    changes = {}
    for name, kind in frame.dtypes:
        if kind in (INSTANT, WALL, "date"):
            v = quote_name(name)
            shown = f"concat('column {plain(name)}: ', CAST({v} AS STRING), ' {_LACKING}')"
            lacking = f"{v} >= DATE'1582-10-04' AND {v} < DATE'1582-10-16'"
            changes[name] = sf.expr(f"CASE WHEN {lacking} THEN raise_error({shown}) ELSE {v} END")
    return frame.withColumns(changes) if changes else frame


def _wall_text(name: str) -> str:
    """Return SQL of a wall time's text; it raises an error outside of the years 1 to 9999."""
    text = f"CAST({quote_name(name)} AS STRING)"
    problem = f"concat('column {plain(name)}: ', {text}, ' is not of the years 1 to 9999')"
    good = f"{text} IS NULL OR {text} RLIKE '^(?!0000)[0-9]{{4}}-'"
    return f"CASE WHEN {good} THEN {text} ELSE raise_error({problem}) END"


def _own_form(text: str) -> str:
    """Return SQL that gives a wall time's text three decimals, or six if it needs them."""
    filled = f"rpad(concat({text}, if(length({text}) = 19, '.', '')), 26, '0')"
    return f"regexp_replace({filled}, '000$', '')"


def _utc_text(v: str) -> str:
    """Return SQL of an instant's text in UTC, in any session zone."""
    epoch = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"
    return f"CAST(timestampadd(MICROSECOND, unix_micros({v}), {epoch}) AS STRING)"


def _survivors(field: "StructField", database: str, condition: str, fix: str) -> "Column":
    """Return the values that meet the condition; others raise an error."""
    kind, v = field.dataType.simpleString(), quote_name(field.name)
    text = f"column {plain(field.name)}: {database} cannot store this {kind}; {fix}"
    return sf.expr(f"CASE WHEN {v} IS NULL OR {condition} THEN {v} ELSE raise_error('{text}') END")
