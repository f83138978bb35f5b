"""Removed tables: tables that a project does not define any more, and their remains."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from logdriven_dagster.config.derived.places import place_of_table
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.definitions.changed_targets import recorded_table
from logdriven_dagster.execution.definitions.registering import Registered
from logdriven_dagster.model.definitions import Kind, Operation, build_code
from logdriven_dagster.runlog import forgetting
from logdriven_dagster.runlog.definitions import history


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
        return f"{said}; remove it from the run log with `logdriven forget {self.table}`"


def removed_tables(registered: Registered) -> list[RemovedTable]:
    """Find the tables that files do not define any more, in the order of names; reads only."""
    return list(_removed(registered))


def forget_table(registered: Registered, table: str) -> dict[str, int]:
    """Remove all rows of a table from the run log; return the number of rows per table of the log.

    Raises UsageError if the project defines the table, or the log has no rows of it. Raises
    AlreadyRunningError while a runner holds one of its windows. Nothing is removed then.
    """
    _refuse_defined(registered, table)
    return registered.run_log.write(lambda conn: forgetting.forget(conn, table))


def rows_to_forget(registered: Registered, table: str) -> dict[str, int]:
    """Count the rows that `forget_table` would remove. Raises UsageError as there."""
    _refuse_defined(registered, table)
    counts = registered.run_log.ask(lambda conn: forgetting.count_rows(conn, table))
    if not counts:
        raise UsageError(
            f"the run log has no rows of {table}; `logdriven status` shows the other removed tables"
        )
    return counts


def _refuse_defined(registered: Registered, table: str) -> None:
    project = registered.project
    if table in project.tables:
        fix = "remove its file first"
        raise UsageError(
            f"{table} is defined in {project.files[table]} and cannot be forgotten; {fix}"
        )
    known = registered.run_log.ask(lambda conn: forgetting.removed_tables(conn, project.name))
    if table not in {*known, *_unapplied(registered)}:
        raise UsageError(f"project {project.name} has never had a table {table}")


def _unapplied(registered: Registered) -> set[str]:
    """Return the tables whose removal is not registered yet."""
    return {
        change.name
        for change in registered.changes
        if change.kind is Kind.TABLE and change.operation is Operation.DELETE
    }


def _removed(registered: Registered) -> Iterator[RemovedTable]:
    project, run_log = registered.project, registered.run_log
    known = run_log.ask(lambda conn: forgetting.removed_tables(conn, project.name))
    for name in sorted({*known, *_unapplied(registered)} - set(project.tables)):
        attempts = run_log.ask(partial(forgetting.count_attempts, table=name))
        if attempts:
            yield RemovedTable(name, attempts, _place(registered, name))


def _place(registered: Registered, name: str) -> str | None:
    project = registered.project
    code = build_code(project.name, Kind.TABLE, name)
    versions = registered.run_log.ask(lambda conn: history.list_versions(conn, Kind.TABLE, [code]))
    for version in reversed(versions):
        if (table := recorded_table(project, version)) is not None:
            return place_of_table(project, table)
    return None
