"""Slices of sources without time, batches, files."""

import sqlalchemy as sa
from alembic import op

from logdriven_dagster.runlog.schema import (
    batch,
    batch_archive,
    batch_queue,
    file,
    job_log,
    job_log_archive,
)
from logdriven_dagster.runlog.views import VIEWS

revision = "0003"
down_revision = "0002"

_COLUMNS = ("has_more", "target_batch_id")
_RANGES = ("data_range_start", "data_range_end")


def upgrade() -> None:
    """Offsets of many partitions need more than the 1,024 characters of Sharp ETL's columns."""
    for view in VIEWS:  # the last migration makes them anew
        op.execute(f"DROP VIEW IF EXISTS {view}")
    connection = op.get_bind()
    for log in (job_log, job_log_archive):
        known = {column["name"] for column in sa.inspect(connection).get_columns(log.name)}
        for name in _COLUMNS:
            if name not in known:
                op.add_column(log.name, sa.Column(name, log.c[name].type))
        if connection.dialect.name != "sqlite":  # which has no lengths
            for name in _RANGES:
                op.alter_column(
                    log.name, name, type_=log.c[name].type, existing_type=sa.String(1024)
                )
    for table in (batch, batch_queue, batch_archive, file):
        table.create(connection, checkfirst=True)
