"""What keeps the cost of planning apart from the length of the history: marks and indexes."""

import sqlalchemy as sa
from alembic import op

from logdriven_dagster.runlog.observation_schema import job_run
from logdriven_dagster.runlog.schema import (
    STATISTICS,
    job_log,
    job_log_archive,
    metadata,
)
from logdriven_dagster.runlog.views import VIEWS

revision = "0005"
down_revision = "0004"

_CHANGED = {
    "job_log": {"ix_job_log_again"},
    "job_log_archive": {"ix_job_log_archive_windows"},
}


def upgrade() -> None:
    """Attempts after the first one at a window are marked; there are no bookmarks yet."""
    for view in VIEWS:  # the last migration makes them anew
        op.execute(f"DROP VIEW IF EXISTS {view}")
    connection = op.get_bind()
    for log in (job_log, job_log_archive):
        known = {column["name"] for column in sa.inspect(connection).get_columns(log.name)}
        if "again" not in known:
            op.add_column(log.name, sa.Column("again", log.c.again.type))
        marked = sa.update(log).where(log.c.attempt_number > 1).values(again=1)
        connection.execute(marked)
    for log in (job_log, job_log_archive, job_run):
        present = {index["name"] for index in sa.inspect(connection).get_indexes(log.name)}
        changed = _CHANGED.get(log.name, set())
        for name in filter(None, present & changed):
            op.drop_index(name, log.name)
        known = {column["name"] for column in sa.inspect(connection).get_columns(log.name)}
        for index in log.indexes:
            if index.name not in present - changed and known.issuperset(index.columns.keys()):
                index.create(connection)
    if connection.dialect.name == "postgresql":
        op.execute(STATISTICS)
    metadata.create_all(connection, checkfirst=True)
