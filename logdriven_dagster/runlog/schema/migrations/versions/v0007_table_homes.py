"""The homes of tables: which project their windows belong to.

Tables of an older log belong to the project of their newest attempt, in a place that is not known.
"""

from typing import Any

from alembic import op
from sqlalchemy import Column, DateTime, MetaData, String, Table, Text, text
from sqlalchemy.dialects import mysql

revision = "0007"
down_revision = "0006"

_MOMENT = DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_NOW = text("CURRENT_TIMESTAMP")
_INNODB: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}
_schema = MetaData()

Table(
    "table_home",
    _schema,
    Column("name", String(384), primary_key=True, comment="of a table, or: project NAME"),
    Column("project_name", String(256), nullable=False),
    Column("host", String(256), comment="the machine that recorded it; NULL: an earlier version"),
    Column("folder", Text, comment="of the project, there"),
    Column("place", Text, comment="of the target; NULL: not known"),
    Column("create_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("last_update_time", _MOMENT, nullable=False, server_default=_NOW),
    **_INNODB,
)

# Attempts without a project are of other tools, and assets of others belong to every project.
_OLDER = """
    INSERT INTO table_home (name, project_name)
    SELECT l.job_name, l.project_name
    FROM {log} l
    JOIN (SELECT job_name, MAX(job_id) AS newest FROM {log}
          WHERE project_name IS NOT NULL AND COALESCE(run_trigger, '') <> 'observed'
          GROUP BY job_name) n ON n.newest = l.job_id
    WHERE NOT EXISTS (SELECT 1 FROM table_home h WHERE h.name = l.job_name)
"""


def upgrade() -> None:
    """Make the table and fill it; go on where an interrupted start ended on MariaDB."""
    _schema.create_all(op.get_bind())
    for log in ("job_log", "job_log_archive"):
        op.execute(_OLDER.format(log=log))
