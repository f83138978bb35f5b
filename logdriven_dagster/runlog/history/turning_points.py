"""Attempts after which a table changed: a restatement, a run, a version of its definition."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.engine import Connection

from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive, restatement
from logdriven_dagster.runlog.sql.projects import match_project


@dataclass(frozen=True, slots=True)
class TurningPoint:
    """The attempts of a table from some id on, which made a difference."""

    first_job_id: int
    description: str
    """The state before it, such as `before the restatement: wrong threshold (ann)`."""


def find_last_restatement(conn: Connection, table: str) -> TurningPoint | None:
    """Return the attempts after the last request to restate a table."""
    found = conn.execute(
        select(restatement.c.job_id, restatement.c.reason, restatement.c.operator)
        .where(match_project(restatement), restatement.c.job_name == table)
        .order_by(restatement.c.restatement_id.desc())
        .limit(1)
    ).first()
    if found is None:
        return None
    text = f"before the restatement: {found.reason} ({found.operator})"
    return TurningPoint(found.job_id + 1, text)


def find_last_run(conn: Connection, table: str) -> TurningPoint | None:
    """Return the attempts of the process, or of the run of Dagster, that ran a table last."""
    newest = conn.execute(
        _select_attempts(table, job_log.c.owner, job_log.c.dagster_run_id)
        .order_by(job_log.c.job_id.desc())
        .limit(1)
    ).first()
    if newest is None:
        return None
    same = (
        job_log.c.owner == newest.owner
        if newest.dagster_run_id is None
        else job_log.c.dagster_run_id == newest.dagster_run_id
    )
    first = conn.execute(_select_attempts(table, func.min(job_log.c.job_id)).where(same)).scalar()
    return TurningPoint(first or 0, f"before the last run, which began with job {first}")


def find_end_of_version(conn: Connection, table: str, version: int) -> TurningPoint | None:
    """Return the attempts after the last one that ran a version; None if none ran it."""
    found = [
        conn.execute(
            select(func.max(log.c.job_id)).where(
                match_project(log), log.c.job_name == table, log.c.table_version == version
            )
        ).scalar()
        for log in (job_log, job_log_archive)
    ]
    if (last := max(filter(None, found), default=None)) is None:
        return None
    return TurningPoint(last + 1, f"at the end of version {version}")


def _select_attempts(table: str, *columns: Any) -> Select[Any]:
    return select(*columns).where(match_project(job_log), job_log.c.job_name == table)
