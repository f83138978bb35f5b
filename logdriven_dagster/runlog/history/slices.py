"""Reading key and offset ranges: the begun ranges, and the start of the next one."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from sqlalchemy import bindparam, func, select, union_all
from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.logs import LastSlice
from logdriven_dagster.model.windows import Slice, convert_to_instant
from logdriven_dagster.runlog.history.windows import build_window
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive
from logdriven_dagster.runlog.sql.chunks import split_into_chunks
from logdriven_dagster.runlog.sql.projects import match_project
from logdriven_dagster.runlog.sql.unions import execute_each

_NEWEST = (
    select(job_log.c.job_id)
    .where(
        match_project(job_log),
        job_log.c.job_name == bindparam("name"),
        job_log.c.latest == 1,
        job_log.c.status == Status.SUCCESS.value,
        job_log.c.incremental_type == bindparam("kind"),
    )
    .order_by(job_log.c.window_start.desc())
    .limit(1)
)
"""The latest success at the greatest number, excluding those from before a change of the type."""
_LOOKED_BACK = 1000
"""The number of newest ranges that are searched for the end of a source.

A table that has taken more ranges without reaching the end of its source is behind it.
"""
_LATELY = (
    select(job_log.c.job_name, job_log.c.data_now, job_log.c.has_more)
    .where(
        match_project(job_log),
        job_log.c.job_name == bindparam("name"),
        job_log.c.latest == 1,
        job_log.c.status == Status.SUCCESS.value,
        job_log.c.incremental_type == bindparam("kind"),
    )
    .order_by(job_log.c.window_start.desc())
    .limit(_LOOKED_BACK)
    .subquery()
)
_ALL_READ = (
    select(_LATELY.c.job_name, func.max(_LATELY.c.data_now).label("data_now"))
    .where(func.coalesce(_LATELY.c.has_more, 0) == 0)
    .group_by(_LATELY.c.job_name)
)
"""The data clock of the newest range of a table behind which its source had no more rows."""


def read_last_slices(conn: Connection, tables: Collection[TableConfig]) -> dict[str, LastSlice]:
    """Return the newest success of each of these tables, by one index step for each."""
    by_name = {table.table: table for table in tables}
    asked = [{"name": name, "kind": table.incremental_type} for name, table in by_name.items()]
    ids = [row.job_id for row in execute_each(conn, _NEWEST, asked)]
    found = {}
    for part in split_into_chunks(ids):
        for row in conn.execute(select(job_log).where(job_log.c.job_id.in_(part))):
            table = by_name[row.job_name]
            window = build_window(table, row._mapping)
            assert isinstance(window, Slice)
            now = convert_to_instant(row.data_now or 0)
            more = bool(row.has_more)
            found[row.job_name] = LastSlice(window, now, more, None if more else now)
    behind = {n: by_name[n] for n, last in found.items() if last.has_more and by_name[n].freshness}
    asked = [{"name": name, "kind": table.incremental_type} for name, table in behind.items()]
    for row in execute_each(conn, _ALL_READ, asked):
        read_at = convert_to_instant(row.data_now or 0)
        found[row.job_name] = replace(found[row.job_name], all_read_at=read_at)
    ends = _find_ends_before(
        conn, {n: each.slice for n, each in found.items() if not each.slice.high}
    )
    return {name: replace(each, reached=ends.get(name)) for name, each in found.items()}


def _find_ends_before(conn: Connection, empty: Mapping[str, Slice]) -> dict[str, str | None]:
    """Return the end of the range before an empty one of batches, by table, in one statement."""
    names = [f"{name}-{each.number - 1}" for name, each in empty.items() if each.number]
    if not names:
        return {}
    columns = ("job_name", "data_range_end")
    parts = [
        select(*(log.c[name] for name in columns)).where(
            match_project(log), log.c.job_schedule_id.in_(names), log.c.latest == 1
        )
        for log in (job_log, job_log_archive)
    ]
    return {row.job_name: row.data_range_end for row in conn.execute(union_all(*parts))}


def find_finished_slices(
    conn: Connection, tables: Collection[TableConfig], job_ids: Collection[int]
) -> dict[str, list[Slice]]:
    """Return the ranges that these attempts finished, by table, unless they have run again."""
    by_name = {table.table: table for table in tables}
    found: dict[str, list[Slice]] = {}
    for part in split_into_chunks(sorted(job_ids)):
        done = (job_log.c.latest == 1) & (job_log.c.status == Status.SUCCESS.value)
        rows = conn.execute(select(job_log).where(job_log.c.job_id.in_(part), done))
        for row in sorted(rows, key=lambda row: row.window_start):
            window = build_window(by_name[row.job_name], row._mapping)
            if isinstance(window, Slice):
                found.setdefault(row.job_name, []).append(window)
    return found


def list_begun_slices(
    conn: Connection, table: TableConfig, keys: Collection[str] | None = None
) -> list[Slice]:
    """Return the ranges that were ever begun, or those of some keys, oldest first.

    Each is returned as its latest attempt has it.
    """
    columns = ("window_start", "data_range_start", "data_range_end")
    parts = []
    for log in (job_log, job_log_archive):
        found = select(*(log.c[name] for name in columns)).where(
            match_project(log),
            log.c.job_name == table.table,
            log.c.incremental_type == table.incremental_type,
            log.c.latest == 1,
        )
        if keys is not None:
            names = [f"{table.table}-{key}" for key in keys]
            found = found.where(log.c.job_schedule_id.in_(names))
        parts.append(found)
    rows = conn.execute(union_all(*parts)).mappings().all()
    windows = [
        build_window(table, row) for row in sorted(rows, key=lambda row: row["window_start"])
    ]
    return [window for window in windows if isinstance(window, Slice)]
