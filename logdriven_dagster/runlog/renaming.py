"""Renamed tables: their rows in the run log and the registry get the new name.

One transaction changes all rows. Attempts keep their ids, and definitions keep their versions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import (
    String,
    Table,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.engine import Connection

from logdriven_dagster.model.definitions import Kind, build_code
from logdriven_dagster.runlog.definitions.codes import change_code
from logdriven_dagster.runlog.forgetting import TABLE_NAMES, count_rows, forget
from logdriven_dagster.runlog.observed.lineage_names import rename_container
from logdriven_dagster.runlog.observed.notifications import rename_subject
from logdriven_dagster.runlog.schema.attempts import (
    batch_archive,
    batch_queue,
    job_log,
    job_log_archive,
    log_range,
)
from logdriven_dagster.runlog.schema.definitions import (
    table_definition,
    table_definition_log,
    table_rename,
)
from logdriven_dagster.runlog.schema.observations import notification_log, process_log
from logdriven_dagster.runlog.sql.projects import match_project

_HISTORY = (job_log, job_log_archive, log_range, batch_queue, batch_archive)
"""Tables whose rows are the history of a table."""

_WINDOW_NAMES = {
    job_log: "job_schedule_id",
    job_log_archive: "job_schedule_id",
    batch_queue: "source_job_name",
    batch_archive: "source_job_name",
}
"""Columns with names of windows: the name of the table, and a text behind a hyphen."""


@dataclass(frozen=True, slots=True)
class Rename:
    """An applied rename of a table."""

    table: str
    renamed_from: str
    version: int | None
    """The last version of its definition under the earlier name; None if it was not registered."""
    job_id: int
    """The last attempt in the log at the time of the rename."""
    moved: bool
    """True if the rows of its targets have followed."""


def find_renames(conn: Connection) -> list[Rename]:
    """Return the applied renames of the project, in the order of the earlier names."""
    rows = conn.execute(select(table_rename).where(match_project(table_rename)))
    found = [Rename(r.name, r.renamed_from, r.version, r.job_id, bool(r.moved)) for r in rows]
    return sorted(found, key=lambda rename: rename.renamed_from)


def has_history(conn: Connection, table: str) -> bool:
    """Return True if the log has windows or deliveries of a table."""
    queries = (
        select(rows.c[column]).where(match_project(rows), rows.c[column] == table).limit(1)
        for rows in _HISTORY
        for column in TABLE_NAMES[rows]
    )
    return any(conn.execute(query).first() is not None for query in queries)


def is_known(conn: Connection, project: str, table: str) -> bool:
    """Return True if the log has any row of a table, or the registry has its definition."""
    code = build_code(project, Kind.TABLE, table)
    query = select(table_definition.c.code).where(table_definition.c.code == code)
    return conn.execute(query).first() is not None or bool(count_rows(conn, table))


def rename(conn: Connection, project: str, old: str, new: str) -> None:
    """Give all rows of table `old` the name `new`, which must have no history of its own.

    Rows of `new` without windows, such as its home, are replaced. Raises AlreadyRunningError as
    `forget` does, for `new`.
    """
    forget(conn, new)
    undone = match_project(table_rename) & (table_rename.c.renamed_from == new)
    conn.execute(delete(table_rename).where(undone, table_rename.c.name == old))
    version = conn.execute(
        select(func.max(table_definition_log.c.version)).where(
            table_definition_log.c.code == build_code(project, Kind.TABLE, old)
        )
    ).scalar()
    newest = conn.execute(select(func.max(job_log.c.job_id)).where(match_project(job_log))).scalar()
    _rename_rows(conn, old, new)
    rename_container(conn, old, new)
    rename_subject(conn, old, new)
    before, after = (build_code(project, Kind.TABLE, name) for name in (old, new))
    change_code(conn, Kind.TABLE, before, after, {"name": new})
    earlier = match_project(table_rename) & (table_rename.c.renamed_from == old)
    conn.execute(delete(table_rename).where(earlier))
    values = {"version": version, "job_id": newest or 0, "moved": 0}
    conn.execute(insert(table_rename).values(renamed_from=old, name=new, **values))


def finish(conn: Connection, rename: Rename) -> None:
    """Record that the rows of a renamed table have followed."""
    row = match_project(table_rename) & (table_rename.c.renamed_from == rename.renamed_from)
    conn.execute(update(table_rename).where(row).values(moved=1))


def _rename_rows(conn: Connection, old: str, new: str) -> None:
    for log in (job_log, job_log_archive):  # before the attempts have the new name
        job_ids = select(log.c.job_id).where(match_project(log), log.c.job_name == old)
        messages = update(process_log).where(process_log.c.job_id.in_(job_ids))
        conn.execute(messages.values(job_name=new))
    for rows, column in _list_columns():
        named = match_project(rows) & (rows.c[column] == old)
        conn.execute(update(rows).where(named).values({column: new}))
    for rows, column in _WINDOW_NAMES.items():
        window = rows.c[column]
        mine = match_project(rows) & (rows.c.job_name == new)
        mine &= window.startswith(f"{old}-", autoescape=True)
        renamed = literal(new, String).concat(func.substr(window, len(old) + 1))
        conn.execute(update(rows).where(mine).values({column: renamed}))


def _list_columns() -> Iterator[tuple[Table, str]]:
    """Yield the columns of rows of the project whose names change without further effects."""
    for rows, names in TABLE_NAMES.items():
        if rows not in (process_log, notification_log):
            yield from ((rows, name) for name in names)
