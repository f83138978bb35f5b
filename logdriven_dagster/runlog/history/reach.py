"""The newest finished windows of some tables that ran after another table began."""

from collections.abc import Sequence

from sqlalchemy import bindparam, func, select
from sqlalchemy.engine import Connection

from logdriven_dagster.model.attempts import Status
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive
from logdriven_dagster.runlog.sql.projects import match_project
from logdriven_dagster.runlog.sql.unions import execute_each

_LOGS = (job_log, job_log_archive)
_NEWEST = [
    select(log.c.job_id, log.c.window_end)
    .where(
        match_project(log),
        log.c.job_name == bindparam("name"),
        log.c.latest == 1,
        log.c.status == Status.SUCCESS.value,
        log.c.window_start.is_not(None),
    )
    .order_by(log.c.window_start.desc())
    .limit(1)
    for log in _LOGS
]
_FIRST = [
    select(func.min(log.c.job_id)).where(match_project(log), log.c.job_name == bindparam("name"))
    for log in _LOGS
]


def reach_since(conn: Connection, names: Sequence[str], first: str) -> int | None:
    """Return the greatest end, in seconds, of the newest finished windows that ran after `first`.

    Windows count if they ran after the first attempt of the table `first`. Returns None if there is
    no such window.
    """
    begun = [conn.execute(query, {"name": first}).scalar() for query in _FIRST]
    since = min((job_id for job_id in begun if job_id is not None), default=None)
    if since is None:
        return None
    newest = [
        row for query in _NEWEST for row in execute_each(conn, query, [{"name": n} for n in names])
    ]
    return max((row.window_end for row in newest if row.job_id > since), default=None)
