"""Versioned definitions, runs of jobs, quality, lineage, messages."""

import sqlalchemy as sa
from alembic import op

from logdriven_dagster.runlog.schema import VIEWS, job_log, job_log_archive, metadata

revision = "0004"
down_revision = "0003"

_COLUMNS = ("table_version", "parameters", "job_run_id")


def upgrade() -> None:
    """The tables are new; attempts from before have no version."""
    for view in VIEWS:
        op.execute(f"DROP VIEW IF EXISTS {view}")
    connection = op.get_bind()
    for log in (job_log, job_log_archive):
        inspector = sa.inspect(connection)
        known = {column["name"] for column in inspector.get_columns(log.name)}
        for name in _COLUMNS:
            if name not in known:
                op.add_column(log.name, sa.Column(name, log.c[name].type))
        indexed = {index["name"] for index in inspector.get_indexes(log.name)}
        for index in log.indexes:
            if index.name not in indexed:
                index.create(connection)
    metadata.create_all(connection, checkfirst=True)
    for view, query in VIEWS.items():
        op.execute(f"CREATE VIEW {view} AS {query}")
