"""Leases, fencing tokens, states held by the schema, ranges of finished windows, the archive."""

from datetime import timedelta

import sqlalchemy as sa
from alembic import op

from logdriven_dagster.runlog import coverage
from logdriven_dagster.runlog.clock import utc_from_now
from logdriven_dagster.runlog.schema import (
    LEASE_CHECK,
    STATUS_CHECKS,
    job_log,
    job_log_archive,
    log_range,
    step_log,
    step_log_archive,
)
from logdriven_dagster.runlog.views import VIEWS

revision = "0002"
down_revision = "0001"

_LEASE = timedelta(minutes=1)
_JOB_COLUMNS = (
    "fencing_token",
    "heartbeat_at",
    "lease_expires_at",
    "failures",
    "definition",
    "covered",
)


def upgrade() -> None:
    """A runner of the older version has no heartbeat: its attempts get one lease, then they end."""
    for view in VIEWS:  # the last migration makes them anew
        op.execute(f"DROP VIEW IF EXISTS {view}")
    for name in _JOB_COLUMNS:
        op.add_column("job_log", _like(job_log.c[name]))
    op.add_column("step_log", _like(step_log.c.staged))
    connection = op.get_bind()
    for table in (log_range, job_log_archive, step_log_archive):
        table.create(connection, checkfirst=True)
    running = job_log.c.status == "RUNNING"
    grace = {"fencing_token": job_log.c.job_id, "lease_expires_at": utc_from_now(_LEASE)}
    connection.execute(sa.update(job_log).where(running).values(**grace))
    with op.batch_alter_table("job_log", table_kwargs={"sqlite_autoincrement": True}) as batch:
        batch.create_check_constraint("ck_job_log_status", STATUS_CHECKS["job_log"])
        batch.create_check_constraint("ck_job_log_lease", LEASE_CHECK)
    with op.batch_alter_table("step_log") as batch:
        batch.create_check_constraint("ck_step_log_status", STATUS_CHECKS["step_log"])
    op.create_index("ix_job_log_ended", "job_log", ["job_end_time"])
    op.create_index("ix_job_log_run", "job_log", ["dagster_run_id", "job_id"])
    op.create_index("ix_job_log_uncovered", "job_log", ["latest", "covered", "status"])
    coverage.absorb(connection)


def _like(column: sa.Column[object]) -> sa.Column[object]:
    default = None if column.nullable else "0"
    return sa.Column(column.name, column.type, nullable=column.nullable, server_default=default)
