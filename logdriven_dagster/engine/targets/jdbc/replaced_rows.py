"""Conditions for the rows of a database table that a window replaces."""

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.types.jdbc import JdbcTarget
from logdriven_dagster.engine.databases.connections import holds_instants
from logdriven_dagster.engine.databases.tables import column_of, utc_text
from logdriven_dagster.engine.queries.schemas import WINDOW_START, window_column
from logdriven_dagster.model.windows import TimeWindow, find_wall_bound

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, FromClause, Table


def match_replaced_rows(
    table: "FromClause", window: TimeWindow, target: JdbcTarget, backend: str
) -> "list[ColumnElement[bool]]":
    """Return the conditions of the rows that the new ones replace, by mode; empty for all rows.

    For TIMESTAMP columns of MariaDB they hold in sessions whose time zone is UTC.
    """
    if target.write_mode.replaces_whole_table:
        return []
    column = column_of(table, window_column(target))
    replaced = target.write_mode.range_to_replace(window)
    start, end = (
        _convert_bound(column, instant, backend)
        for instant in (replaced.start_clock, replaced.end_clock)
    )
    return [column >= start, column < end]


def has_instants(table: "Table") -> bool:
    """Return True if a column of the table holds timestamps with a zone."""
    return any(holds_instants(column.type) for column in table.columns)


def _convert_bound(column: Any, instant: datetime, backend: str) -> Any:
    """Return a window's bound, on the project's wall clock, as a value of the column's type."""
    import sqlalchemy as sa

    if column.name == WINDOW_START:
        return utc_text(instant)
    midnight = instant.replace(hour=0, minute=0, second=0, microsecond=0)
    if isinstance(column.type, sa.Date):
        instant = instant if instant == midnight else midnight + timedelta(days=1)
        return sa.literal(f"{instant.date()}") if backend == "sqlite" else instant.date()
    if backend == "sqlite":
        # Without a fraction, the text is a prefix of the text of the same time, so it never sorts
        # after it.
        return sa.literal(f"{find_wall_bound(instant)}")
    if not holds_instants(column.type):
        return find_wall_bound(instant)
    return instant if backend == "postgresql" else instant.astimezone(timezone.utc)
