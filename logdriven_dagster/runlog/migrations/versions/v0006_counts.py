"""What a step did with its rows, and what an attempt with `lookback` had seen."""

import sqlalchemy as sa
from alembic import op

from logdriven_dagster.runlog.observation_schema import source_audit
from logdriven_dagster.runlog.schema import job_log
from logdriven_dagster.runlog.views import VIEWS

revision = "0006"
down_revision = "0005"

_COUNTS = ("inserted_count", "updated_count", "malformed_count")


def upgrade() -> None:
    """Steps that ended before have no such counts; attempts had seen what was due: NULL."""
    connection = op.get_bind()
    for view in VIEWS:  # with the columns of their tables
        op.execute(f"DROP VIEW IF EXISTS {view}")
    for log in ("step_log", "step_log_archive"):
        known = {column["name"] for column in sa.inspect(connection).get_columns(log)}
        for name in _COUNTS:
            if name not in known:
                op.add_column(log, sa.Column(name, sa.BigInteger()))
    for log in ("job_log", "job_log_archive"):
        known = {column["name"] for column in sa.inspect(connection).get_columns(log)}
        if "seen_until" not in known:
            op.add_column(log, sa.Column("seen_until", sa.BigInteger()))
    present = {index["name"] for index in sa.inspect(connection).get_indexes("job_log")}
    for index in job_log.indexes:
        if index.name not in present:
            index.create(connection)
    for view, query in VIEWS.items():
        op.execute(f"CREATE VIEW {view} AS {query}")
    source_audit.create(connection, checkfirst=True)
