"""Renamed tables: `renamed_from` continues a table with the windows and rows of its earlier name.

The run log changes in one transaction. After that, and before any window runs, the rows of the
targets follow; a process that is killed in between leaves that to the next one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.engine import Connection

from logdriven_dagster.config.derived.places import place_of_table
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.yaml.hints import log_hint
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.targets.contents import Named, contents_of
from logdriven_dagster.engine.targets.rejected import list_named_targets
from logdriven_dagster.errors import AlreadyRunningError, StepError, UsageError
from logdriven_dagster.execution.definitions.changed_targets import (
    find_readable_table,
    list_table_versions,
)
from logdriven_dagster.execution.definitions.homes import build_home, settle
from logdriven_dagster.execution.owners import current_owner, is_dead
from logdriven_dagster.model.attempts import Owner, Status
from logdriven_dagster.runlog import RunLog, forgetting, homes, renaming, transitions
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.runlog.definitions.rows import lock
from logdriven_dagster.runlog.renaming import Rename
from logdriven_dagster.runlog.schema.attempts import job_log


@dataclass(frozen=True, slots=True)
class RenameNote:
    """The effect of a table's `renamed_from`."""

    table: str
    renamed_from: str
    applied: bool
    attempts: int = 0
    """The attempts that get the new name; 0 once it is applied."""
    place: str | None = None
    """The place of the rows under the earlier name, if they are going to follow."""
    problem: str | None = None
    """The reason why it cannot be applied, with the fix."""

    @property
    def text(self) -> str:
        """One sentence for display that begins with the table."""
        if self.problem is not None:
            return self.problem
        if self.applied:
            return f"{self.table}: it has the windows of {self.renamed_from}; remove renamed_from"
        if not self.attempts:
            nothing = f"the run log has no window of {self.renamed_from}"
            return f"{self.table}: {nothing}; renamed_from has no effect here"
        number = "1 attempt" if self.attempts == 1 else f"{self.attempts:,} attempts"
        rows = f" and the rows in {self.place}" if self.place else ""
        return (
            f"{self.table}: the next run continues with {self.renamed_from}: {number} in the run"
            f" log{rows}; until then its windows are those of a table that has never run"
        )


def find_rename_notes(project: Project, run_log: RunLog) -> list[RenameNote]:
    """Return the effects of every `renamed_from` of the project; reads only."""
    return [
        RenameNote(new, old, applied=True)
        if is_applied
        else _build_note(project, run_log, new, old)
        for new, old, is_applied in _list_states(project, run_log)
    ]


def find_earlier_names(project: Project, run_log: RunLog) -> dict[str, str]:
    """Return the earlier names whose rename is not applied yet → the table with `renamed_from`."""
    states = _list_states(project, run_log)
    return {old: new for new, old, is_applied in states if not is_applied}


def apply_renames(project: Project, run_log: RunLog) -> None:
    """Apply every `renamed_from` that is not applied yet, and finish interrupted renames.

    Warns if the log has no window of either name. Raises UsageError if a table has windows of its
    own, or if its rows cannot follow, and AlreadyRunningError while a runner holds a window of the
    earlier name; nothing is changed then.
    """
    known = run_log.ask(renaming.find_renames)
    applied = {(each.table, each.renamed_from) for each in known}
    if new := [pair for pair in _list_declared(project) if pair not in applied]:
        for table, old in new:
            _apply(project, run_log, table, old)
        known = run_log.ask(renaming.find_renames)
    for rename in known:
        if not rename.moved and rename.table in project.tables:
            _move_rows(project, run_log, rename)


def settle_tables(project: Project, run_log: RunLog, tables: Iterable[TableConfig]) -> None:
    """Record the homes of tables before a window runs; raises as `homes.settle`.

    The renames of a project that is not registered are applied first.
    """
    if not project.versions:
        apply_renames(project, run_log)
    settle(project, run_log, tables)


def _list_declared(project: Project) -> list[tuple[str, str]]:
    tables = project.tables.items()
    return [(name, table.renamed_from) for name, table in tables if table.renamed_from]


def _list_states(project: Project, run_log: RunLog) -> list[tuple[str, str, bool]]:
    """Return the name and the earlier name of renamed tables, and whether the rename is applied."""
    declared = _list_declared(project)
    known = run_log.ask(renaming.find_renames) if declared else []
    applied = {(each.table, each.renamed_from) for each in known}
    return [(*pair, pair in applied) for pair in declared]


def _build_note(project: Project, run_log: RunLog, new: str, old: str) -> RenameNote:
    attempts = run_log.ask(lambda conn: forgetting.count_attempts(conn, old))
    before = _read_recorded(project, run_log, old, new)
    follows = before is not None and next(
        _pair_targets(before, project.tables[new], old, new), None
    )
    place = place_of_table(project, before) if before is not None and follows else None
    problem = None
    try:
        run_log.ask(lambda conn: _refuse(conn, project, new, old))
        _refuse_immovable(project, before, new, old)
    except (UsageError, AlreadyRunningError, StepError) as error:
        problem = str(error)
    return RenameNote(new, old, applied=False, attempts=attempts, place=place, problem=problem)


def _apply(project: Project, run_log: RunLog, new: str, old: str) -> None:
    run_log.ask(lambda conn: _refuse(conn, project, new, old))
    if not run_log.ask(lambda conn: renaming.is_known(conn, project.name, old)):
        if not run_log.ask(lambda conn: forgetting.count_attempts(conn, new)):
            log_hint("renamed_from", RenameNote(new, old, applied=False).text)
        return
    _refuse_immovable(project, _read_recorded(project, run_log, old, new), new, old)

    def write(conn: Connection) -> None:
        lock(conn, project.name)
        if any(
            (each.table, each.renamed_from) == (new, old) for each in renaming.find_renames(conn)
        ):
            return  # another process was faster
        homes.lock_to_rename(conn, replace(build_home(project, project.tables[new]), name=old))
        _bury_dead(conn, old)
        _refuse(conn, project, new, old)
        renaming.rename(conn, project.name, old, new)
        home = build_home(project, project.tables[new])
        homes.put(conn, [home], homes.find_homes(conn, [new]))

    run_log.write(write)


def _refuse(conn: Connection, project: Project, new: str, old: str) -> None:
    """Raise an error if the log does not allow the rename; nothing is written."""
    where = f"{project.files[new]}: renamed_from"
    if not renaming.is_known(conn, project.name, old):
        _refuse_skipped_rename(conn, project, new, old)
        return
    if renaming.has_history(conn, new):
        raise UsageError(
            f"{where}: {new} has windows of its own in the run log and cannot continue with those"
            f" of {old}; remove renamed_from, or move the file away, run `logdriven forget {new}`,"
            " and put it back"
        )
    held = [row for row in _list_running(conn, old) if not (row.expired or _is_dead(row))]
    if held:
        by = f"job {held[0].job_id} of {held[0].owner}"
        fix = "wait for its end, or stop its runner"
        raise AlreadyRunningError(f"{where}: {old} is running in {by}; {fix}")


def _refuse_skipped_rename(conn: Connection, project: Project, new: str, old: str) -> None:
    """Raise UsageError if table `old` got another name meanwhile, from which `new` would follow."""
    later = {each.renamed_from: each.table for each in renaming.find_renames(conn)}
    name = old
    while name in later and later[name] != new:
        name = later.pop(name)
    if name != old and not renaming.has_history(conn, new):
        fix = "remove renamed_from"
        if name not in project.tables:
            fix = f"write `renamed_from: {name}`, or {fix} for a new table"
        raise UsageError(f"{project.files[new]}: renamed_from: {old} was renamed to {name}; {fix}")


def _refuse_immovable(project: Project, before: TableConfig | None, new: str, old: str) -> None:
    """Raise UsageError if the rows of a target cannot follow."""
    if before is None:
        return
    where = f"{project.files[new]}: renamed_from"
    for was, now in _pair_targets(before, project.tables[new], old, new):
        if "path" in was[1].folders and (inner := _find_nested(project, old)):
            place = place_of_table(project, before)
            raise UsageError(
                f"{where}: {place} also holds {inner}; write `path: {place}` into the target"
            )
        with step_errors():
            problem = contents_of(was[1]).find_move_obstacle(project, was, now)
        if problem is not None:
            raise UsageError(f"{where}: the rows of {old} cannot follow: {problem}")


def _find_nested(project: Project, old: str) -> str | None:
    """Return a table whose folder is inside that of another one, by their names."""
    return next((name for name in project.tables if name.startswith(f"{old}.")), None)


def _move_rows(project: Project, run_log: RunLog, rename: Rename) -> None:
    before = _read_recorded(project, run_log, rename.table, rename.table, rename.version)
    if before is not None:
        after = project.tables[rename.table]
        for was, now in _pair_targets(before, after, rename.renamed_from, rename.table):
            with step_errors():
                contents_of(was[1]).move(project, was, now)
    run_log.write(lambda conn: renaming.finish(conn, rename))


def _read_recorded(
    project: Project, run_log: RunLog, name: str, new: str, version: int | None = None
) -> TableConfig | None:
    """Return the definition of a table by its newest version, or a given one, in the registry.

    None if no such version can be read. A table that was never registered has the present one.
    """
    versions = list_table_versions(project, run_log, name)
    return find_readable_table(project, versions, version) if versions else project.tables[new]


def _pair_targets(
    before: TableConfig, after: TableConfig, old: str, new: str
) -> Iterator[tuple[Named, Named]]:
    """Yield the targets, before and after, that are the same but for the name of the table.

    A target that names its place is the same anyway, and one of another definition is a changed
    target, whose rows stay.
    """
    known = {(type(target), target.place(name)) for name, target in list_named_targets(old, before)}
    for was, now in zip(
        list_named_targets(old, after), list_named_targets(new, after), strict=True
    ):
        place = was[1].place(was[0])
        if (type(was[1]), place) in known and place != now[1].place(now[0]):
            yield was, now


def _list_running(conn: Connection, table: str) -> Iterable[Any]:
    return ATTEMPTS.list_leased(conn, job_log.c.job_name == table)


def _is_dead(row: Any) -> bool:
    owner = Owner.parse(row.owner, row.dagster_run_id)
    return owner is not None and is_dead(owner)


def _bury_dead(conn: Connection, table: str) -> None:
    """End the attempts of dead runners, which must not publish under the earlier name."""
    for row in _list_running(conn, table):
        reason = f"taken over from {row.owner} by {current_owner()}: {table} was renamed"
        if (row.expired or _is_dead(row)) and ATTEMPTS.end(conn, row, Status.FAILURE, reason):
            transitions.leave_standing(conn, row.job_id)
