"""Projects of a log and the homes of their tables: the owners of windows, and places of rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, bindparam, delete, insert, or_, select, update
from sqlalchemy.engine import Connection, Row
from sqlalchemy.exc import IntegrityError

from logdriven_dagster.errors import RunLogError
from logdriven_dagster.model.definitions import Home
from logdriven_dagster.runlog.definitions.codes import rename_project
from logdriven_dagster.runlog.schema.attempts import (
    job_log,
    job_log_archive,
    log_range,
    metadata,
    project,
    table_home,
)
from logdriven_dagster.runlog.sql.among import among
from logdriven_dagster.runlog.sql.chunks import split_into_chunks
from logdriven_dagster.runlog.sql.clock import utc_now
from logdriven_dagster.runlog.sql.projects import PROJECT_ID, match_project
from logdriven_dagster.runlog.store import OvertakenError

_KNOWN = select(
    table_home.c.name, table_home.c.host, table_home.c.folder, table_home.c.place
).where(match_project(table_home), among(table_home.c.name))
_HOME = select(table_home.c.name).where(
    match_project(table_home), table_home.c.name == bindparam("name")
)
_SHARED, _EXCLUSIVE = _HOME.with_for_update(read=True), _HOME.with_for_update()
_ELSEWHERE = (
    select(
        table_home.c.place,
        table_home.c.host,
        table_home.c.name,
        project.c.project_name,
        project.c.folder,
    )
    .join_from(table_home, project, project.c.project_id == table_home.c.project_id)
    .where(~match_project(table_home))
)
"""The tables of other projects."""


@dataclass(frozen=True, slots=True)
class LogProject:
    """A project as it is here, to be looked up in a log and recorded there.

    A log identifies a project by its name. A project with another name, but with the folder and the
    warehouse of a project in the log, is that project, renamed.
    """

    name: str
    host: str
    folder: str
    """The project folder on that host."""
    place: str | None
    """The warehouse; None if no table is stored in one, or it is not known here."""

    def find(self, conn: Connection) -> int | None:
        """Return the `project_id`, None if the project is not in the log.

        Raises RunLogError if the log has a project of this name whose tables are in another place.
        """
        row = self._row(conn)
        return None if row is None else int(row.project_id)

    def is_recorded(self, conn: Connection) -> bool:
        """Return True if the log has the project with its current values."""
        row = self._row(conn)
        return row is not None and not self._changes(row)

    def record(self, conn: Connection) -> int:
        """Write changes of the project, and return its `project_id`.

        Raises OvertakenError if another process records a project of this name at the same time.
        """
        row = self._row(conn)
        if row is None:
            values = {"create_time": utc_now(), **self.values}
            key = _execute(conn, insert(project).values(**values), self.name).inserted_primary_key
            assert key is not None
            return int(key[0])
        if self._changes(row):
            move(conn, row.project_id, str(row.project_name), self)
        return int(row.project_id)

    @property
    def values(self) -> dict[str, Any]:
        """The columns of its row."""
        return {
            "project_name": self.name,
            "host": self.host,
            "folder": self.folder,
            "place": self.place,
            "last_update_time": utc_now(),
        }

    def _changes(self, row: Row[Any]) -> bool:
        new_place = self.place is not None and self.place != row.place
        return new_place or str(row.project_name) != self.name

    def _row(self, conn: Connection) -> Row[Any] | None:
        here = and_(project.c.host == self.host, project.c.folder == self.folder)
        query = select(project).where(or_(project.c.project_name == self.name, here))
        rows = conn.execute(query.order_by(project.c.project_id.desc())).all()
        for row in rows:
            if row.project_name == self.name:
                if None not in (self.place, row.place) and self.place != row.place:
                    raise RunLogError(self._elsewhere(conn, row))
                return row
        return next((row for row in rows if row.place == self.place), None)

    def _elsewhere(self, conn: Connection, row: Row[Any]) -> str:
        log = conn.engine.url.render_as_string(hide_password=True)
        return (
            f"could not open project {self.name}: according to the run log {log}, it has run in "
            f"the folder {row.folder} on {row.host}, and its tables are in "
            f"{row.place}; here, in {self.folder}, the place is {self.place}. Use the "
            "old place again (`warehouse` or `path`), or, if all rows were moved to "
            "the new one, `logdriven adopt`; a second project needs a name of its own "
            "(`project` in logdriven.yaml)"
        )


def find_project(conn: Connection, name: str) -> tuple[int, LogProject] | None:
    """Find a project by its name, and return its `project_id` and its recorded values."""
    row = conn.execute(select(project).where(project.c.project_name == name)).one_or_none()
    if row is None:
        return None
    return row.project_id, LogProject(row.project_name, row.host, row.folder, row.place)


def move(conn: Connection, project_id: int, name: str, to: LogProject) -> None:
    """Record another name or place of a project; its definitions follow a new name."""
    mine = update(project).where(project.c.project_id == project_id)
    _execute(conn, mine.values(**to.values), to.name)
    if name != to.name:
        rename_project(conn, project_id, name, to.name)


def remove_unused(conn: Connection, project_id: int) -> bool:
    """Remove a project without windows, with all of its rows; False if it has windows."""
    for log in (job_log, job_log_archive, log_range):
        if conn.execute(select(log).where(log.c.project_id == project_id).limit(1)).first():
            return False
    for table in reversed(metadata.sorted_tables):
        if "project_id" in table.c:
            conn.execute(delete(table).where(table.c.project_id == project_id))
    return True


def speak_for(conn: Connection, project_id: int) -> None:
    """Restrict the statements of a connection to the rows of a project."""
    conn.execution_options(**{PROJECT_ID: project_id})


def find_homes(conn: Connection, names: Iterable[str]) -> dict[str, Home]:
    """Return the recorded homes by the names of their tables."""
    rows = conn.execute(_KNOWN, {"names": list(names)})
    return {row.name: Home(*row) for row in rows}


def lock_to_claim(conn: Connection, table: str) -> bool:
    """Keep a table from being renamed or forgotten until the transaction ends.

    Other claims of the table go on. Returns False if the table has no home.
    """
    return conn.execute(_SHARED, {"name": table}).first() is not None


def lock_to_claim_alone(conn: Connection, table: str) -> bool:
    """Keep a table from being claimed, renamed or forgotten until the transaction ends.

    Returns False if the table has no home.
    """
    return conn.execute(_EXCLUSIVE, {"name": table}).first() is not None


def lock_to_rename(conn: Connection, home: Home) -> None:
    """Keep a table from being claimed until the transaction ends; record its home if it has none.

    Raises OvertakenError if another process records the home at the same time.
    """
    if conn.execute(_EXCLUSIVE, {"name": home.name}).first() is None:
        put(conn, [home], {})


@dataclass(frozen=True, slots=True)
class TakenPlace:
    """A table whose rows would be stored where another project stores those of a table."""

    home: Home
    table: str
    """The other project's table."""
    project: str
    folder: str


def find_taken_places(conn: Connection, homes: Iterable[Home]) -> list[TakenPlace]:
    """Find the homes whose places are those of other projects' tables.

    Only locations are compared. A folder of another machine is another place, unless the location
    names a server.
    """
    places = {home.place: home for home in homes if home.place is not None and "/" in home.place}
    found = []
    for part in split_into_chunks(list(places)):
        for row in conn.execute(_ELSEWHERE.where(table_home.c.place.in_(part))):
            home = places[row.place]
            if "://" in row.place or row.host == home.host:
                found.append(TakenPlace(home, row.name, row.project_name, row.folder))
    return found


def put(conn: Connection, homes: Iterable[Home], before: Mapping[str, Home]) -> None:
    """Record homes in place of those in `before`.

    Raises OvertakenError if another process was faster.
    """
    for home in sorted(homes, key=lambda home: home.name):
        values = {
            "host": home.host,
            "folder": home.folder,
            "place": home.place,
            "last_update_time": utc_now(),
        }
        old = before.get(home.name)
        if old is None:
            _execute(conn, insert(table_home).values(name=home.name, **values), home.name)
            continue
        same = match_project(table_home) & (table_home.c.name == home.name)
        same &= table_home.c.place.is_not_distinct_from(old.place)
        if conn.execute(update(table_home).where(same).values(**values)).rowcount != 1:
            raise OvertakenError(f"another process is recording {home.name}; try again")


def _execute(conn: Connection, statement: Any, name: str) -> Any:
    try:
        return conn.execute(statement)
    except IntegrityError:
        raise OvertakenError(f"another process is recording {name}; try again") from None
