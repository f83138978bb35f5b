"""Removed tables: tables that a project does not define any more, and their remains."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from logdriven_dagster.config.derived.places import place_of_table
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.storage.garbage import Garbage
from logdriven_dagster.engine.targets.contents import contents_of
from logdriven_dagster.engine.targets.rejected import list_named_targets
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.definitions.changed_targets import (
    find_readable_table,
    list_table_versions,
)
from logdriven_dagster.execution.definitions.homes import build_home
from logdriven_dagster.execution.definitions.registering import Registered
from logdriven_dagster.execution.definitions.renames import find_earlier_names
from logdriven_dagster.model.definitions import Kind, Operation
from logdriven_dagster.runlog import forgetting, homes


@dataclass(frozen=True, slots=True)
class RemovedTable:
    """A table that was removed from a project, but has attempts in the run log."""

    table: str
    attempts: int
    place: str | None
    """The place of its rows, by the newest version that can be read."""

    @property
    def text(self) -> str:
        """One sentence for display, with the command that removes it."""
        attempts = "1 attempt" if self.attempts == 1 else f"{self.attempts:,} attempts"
        rows = f", and its rows remain in {self.place}" if self.place else ""
        said = f"{self.table} is not defined any more, but the run log has {attempts} of it{rows}"
        rename = f"continue it under another name with `renamed_from: {self.table}`"
        removal = f"remove it from the run log with `logdriven forget {self.table}`"
        drop = ", and its rows with --drop-target" if self.place else ""
        return f"{said}; {rename}, or {removal}{drop}"


def find_removed_tables(registered: Registered) -> list[RemovedTable]:
    """Find the tables that files do not define any more, in the order of names; reads only."""
    return list(_find_removed(registered))


def forget_table(registered: Registered, table: str) -> dict[str, int]:
    """Remove all rows of a table from the run log; return the number of rows per table of the log.

    Raises UsageError if the project defines the table, or the log has no rows of it. Raises
    AlreadyRunningError while a runner holds one of its windows. Nothing is removed then.
    """
    _refuse_defined(registered, table)
    return registered.run_log.write(lambda conn: forgetting.forget(conn, table))


def rows_to_forget(
    registered: Registered, table: str, parts: Sequence[Garbage] = ()
) -> dict[str, int]:
    """Count the rows that `forget_table` would remove. Raises UsageError as there.

    There may be none if `parts` of the targets are to be removed.
    """
    _refuse_defined(registered, table)
    counts = registered.run_log.ask(lambda conn: forgetting.count_rows(conn, table))
    if not counts and not parts:
        raise UsageError(
            f"the run log has no rows of {table}; `logdriven status` shows the other removed tables"
        )
    return counts


def refuse_held(registered: Registered, table: str) -> None:
    """Raise AlreadyRunningError if a runner holds a window of a table."""
    registered.run_log.ask(lambda conn: forgetting.refuse_held(conn, table))


def list_parts(registered: Registered, table: str) -> list[Garbage]:
    """Return everything that the targets of a removed table consist of; reads only.

    The targets are those of the newest version in the registry that can be read. Raises UsageError
    if there is none, if another table writes to one of the places, or if windows of the table did
    not write all that is there.
    """
    _refuse_defined(registered, table)
    known = _read_last(registered, table)
    if known is None:
        raise UsageError(f"the registry has no readable version of {table}, whose targets to drop")
    _refuse_shared(registered, known)
    found, refusals = [], []
    with step_errors():
        try:
            for name, target in list_named_targets(table, known):
                found += list(contents_of(target).list_parts(registered.project, name, target))
        except UsageError as error:
            refusals.append(error)
    if refusals:
        raise refusals[0]
    return found


def remove_parts(parts: Sequence[Garbage]) -> None:
    """Remove the parts of targets, in their order. Raises StepError without secrets."""
    with step_errors():
        for part in parts:
            part.remove()


def _refuse_shared(registered: Registered, removed: TableConfig) -> None:
    """Raise UsageError if a table of this project, or of another one, has one of the places."""
    project = registered.project
    mine = {target.place(name): name for name, target in list_named_targets(removed.table, removed)}
    for other in project.tables.values():
        for name, target in list_named_targets(other.table, other):
            if target.place(name) in mine:
                problem = f"{target.place(name)} is also the target of {other.table}"
                raise UsageError(f"{removed.table}: {problem}; nothing was removed")
    home = build_home(project, removed)
    places = [home.place, *(place_of_table(project, each) for each in project.tables.values())]
    for place in filter(None, places[1:]):
        if home.place and f"{place}/".startswith(f"{home.place}/"):
            problem = f"{home.place} holds another table, in {place}"
            raise UsageError(f"{removed.table}: {problem}; nothing was removed")
    if taken := registered.run_log.ask(lambda conn: homes.find_taken_places(conn, [home])):
        problem = f"project {taken[0].project} keeps its {taken[0].table} in {home.place}"
        raise UsageError(f"{removed.table}: {problem}; nothing was removed")


def _refuse_defined(registered: Registered, table: str) -> None:
    project = registered.project
    if table in project.tables:
        fix = "remove its file first"
        raise UsageError(
            f"{table} is defined in {project.files[table]} and cannot be forgotten; {fix}"
        )
    if new := find_earlier_names(project, registered.run_log).get(table):
        fix = "remove renamed_from first"
        raise UsageError(f"{new} continues with {table}, which cannot be forgotten; {fix}")
    known = registered.run_log.ask(lambda conn: forgetting.list_removed_tables(conn, project.name))
    if table not in {*known, *_find_unapplied(registered)}:
        raise UsageError(f"project {project.name} has never had a table {table}")


def _find_unapplied(registered: Registered) -> set[str]:
    """Return the tables whose removal is not registered yet."""
    return {
        change.name
        for change in registered.changes
        if change.kind is Kind.TABLE and change.operation is Operation.DELETE
    }


def _find_removed(registered: Registered) -> Iterator[RemovedTable]:
    project, run_log = registered.project, registered.run_log
    known = run_log.ask(lambda conn: forgetting.list_removed_tables(conn, project.name))
    renamed = find_earlier_names(project, run_log)
    for name in sorted({*known, *_find_unapplied(registered)} - {*project.tables, *renamed}):
        attempts = run_log.ask(partial(forgetting.count_attempts, table=name))
        if attempts:
            yield RemovedTable(name, attempts, _find_place(registered, name))


def _find_place(registered: Registered, name: str) -> str | None:
    table = _read_last(registered, name)
    return None if table is None else place_of_table(registered.project, table)


def _read_last(registered: Registered, name: str) -> TableConfig | None:
    project = registered.project
    return find_readable_table(project, list_table_versions(project, registered.run_log, name))
