"""What a step did with its rows, what an attempt had seen, and refreshes that failed alone."""

import sqlalchemy as sa
from alembic import op

from logdriven_dagster.runlog.observation_schema import source_audit
from logdriven_dagster.runlog.schema import job_log
from logdriven_dagster.runlog.views import VIEWS

revision = "0006"
down_revision = "0005"

_NEW = {
    ("step_log", "inserted_count"): sa.BigInteger,
    ("step_log", "updated_count"): sa.BigInteger,
    ("step_log", "malformed_count"): sa.BigInteger,
    ("job_log", "seen_until"): sa.BigInteger,
    ("job_log", "failed_refresh"): sa.SmallInteger,
}
"""Columns of logs and of their archives."""


def upgrade() -> None:
    """What ended before has no such counts, had seen what was due, and stands: NULL."""
    connection = op.get_bind()
    for view in VIEWS:  # with the columns of their tables
        op.execute(f"DROP VIEW IF EXISTS {view}")
    for (log, name), kind in _NEW.items():
        for place in (log, f"{log}_archive"):
            known = {column["name"] for column in sa.inspect(connection).get_columns(place)}
            if name not in known:
                op.add_column(place, sa.Column(name, kind()))
    present = {index["name"] for index in sa.inspect(connection).get_indexes("job_log")}
    for index in job_log.indexes:
        if index.name not in present:
            index.create(connection)
    for view, query in VIEWS.items():
        op.execute(f"CREATE VIEW {view} AS {query}")
    source_audit.create(connection, checkfirst=True)
