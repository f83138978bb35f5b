"""Homes: each project has its own windows in a run log, and its rows are in one place."""

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from logdriven_dagster.config.derived.places import place_of_project, place_of_table
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import RunLogError, UsageError
from logdriven_dagster.model.definitions import Home
from logdriven_dagster.runlog import RunLog, homes
from logdriven_dagster.runlog.homes import LogProject, TakenPlace
from logdriven_dagster.runlog.renaming import find_renames

_MOST_NAMED = 3


def open_run_log(project: Project) -> RunLog:
    """Open the run log of a project. Raises RunLogError as `enter`, or if it cannot be used."""
    run_log = RunLog.open(project.run_log_url)
    enter(project, run_log)
    return run_log


def look_at_run_log(project: Project) -> RunLog | None:
    """Open the run log of a project read-only; None if it does not exist or has another schema.

    Raises RunLogError as `enter`, or if it cannot be reached.
    """
    run_log = RunLog.open_to_look(project.run_log_url)
    if run_log is not None:
        enter(project, run_log)
    return run_log


def enter(project: Project, run_log: RunLog) -> None:
    """Assign a run log to a project; writes nothing.

    Raises RunLogError if the log records another project of this name, or rows of the tables in
    another place, or if another project keeps its rows where the tables are.
    """
    run_log.enter(_here(project))
    present = _build_homes(project, project.tables.values())
    run_log.ask(lambda conn: _missing(conn, project, present))


def settle_project(project: Project, run_log: RunLog) -> None:
    """Record the project, so that a renamed one keeps its definitions. Raises as `enter`."""
    here = _here(project)
    if not run_log.ask(here.is_recorded):
        run_log.write(here.record)


def settle(project: Project, run_log: RunLog, tables: Iterable[TableConfig]) -> None:
    """Record the project and the homes of tables before a window runs. Raises as `enter`."""
    here, present = _here(project), _build_homes(project, tables)

    def is_settled(conn: Connection) -> bool:
        return here.is_recorded(conn) and not _missing(conn, project, present)

    def write(conn: Connection) -> None:
        here.record(conn)
        missing = _missing(conn, project, present)
        before = homes.find_homes(conn, present)
        homes.put(conn, missing, before)  # waits for a rename of these tables by another process
        for name in sorted(present.keys() - before.keys()):
            refuse_earlier_name(conn, project, name)

    if not run_log.ask(is_settled):
        run_log.write(write)


def refuse_earlier_name(conn: Connection, project: Project, name: str) -> None:
    """Raise RunLogError if a table was renamed, and these files still have its earlier name."""
    for rename in find_renames(conn):
        if rename.renamed_from == name and rename.table not in project.tables:
            raise RunLogError(
                f"{name} was renamed to {rename.table}, and the files in"
                f" {project.root} do not have that table. Load the current files; to undo the"
                f" rename, write `renamed_from: {rename.table}` into {name}; for a new table of"
                f" this name, remove the other one from the run log: `logdriven forget"
                f" {rename.table}`"
            )


def lock_to_claim(conn: Connection, project: Project, name: str) -> None:
    """Keep a table from being renamed or forgotten until the transaction of a claim ends.

    Claims of a table that keeps history follow each other, so that each one sees the windows that
    the others run. Raises RunLogError if the table was renamed or forgotten since the project was
    loaded.
    """
    table = project.tables.get(name)
    alone = table is not None and table.keeps_history
    lock = homes.lock_to_claim_alone if alone else homes.lock_to_claim
    if not lock(conn, name):
        refuse_earlier_name(conn, project, name)
        raise RunLogError(
            f"could not claim a window of {name}: another process has removed the table from the"
            " run log (`logdriven forget`); load the current files and run the command again"
        )


@dataclass(frozen=True, slots=True)
class Adopted:
    """The home of a project or a table that was recorded in place of another one."""

    name: str
    now: str | None
    """A description of the new home."""
    was: str | None
    """A description of the previous home; None if there was none."""


def adopt(project: Project, run_log: RunLog, old_name: str | None = None) -> list[Adopted]:
    """Record that the project continues the windows of the log, and the places of its rows.

    For a project that was moved, or that had another name (`old_name`): its operator confirms that
    it is the same one. Raises UsageError if the log has no such project, or if this one has windows
    itself.
    """
    here, present = _here(project), _build_homes(project, project.tables.values())

    def write(conn: Connection) -> list[Adopted]:
        project_id, was = _adoptable(conn, here, old_name)
        if was != here:
            homes.move(conn, project_id, was.name if was else here.name, here)
        homes.speak_for(conn, project_id)
        before = homes.find_homes(conn, present)
        changed = [home for name, home in present.items() if before.get(name) != home]
        homes.put(conn, changed, before)
        of_project = [Adopted(f"project {here.name}", _in_words(here), _in_words(was))]
        return (of_project if was != here else []) + [
            Adopted(home.name, _in_words(home), _in_words(before.get(home.name)))
            for home in changed
        ]

    return run_log.write(write)


def _adoptable(
    conn: Connection, here: LogProject, old_name: str | None
) -> tuple[int, LogProject | None]:
    """Return the project whose windows continue here: its number in the log, and its record."""
    known = homes.find_project(conn, here.name)
    if old_name in (None, here.name):
        return known or (here.record(conn), None)
    old = homes.find_project(conn, old_name or "")
    if old is None:
        raise UsageError(f"the run log has no project {old_name}")
    if known is not None and not homes.remove_unused(conn, known[0]):
        raise UsageError(
            f"project {here.name} has its own windows in the run log; give this project "
            f"another name (`project` in logdriven.yaml) to continue those of {old_name}"
        )
    return old


def _here(project: Project) -> LogProject:
    host, folder = socket.gethostname(), str(project.root.resolve())
    return LogProject(project.name, host, folder, place_of_project(project))


def build_home(project: Project, table: TableConfig) -> Home:
    """Return the home of a table as it is here."""
    host, folder = socket.gethostname(), str(project.root.resolve())
    return Home(table.table, host, folder, place_of_table(project, table))


def _build_homes(project: Project, tables: Iterable[TableConfig]) -> dict[str, Home]:
    return {table.table: build_home(project, table) for table in tables}


def _missing(conn: Connection, project: Project, present: Mapping[str, Home]) -> list[Home]:
    """Return the homes that are not recorded yet as they are here.

    Raises RunLogError as `enter`.
    """
    before = homes.find_homes(conn, present)
    moved = [old for name, old in before.items() if not present[name].continues(old)]
    log = conn.engine.url.render_as_string(hide_password=True)
    if moved:
        raise RunLogError(_elsewhere(project, log, moved[-1], present[moved[-1].name]))
    missing = [home for name, home in present.items() if home.adds_to(before.get(name))]
    if taken := homes.find_taken_places(conn, missing):
        raise RunLogError(_describe_taken(project, log, taken))
    return missing


def _describe_taken(project: Project, log: str, taken: list[TakenPlace]) -> str:
    first = taken[0]
    names = ", ".join(each.home.name for each in taken[:_MOST_NAMED])
    more = f" and {len(taken) - _MOST_NAMED} more" if len(taken) > _MOST_NAMED else ""
    return (
        f"could not open project {project.name}: the place of {names}{more} is {first.home.place}, "
        f"where project {first.project} (folder {first.folder}) keeps its "
        f"{first.table}, according to the run log {log}; give {project.name} a "
        f"place of its own (`warehouse` or `path`). If {project.name} is "
        f"{first.project} under a new name, run `logdriven adopt --from "
        f"{first.project}` to continue its windows"
    )


def _elsewhere(project: Project, log: str, old: Home, new: Home) -> str:
    return (
        f"could not open project {project.name}: according to the run log {log}, it has run in "
        f"the folder {old.folder} on {old.host}, and {old.name} "
        f"is in {old.place}; here, in {new.folder}, the place is {new.place}. Use "
        "the old place again (`warehouse` or `path`), or, if all rows were moved "
        "to the new one, `logdriven adopt`; a second project needs a name of its "
        "own (`project` in logdriven.yaml)"
    )


def _in_words(home: Home | LogProject | None) -> str | None:
    if home is None:
        return None
    place = f"{home.place or 'unknown place'} (folder {home.folder} on {home.host})"
    return f"{home.name}: {place}" if isinstance(home, LogProject) else place
