"""Reading times of PostgreSQL and MariaDB exactly, where their drivers do not.

Drivers make moments of wall times by the clocks of Java: times that these skip are moved, and
October of 1582 lacks ten days. Spark's filters name moments by wall times, of which some exist
twice. Such columns become texts in a query of ours, with the window's filter in it, so that the
database can use its indexes. With everything in UTC the drivers are right (measured, but for 1582).
"""

from datetime import timezone
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from logdriven_dagster.engine.exact_values import (
    DAY,
    EXISTS,
    MOMENT,
    NO_TIME,
    ZONED,
    Exact,
    checked,
    declared,
    matches,
)
from logdriven_dagster.engine.wall_clocks import has_doubled_bound, wall_bound
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

_LAST = 2**31 - 1
"""The last second that FROM_UNIXTIME knows everywhere."""
_WALL = f"^{DAY}([ T][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}([.][0-9]+)?)?)?$"
_SELECTED_WALL = {"TIMESTAMP": "CAST({c} AS TEXT)", "DATETIME": "CAST({c} AS CHAR)"}
_SECONDS = "CAST({v} AS DECIMAL(38,6))"


def as_given(field: "StructField", kind: str, backend: str) -> Exact | None:
    """A column of wall times that a person reads as such or as text; None for any other."""
    is_wall = backend == "sqlite" or _holds_wall_times(field, backend)
    if kind not in ("string", "timestamp_ntz") or not is_wall:
        return None
    shown = "no time like 2022-01-31 12:00:00"
    text = kind == "string"
    converted = None if text else checked(field, "TIMESTAMP_NTZ", matches(_WALL), shown)
    if backend == "sqlite":
        return Exact("STRING", converted)
    return Exact("STRING", converted, _SELECTED_WALL[declared(field)], _wall_within)


def time_of_server(
    field: "StructField", backend: str, zone: ZoneInfo, window: TimeWindow | None
) -> Exact | None:
    """A column of times; None if the driver is right about it, or it holds something else."""
    if _holds_wall_times(field, backend):
        if str(zone) == "UTC":
            return None
        exists = f"{matches(MOMENT)} AND {EXISTS}"
        converted = checked(field, "TIMESTAMP", exists, NO_TIME, ZONED)
        return Exact("STRING", converted, _SELECTED_WALL[declared(field)], _wall_within)
    if backend == "postgresql" and declared(field) == "TIMESTAMPTZ":
        if window is None or not has_doubled_bound(window):
            return None
        shown = "no time of the years 1 to 9999"
        converted = checked(field, "TIMESTAMP", matches(_WALL), shown, "concat({v}, ' UTC')")
        return Exact("STRING", converted, "CAST({c} AT TIME ZONE 'UTC' AS TEXT)", _moment_within)
    if backend in ("mysql", "mariadb") and declared(field) == "TIMESTAMP":
        # Its text would be in the zone of the server's session.
        value = f"timestamp_micros(CAST({_SECONDS} * 1000000 AS BIGINT))"
        converted = checked(field, "TIMESTAMP", f"{_SECONDS} > 0", "a zero date", value)
        return Exact("STRING", converted, "CAST(UNIX_TIMESTAMP({c}) AS CHAR)", _unix_within)
    return None


def _holds_wall_times(field: "StructField", backend: str) -> bool:
    wall = {"postgresql": "TIMESTAMP", "mysql": "DATETIME", "mariadb": "DATETIME"}
    return declared(field) == wall.get(backend)


def _wall_within(column: str, window: TimeWindow) -> str:
    start, end = wall_bound(window.start), wall_bound(window.end)
    return f"{column} >= '{start}' AND {column} < '{end}'"


def _moment_within(column: str, window: TimeWindow) -> str:
    start, end = (moment.astimezone(timezone.utc) for moment in (window.start, window.end))
    return f"{column} >= '{start}' AND {column} < '{end}'"


def _unix_within(column: str, window: TimeWindow) -> str:
    """Two hours more at either side, since the server makes wall times of its clocks of these."""
    start, end = (int(moment.timestamp()) for moment in (window.start, window.end))
    terms = [f"{column} >= FROM_UNIXTIME({min(max(start - 7200, 0), _LAST)})"]
    if end + 7200 < _LAST:
        terms.append(f"{column} < FROM_UNIXTIME({max(end + 7200, 0)})")
    return " AND ".join(terms)
