"""Rows that a test finds in a table, and its expected rows in the same form."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from logdriven_dagster.config.project import Project, suggest_nearest
from logdriven_dagster.engine.arrow.values import records
from logdriven_dagster.engine.looking import PreviewEngine, look

if TYPE_CHECKING:
    import pyarrow as pa

_MOST = 1_000_000


def read_result(project: Project, engine: PreviewEngine, table: str) -> "pa.Table":
    """Return the published rows of a table. Raises NotPublishedError if there never were any."""
    return look(project, lambda: engine, table, limit=_MOST)


def list_records(table: "pa.Table", zone: ZoneInfo) -> list[dict[str, Any]]:
    """Return rows as dictionaries, with timestamps in the zone."""
    return [dict(row) for row in records(table, zone)]


def select_columns(found: "pa.Schema", names: Sequence[str]) -> "pa.Schema":
    """Return the columns of a result that expected rows name.

    Raises ValueError for a name that the result lacks.
    """
    import pyarrow as pa

    known = {name.lower(): name for name in found.names}
    if unknown := [name for name in names if str(name).lower() not in known]:
        near = suggest_nearest(unknown[0], found.names)
        near = near or f"; its columns are {', '.join(found.names)}"
        raise ValueError(f"the result has no column {unknown[0]}{near}")
    chosen = dict.fromkeys(known[str(name).lower()] for name in names)
    return pa.schema([found.field(name) for name in chosen])
