"""Progress of tables in Kettle, from the guide's `t_etl_tbl_log`.

Source: Kettle guide: a table that was completed today does not run again today.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.fields import parse_instant
from logdriven_dagster.errors import UsageError
from logdriven_dagster.plugins.importers.drafts import Translation
from logdriven_dagster.plugins.importers.taking_over import Progress

if TYPE_CHECKING:
    from sqlalchemy import Engine

_LOG = "t_etl_tbl_log"


def read_progress(
    engine: "Engine", schema: str | None, names: Mapping[str, str], translation: Translation
) -> list[Progress]:
    """Return the last completion of each table; tables without one are left out.

    `names` maps Kettle's tables to the project's. Raises UsageError if the database has no such
    log.
    """
    import sqlalchemy as sa

    columns: Any = [sa.column(name) for name in ("tbl_name", "begin_dttm", "end_dttm", "status")]
    log = sa.table(_LOG, *columns, schema=schema)
    if not sa.inspect(engine).has_table(_LOG, schema):
        raise UsageError(f"--take-over: the database has no table {_LOG}")
    done: dict[str, Progress] = {}
    last: dict[str, str] = {}
    with engine.connect() as conn:
        for row in conn.execute(sa.select(log).order_by(log.c.begin_dttm)).mappings():
            name = str(row["tbl_name"]).strip()
            if name in names:
                last[name] = str(row["status"]).strip()
            if last.get(name) == "Completed":
                begin, end = _parse_time(row["begin_dttm"]), _parse_time(row["end_dttm"])
                done[name] = Progress(names[name], _place(name), end, begin)
    for name in (name for name, status in last.items() if status == "Running"):
        reason = "it is Running in Kettle: stop it first, then run this command again"
        translation.note(_place(name), names[name], reason)
    return list(done.values())


def _place(name: str) -> str:
    return f"{_LOG} of Kettle, tbl_name {name}"


def _parse_time(value: object) -> datetime:
    return value if isinstance(value, datetime) else parse_instant(str(value))
