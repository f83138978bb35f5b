"""What steps did with their rows, what attempts had seen, what jobs were blocked by."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from logdriven_dagster.runlog.observation_schema import source_audit
from logdriven_dagster.runlog.schema import LongText, job_log
from logdriven_dagster.runlog.views import VIEWS, create_views

revision = "0006"
down_revision = "0005"

_NEW: dict[tuple[str, str], sa.types.TypeEngine[Any]] = {
    ("step_log", "inserted_count"): sa.BigInteger(),
    ("step_log", "updated_count"): sa.BigInteger(),
    ("step_log", "malformed_count"): sa.BigInteger(),
    ("job_log", "seen_until"): sa.BigInteger(),
    ("job_log", "failed_refresh"): sa.SmallInteger(),
    ("job_log", "standing"): sa.BigInteger(),
    ("job_run", "blocked"): LongText,
}
"""Columns of logs, and of the archives of those that have one."""


def upgrade() -> None:
    """What ended before has no such counts, had seen what was due, and stands: NULL."""
    connection = op.get_bind()
    for view in VIEWS:  # with the columns of their tables
        op.execute(f"DROP VIEW IF EXISTS {view}")
    present = set(sa.inspect(connection).get_table_names())
    for (log, name), kind in _NEW.items():
        for place in {log, f"{log}_archive"} & present:
            known = {column["name"] for column in sa.inspect(connection).get_columns(place)}
            if name not in known:
                op.add_column(place, sa.Column(name, kind))
    indexes = {index["name"] for index in sa.inspect(connection).get_indexes("job_log")}
    for index in job_log.indexes:
        if index.name not in indexes:
            index.create(connection)
    create_views(connection)
    source_audit.create(connection, checkfirst=True)
