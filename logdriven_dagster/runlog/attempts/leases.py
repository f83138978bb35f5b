"""Attempts as leased rows: the lease of a window is its RUNNING row of `job_log`."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.engine import Connection

from logdriven_dagster.model.attempts import Owner, Status
from logdriven_dagster.runlog.attempts import steps
from logdriven_dagster.runlog.leases import LeasedRows
from logdriven_dagster.runlog.schema.attempts import job_log
from logdriven_dagster.runlog.sql.clock import utc_now


def _build_end_columns(status: Status, _reason: str) -> Mapping[str, Any]:
    """Return the columns of an attempt that another process ends; its steps get the reason."""
    return {
        "status": status.value,
        "job_end_time": utc_now(),
        "last_update_time": utc_now(),
        "error_count": job_log.c.error_count + int(status is Status.FAILURE),
    }


ATTEMPTS = LeasedRows(
    log=job_log,
    key=job_log.c.job_id,
    running=(job_log.c.status == Status.RUNNING.value) & (job_log.c.latest == 1),
    renewed=("last_update_time",),
    ended=_build_end_columns,
    close_steps=lambda conn, job_id, status, why: steps.close(conn, [job_id], status, why),
)


def replace(conn: Connection, job_id: int, by: Owner) -> bool:
    """End a running attempt so that another one starts from scratch. Source: Sharp ETL."""
    return _stop(conn, job_id, Status.FAILURE, f"replaced by {by}")


def discard(conn: Connection, job_id: int, by: Owner) -> bool:
    """Stop a running attempt for good; False if it had ended already. Source: Kylin, DISCARDED.

    Its runner detects this by its next heartbeat at the latest, and removes its staged results.
    """
    return _stop(conn, job_id, Status.DISCARDED, f"discarded by {by}")


def _stop(conn: Connection, job_id: int, status: Status, reason: str) -> bool:
    """End a running attempt and forget its staged results, so that no attempt resumes them."""
    rows = ATTEMPTS.list_leased(conn, job_log.c.job_id == job_id)
    stopped = any(ATTEMPTS.end(conn, row, status, reason) for row in rows)
    if stopped:
        steps.forget_staged(conn, [job_id])
    return stopped
