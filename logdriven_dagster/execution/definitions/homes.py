"""Whose the windows of a run log are: a project runs and shows only windows of its own tables."""

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from logdriven_dagster.config import Project
from logdriven_dagster.config.derived.places import place_of_project, place_of_table
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.errors import RunLogError
from logdriven_dagster.model.definitions import Home, project_entry
from logdriven_dagster.runlog import RunLog, homes

_MOST_NAMED = 3


def open_run_log(project: Project) -> RunLog:
    """Open the run log of a project; RunLogError as `refuse_others`, or if it cannot be used."""
    run_log = RunLog.open(project.run_log_url)
    refuse_others(project, run_log)
    return run_log


def refuse_others(project: Project, run_log: RunLog) -> None:
    """RunLogError if tables of the log are another project's, or their rows are in another place.

    Nothing is written. Without this check, finished windows of another project count as done.
    """
    present = _homes_of(project, project.tables.values())
    _refuse(project, run_log, present, run_log.ask(lambda conn: homes.recorded(conn, present)))


def settle(project: Project, run_log: RunLog, tables: Iterable[TableConfig]) -> None:
    """Record the homes of tables before a window of them runs; RunLogError as `refuse_others`.

    The primary key decides between two projects that run for the first time at once.
    """
    present = _homes_of(project, tables)

    def write(conn: Connection) -> None:
        before = homes.recorded(conn, present)
        _refuse(project, run_log, present, before)
        homes.put(conn, _additions(present, before), before)

    before = run_log.ask(lambda conn: homes.recorded(conn, present))
    if any(_additions(present, before)) or _conflicts(present, before):
        run_log.write(write)


@dataclass(frozen=True, slots=True)
class Adopted:
    """A home that was recorded in place of another one."""

    home: Home
    before: Home | None

    @property
    def now(self) -> str:
        """The home in words."""
        return _in_words(self.home)

    @property
    def was(self) -> str | None:
        """The home before in words; None if there was none."""
        return None if self.before is None else _in_words(self.before)


def adopt(project: Project, run_log: RunLog) -> list[Adopted]:
    """Record that the project goes on with the windows of its tables, and where their rows are.

    For a project that was renamed elsewhere or moved: its operator knows that it is the same one.
    """
    present = _homes_of(project, project.tables.values())

    def write(conn: Connection) -> list[Adopted]:
        before = homes.recorded(conn, present)
        changed = [home for name, home in present.items() if before.get(name) != home]
        homes.put(conn, changed, before)
        return [Adopted(home, before.get(home.name)) for home in changed]

    return run_log.write(write)


def _homes_of(project: Project, tables: Iterable[TableConfig]) -> dict[str, Home]:
    host, folder = socket.gethostname(), str(project.root.resolve())
    places = {table.table: place_of_table(project, table) for table in tables}
    places[project_entry(project.name)] = place_of_project(project)
    return {name: Home(name, project.name, host, folder, place) for name, place in places.items()}


def _additions(present: Mapping[str, Home], before: Mapping[str, Home]) -> list[Home]:
    return [home for name, home in present.items() if home.adds_to(before.get(name))]


def _conflicts(present: Mapping[str, Home], before: Mapping[str, Home]) -> list[Home]:
    """The recorded homes that the present ones do not continue."""
    return [old for name, old in before.items() if not present[name].continues(old)]


def _refuse(
    project: Project, run_log: RunLog, present: Mapping[str, Home], before: Mapping[str, Home]
) -> None:
    found = _conflicts(present, before)
    log = run_log.engine.url.render_as_string(hide_password=True)
    if others := [home for home in found if home.project != project.name]:
        raise RunLogError(_of_another(project, log, others))
    if found:
        raise RunLogError(_elsewhere(project, log, found[-1], present[found[-1].name]))


def _of_another(project: Project, log: str, others: list[Home]) -> str:
    names = ", ".join(home.name for home in others[:_MOST_NAMED])
    more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    owner = others[0]
    return (
        f"nothing was begun: {names}{more} of the run log {log} belong to project {owner.project}"
        f"{_of(owner)}, not to project {project.name} in {project.root.resolve()}; give"
        f" {project.name} a run log or a schema of its own (`run_log` in logdriven.yaml), or other"
        f" names of tables. If {project.name} is {owner.project} under a new name, `logdriven"
        " adopt` carries the windows over"
    )


def _elsewhere(project: Project, log: str, old: Home, new: Home) -> str:
    what = "its tables are" if old.name == project_entry(project.name) else f"{old.name} is"
    return (
        f"nothing was begun: by the run log {log}, project {project.name}{_of(old)} has run, and"
        f" {what} in {old.place}; here, in {new.folder}, the place is {new.place}. Use the old"
        " place again (`warehouse` or `path`), or, if all rows were moved to the new one,"
        " `logdriven adopt`; a second project needs a name and a run log of its own"
    )


def _in_words(home: Home) -> str:
    return f"project {home.project}, {home.place or 'place unknown'}{_of(home)}"


def _of(home: Home) -> str:
    return "" if home.folder is None else f" (folder {home.folder} on {home.host})"
