"""The versions of tables by which finished windows were made.

One query counts all windows of the named tables in an index that holds the version, so the log's
rows themselves are not read.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, Table, func, select, union_all
from sqlalchemy.engine import Connection

from logdriven_dagster.model.attempts import Status
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive
from logdriven_dagster.runlog.sql.among import among
from logdriven_dagster.runlog.sql.projects import match_project


@dataclass(frozen=True, slots=True)
class VersionCount:
    """The finished windows of a table that one version made."""

    version: int | None
    """None for windows that another system or an unregistered table made."""
    windows: int
    start: int
    """The start of the first one in epoch seconds, or the number of a slice."""
    end: int


def _select_counts(log: Table) -> Select[Any]:
    return (
        select(
            log.c.job_name,
            log.c.table_version,
            func.count().label("windows"),
            func.min(log.c.window_start).label("start"),
            func.max(log.c.window_end).label("end"),
        )
        .where(
            match_project(log),
            among(log.c.job_name),
            log.c.latest == 1,
            log.c.status == Status.SUCCESS.value,
            log.c.window_start.is_not(None),
        )
        .group_by(log.c.job_name, log.c.table_version)
    )


_COUNTS = union_all(_select_counts(job_log), _select_counts(job_log_archive))


def count_windows_by_version(
    conn: Connection, names: Collection[str]
) -> Mapping[str, Sequence[VersionCount]]:
    """Return the finished windows of tables by version, the archived ones included."""
    found: dict[tuple[str, int | None], VersionCount] = {}
    for row in conn.execute(_COUNTS, {"names": names}) if names else ():
        key = (row.job_name, row.table_version)
        known = found.get(key, VersionCount(row.table_version, 0, row.start, row.end))
        found[key] = VersionCount(
            row.table_version,
            known.windows + row.windows,
            min(known.start, row.start),
            max(known.end, row.end),
        )
    by_table: dict[str, list[VersionCount]] = {}
    for (name, _), count in sorted(found.items(), key=lambda item: item[0][1] or 0):
        by_table.setdefault(name, []).append(count)
    return by_table
