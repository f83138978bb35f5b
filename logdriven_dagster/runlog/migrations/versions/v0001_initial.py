"""job_log, step_log and the latest-status views."""

from alembic import op

from logdriven_dagster.runlog.schema import VIEWS, metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())
    for name, query in VIEWS.items():
        op.execute(f"CREATE VIEW {name} AS {query}")
