"""What a step did with its rows: inserted and updated ones, malformed ones."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_COUNTS = ("inserted_count", "updated_count", "malformed_count")


def upgrade() -> None:
    """Steps that ended before have no such counts: NULL."""
    connection = op.get_bind()
    for log in ("step_log", "step_log_archive"):
        known = {column["name"] for column in sa.inspect(connection).get_columns(log)}
        for name in _COUNTS:
            if name not in known:
                op.add_column(log, sa.Column(name, sa.BigInteger()))
