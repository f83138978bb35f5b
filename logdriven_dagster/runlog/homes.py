"""Homes in the run log: one row for each table and project, written before its first window."""

from collections.abc import Iterable, Mapping

from sqlalchemy import Select, delete, insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from logdriven_dagster.model.definitions import Home, project_entry
from logdriven_dagster.runlog.schema.attempts import table_home
from logdriven_dagster.runlog.sql.among import among
from logdriven_dagster.runlog.sql.clock import utc_now
from logdriven_dagster.runlog.store import OvertakenError

_KNOWN = select(
    table_home.c.name,
    table_home.c.project_name,
    table_home.c.host,
    table_home.c.folder,
    table_home.c.place,
).where(among(table_home.c.name))


def recorded(conn: Connection, names: Iterable[str]) -> dict[str, Home]:
    """Name → its home, of the names that have one."""
    rows = conn.execute(_KNOWN, {"names": list(names)})
    return {row.name: Home(*row) for row in rows}


def owned_by_others(project: str) -> Select[tuple[str]]:
    """A query for the names of all tables that belong to other projects."""
    return select(table_home.c.name).where(table_home.c.project_name != project)


def put(conn: Connection, homes: Iterable[Home], before: Mapping[str, Home]) -> None:
    """Record homes in place of those `before`; OvertakenError if another process was faster."""
    for home in sorted(homes, key=lambda home: home.name):
        values = {
            "project_name": home.project,
            "host": home.host,
            "folder": home.folder,
            "place": home.place,
            "last_update_time": utc_now(),
        }
        old = before.get(home.name)
        if old is None:
            _add(conn, {"name": home.name, **values})
            continue
        same = (table_home.c.name == home.name) & (table_home.c.project_name == old.project)
        same &= table_home.c.place.is_not_distinct_from(old.place)
        if conn.execute(update(table_home).where(same).values(**values)).rowcount != 1:
            raise OvertakenError(f"{home.name} is being recorded elsewhere")
        if old.project != home.project:
            renamed = table_home.c.name == project_entry(old.project)
            conn.execute(delete(table_home).where(renamed))


def _add(conn: Connection, values: Mapping[str, object]) -> None:
    try:
        conn.execute(insert(table_home).values(**values))
    except IntegrityError:
        raise OvertakenError(f"{values['name']} is being recorded elsewhere") from None
