"""Versioned definitions, runs of jobs, quality, lineage, messages."""

import sqlalchemy as sa
from alembic import op

from logdriven_dagster.runlog.schema import job_log, job_log_archive, metadata
from logdriven_dagster.runlog.views import VIEWS

revision = "0004"
down_revision = "0003"

_COLUMNS = ("table_version", "parameters", "job_run_id")


def upgrade() -> None:
    """The tables are new; attempts from before have no version."""
    for view in VIEWS:  # the last migration makes them anew
        op.execute(f"DROP VIEW IF EXISTS {view}")
    connection = op.get_bind()
    for log in (job_log, job_log_archive):
        inspector = sa.inspect(connection)
        known = {column["name"] for column in inspector.get_columns(log.name)}
        for name in _COLUMNS:
            if name not in known:
                op.add_column(log.name, sa.Column(name, log.c[name].type))
    metadata.create_all(connection, checkfirst=True)
