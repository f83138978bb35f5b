"""Audits: the place of source rows at the last audit, and the rows that windows read of them."""

from collections.abc import Collection

from sqlalchemy import delete, func, insert, select
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.runlog.observed.source_changes import record_changes
from logdriven_dagster.runlog.observed.source_files import read_files, record_files
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive, step_log
from logdriven_dagster.runlog.schema.observations import source_audit
from logdriven_dagster.runlog.sql.chunks import split_into_chunks
from logdriven_dagster.runlog.sql.clock import utc_now
from logdriven_dagster.runlog.sql.projects import match_project
from logdriven_dagster.runlog.store import OvertakenError

_COLUMNS = {
    "job_name": "table",
    "step_id": "step_id",
    "digest": "digest",
    "row_count": "total",
    "null_count": "unplaced",
    "before_count": "before",
    "after_count": "after",
    "future_count": "future",
    "done_count": "done",
    "read_count": "read",
}
"""The field of SourceRows for each column."""


def record(
    conn: Connection, rows: SourceRows, table: TableConfig, readers: Collection[int] = ()
) -> None:
    """Record the result of an audit of a table's source in place of the result before.

    A result without a digest does not replace the rows of files. Files that changed after windows
    had read them are recorded, too; `readers` are the attempts that have read the present ones.
    Raises OvertakenError if another process records the first result at the same time.
    """
    mine = match_project(source_audit) & (source_audit.c.job_name == rows.table)
    mine &= source_audit.c.step_id == rows.step_id
    digest = conn.execute(select(source_audit.c.digest).where(mine).with_for_update()).scalar()
    conn.execute(delete(source_audit).where(mine))
    values = {column: getattr(rows, name) for column, name in _COLUMNS.items()}
    values["digest"] = rows.digest or digest
    try:
        conn.execute(insert(source_audit).values(looked_at=utc_now(), **values))
        if rows.digest is not None:
            files = record_files(conn, rows, all_anew=digest != rows.digest)
            if table.on_source_change != "ignore":
                record_changes(conn, table, rows.step_id, files, readers)
    except IntegrityError:
        problem = f"another process records the source of {rows.table} {rows.step_id}"
        raise OvertakenError(problem) from None


def read_source_rows(
    conn: Connection, tables: Collection[str], *, with_files: bool = False
) -> list[SourceRows]:
    """Return the audit results of the sources of these tables, by file if wanted."""
    found = []
    files = read_files(conn, tables) if with_files else {}
    for names in split_into_chunks(sorted(tables)):
        query = select(source_audit).where(
            match_project(source_audit), source_audit.c.job_name.in_(names)
        )
        for row in conn.execute(query.order_by(source_audit.c.job_name, source_audit.c.step_id)):
            values = {name: getattr(row, column) for column, name in _COLUMNS.items()}
            own = files.get((row.job_name, row.step_id), ())
            found.append(SourceRows(**values, looked_at=row.looked_at, files=own))
    return found


def count_rows_read(conn: Connection, table: str, step_id: str) -> int | None:
    """Return the rows that a step read for finished windows; None if one count is missing."""
    archived = select(job_log_archive.c.job_id).where(
        match_project(job_log_archive), job_log_archive.c.job_name == table
    )
    if conn.execute(archived.limit(1)).first() is not None:
        return None
    counts = (
        select(func.count(), func.count(step_log.c.source_count), func.sum(step_log.c.source_count))
        .join_from(job_log, step_log, job_log.c.job_id == step_log.c.job_id)
        .where(
            match_project(job_log),
            job_log.c.job_name == table,
            job_log.c.latest == 1,
            job_log.c.status == Status.SUCCESS.value,
            step_log.c.step_id == step_id,
        )
    )
    windows, known, total = conn.execute(counts).one()
    return int(total or 0) if windows == known else None
