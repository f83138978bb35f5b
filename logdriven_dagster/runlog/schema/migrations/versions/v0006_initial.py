"""The first schema of the run log: 0006, since logs that were made before a release bear it.

A migration is frozen: it imports nothing of the package, so that it does the same tomorrow.
What all of them make is compared with `runlog/schema/attempts.py` by
`tests/runlog/schema/test_migrating.py`.
"""

from typing import Any

from alembic import op
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects import mysql

revision = "0006"
down_revision = None

_ID = BigInteger().with_variant(Integer(), "sqlite")
_MOMENT = DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_LONG_TEXT = Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
_NOW = text("CURRENT_TIMESTAMP")
_INNODB: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}
_STATISTICS = "CREATE STATISTICS IF NOT EXISTS st_job_log ON status, latest, covered FROM job_log"
_schema = MetaData()


def upgrade() -> None:
    """Make all tables; go on where an interrupted start ended on MariaDB, which commits each."""
    _schema.create_all(op.get_bind())
    if op.get_context().dialect.name == "postgresql":
        op.execute(_STATISTICS)


def _archive(name: str, of: str) -> None:
    """Add a table for old rows of another one: the same columns, no sequence and no constraints."""
    columns = [
        Column(c.name, c.type, primary_key=c.primary_key, autoincrement=False, nullable=c.nullable)
        for c in _schema.tables[of].columns
    ]
    Table(name, _schema, *columns, **_INNODB)


def _index(name: str, table: str, *columns: str, unique: bool = False) -> None:
    Index(name, *(_schema.tables[table].c[column] for column in columns), unique=unique)


Table(
    "job_log",
    _schema,
    Column("job_id", _ID, primary_key=True, autoincrement=True),
    Column("job_name", String(128), nullable=False, comment="the table's name"),
    Column("job_period", Integer, nullable=False, comment="minutes"),
    Column("job_schedule_id", String(128), nullable=False, comment="job_name-data_range_start"),
    Column("data_range_start", _LONG_TEXT, comment="yyyyMMddHHmmss, a key, offsets as JSON, …"),
    Column("data_range_end", _LONG_TEXT),
    Column("job_start_time", _MOMENT),
    Column("job_end_time", _MOMENT),
    Column("status", String(32), nullable=False, comment="RUNNING, then one of the others"),
    Column("create_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("last_update_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("incremental_type", String(16)),
    Column("current_file", String(1024)),
    Column("application_id", String(64)),
    Column("project_name", String(256)),
    Column("run_trigger", String(16), comment="pending, refresh, lookback, upstream, takeover, …"),
    Column("attempt_number", Integer, nullable=False, server_default="1"),
    Column("error_count", Integer, nullable=False, server_default="0"),
    Column("owner", String(256), comment="host:pid:process start"),
    Column("dagster_run_id", String(64)),
    Column("runtime_args", Text, comment="JSON"),
    Column("data_now", BigInteger, comment="the data clock of the claim, epoch seconds"),
    Column("window_start", BigInteger, comment="epoch seconds, or the number of a slice"),
    Column("window_end", BigInteger),
    Column("latest", SmallInteger, comment="1 for the attempt that counts, else NULL"),
    Column("fencing_token", BigInteger, comment="greater than any earlier one of the window"),
    Column("heartbeat_at", _MOMENT),
    Column("lease_expires_at", _MOMENT),
    Column("failures", Integer, nullable=False, server_default="0", comment="in a row before"),
    Column("definition", String(64), comment="digest of what the steps do"),
    Column("covered", SmallInteger, comment="1 if log_range holds the window, 0 if it never will"),
    Column("has_more", SmallInteger, comment="1 if the source had more than a slice took"),
    Column("target_batch_id", BigInteger, comment="the batch that a success makes"),
    Column("table_version", Integer, comment="of table_definition, as the attempt ran it"),
    Column("parameters", _LONG_TEXT, comment="JSON: the values that it ran with, secrets as names"),
    Column("job_run_id", BigInteger, comment="the run of a job that it belongs to"),
    Column("again", SmallInteger, comment="1 for an attempt after the first one, else NULL"),
    Column("seen_until", BigInteger, comment="lookback: all was there up to here; NULL: for good"),
    Column("failed_refresh", SmallInteger, comment="1: it failed, what was before stands; 0: past"),
    Column("standing", BigInteger, comment="what counts if a refresh ends that changed nothing"),
    CheckConstraint(
        "status IN ('RUNNING', 'SUCCESS', 'FAILURE', 'DISCARDED', 'SKIPPED')",
        name="ck_job_log_status",
    ),
    CheckConstraint("status <> 'RUNNING' OR fencing_token IS NOT NULL", name="ck_job_log_lease"),
    sqlite_autoincrement=True,
    **_INNODB,
)
_index("ix_job_log_again", "job_log", "job_name", "again", "job_id")
_index("ix_job_log_ended", "job_log", "job_end_time")
_index("ix_job_log_failed_refresh", "job_log", "failed_refresh", "job_name")
_index("ix_job_log_job_run", "job_log", "job_run_id")
_index("ix_job_log_name", "job_log", "job_name", "job_id")
_index("ix_job_log_run", "job_log", "dagster_run_id", "job_id")
_index("ix_job_log_seen", "job_log", "job_name", "latest", "seen_until")
_index("ix_job_log_status", "job_log", "status", "latest")
_index("ix_job_log_uncovered", "job_log", "latest", "covered", "status")
_index(
    "ix_job_log_windows", "job_log", "job_name", "latest", "status", "window_start", "window_end"
)
_index("uq_job_log_latest", "job_log", "job_schedule_id", "latest", unique=True)

Table(
    "step_log",
    _schema,
    Column("job_id", _ID, ForeignKey("job_log.job_id"), primary_key=True, autoincrement=False),
    Column("step_id", String(64), primary_key=True),
    Column("status", String(32), nullable=False),
    Column("start_time", _MOMENT, nullable=False),
    Column("end_time", _MOMENT, nullable=False, comment="start_time while it runs"),
    Column("duration", Integer, nullable=False, comment="seconds"),
    Column("output", Text, nullable=False),
    Column("source_count", BigInteger),
    Column("target_count", BigInteger),
    Column("success_count", BigInteger),
    Column("failure_count", BigInteger),
    Column("error", String(10000)),
    Column("source_type", String(256)),
    Column("target_type", String(256)),
    Column("staged", _LONG_TEXT, comment="JSON: a durable result that is not published yet"),
    Column("inserted_count", BigInteger, comment="of target_count, rows with new keys"),
    Column("updated_count", BigInteger, comment="of target_count, rows that replaced others"),
    Column("malformed_count", BigInteger, comment="rows that a permissive source could not read"),
    CheckConstraint(
        "status IN ('READY', 'RUNNING', 'SUCCESS', 'FAILURE', 'DISCARDED', 'SKIPPED')",
        name="ck_step_log_status",
    ),
    **_INNODB,
)

Table(
    "log_range",
    _schema,
    Column("range_id", _ID, primary_key=True, autoincrement=True),
    Column("job_name", String(128), nullable=False),
    Column("status", String(32), nullable=False, comment="SUCCESS or SKIPPED"),
    Column("window_start", BigInteger, nullable=False, comment="epoch seconds"),
    Column("window_end", BigInteger, nullable=False, comment="epoch seconds"),
    **_INNODB,
)
_index("ix_log_range_end", "log_range", "job_name", "status", "window_end")

Table(
    "refresh_bookmark",
    _schema,
    Column("job_name", String(128), primary_key=True),
    Column("upstream", String(128), primary_key=True),
    Column("job_id", BigInteger, nullable=False, comment="of the upstream"),
    **_INNODB,
)

Table(
    "batch",
    _schema,
    Column("batch_id", _ID, primary_key=True, autoincrement=True),
    Column("source_job_id", BigInteger, comment="the attempt that made it"),
    Column("batch_type", String(32), nullable=False, comment="window, file"),
    Column("batch_marking", _LONG_TEXT, comment="of a finished attempt; dates or NAME@date"),
    Column("create_time", _MOMENT, nullable=False, server_default=_NOW),
    sqlite_autoincrement=True,
    **_INNODB,
)

Table(
    "batch_queue",
    _schema,
    Column("queue_id", _ID, primary_key=True, autoincrement=True),
    Column("job_name", String(128), nullable=False, comment="the table that consumes it"),
    Column("step_id", String(64), nullable=False, comment="the step that consumes it"),
    Column("source_job_name", String(128), nullable=False, comment="the table that made it"),
    Column("source_batch_id", BigInteger, nullable=False),
    Column("source_job_id", BigInteger, comment="the attempt that made it"),
    Column("target_batch_id", BigInteger, comment="the batch that its consumer makes"),
    Column(
        "batch_state", SmallInteger, nullable=False, comment="0 new 1 processed 2 accessed 3 failed"
    ),
    Column("batch_marking", _LONG_TEXT, comment="dates of its data, or NAME@date; commas between"),
    Column("window_start", BigInteger, comment="what it holds of the table that made it"),
    Column("window_end", BigInteger),
    Column("insert_ts", _MOMENT, nullable=False, server_default=_NOW),
    Column("start_ts", _MOMENT),
    Column("end_ts", _MOMENT),
    sqlite_autoincrement=True,
    **_INNODB,
)
_index("ix_batch_queue_source", "batch_queue", "source_batch_id")
_index("ix_batch_queue_target", "batch_queue", "job_name", "target_batch_id")
_index(
    "uq_batch_queue",
    "batch_queue",
    "job_name",
    "source_job_name",
    "source_batch_id",
    "step_id",
    unique=True,
)

Table(
    "file",
    _schema,
    Column("file_id", _ID, primary_key=True, autoincrement=True),
    Column("batch_id", BigInteger, nullable=False),
    Column("server", String(128), nullable=False, comment="scheme and host; empty: this machine"),
    Column("path", Text, nullable=False),
    Column("path_digest", String(64), nullable=False, comment="SHA-256 of server and path"),
    Column("file_size", BigInteger, nullable=False),
    Column("file_hash", String(128), nullable=False, comment="of the content, or size and time"),
    Column("creation_ts", _MOMENT, nullable=False, comment="last modification"),
    sqlite_autoincrement=True,
    **_INNODB,
)
_index("ix_file_batch", "file", "batch_id")
_index("uq_file", "file", "path_digest", "file_hash", unique=True)

_archive("job_log_archive", "job_log")
_index("ix_job_log_archive_ended", "job_log_archive", "job_end_time")
_index("ix_job_log_archive_id", "job_log_archive", "job_schedule_id", "attempt_number")
_index(
    "ix_job_log_archive_windows", "job_log_archive", "job_name", "latest", "status", "window_start"
)

_archive("step_log_archive", "step_log")

_archive("batch_queue_archive", "batch_queue")
_index(
    "ix_batch_archive_consumer",
    "batch_queue_archive",
    "job_name",
    "source_job_name",
    "source_batch_id",
)
_index(
    "ix_batch_archive_newest", "batch_queue_archive", "job_name", "source_job_name", "source_job_id"
)
_index("ix_batch_archive_source", "batch_queue_archive", "source_batch_id")
_index("ix_batch_archive_target", "batch_queue_archive", "job_name", "target_batch_id")

Table(
    "project_definition",
    _schema,
    Column("code", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("project_code", String(64), nullable=False),
    Column("name", String(384), nullable=False),
    Column("content", _LONG_TEXT, nullable=False, comment="JSON: what was declared"),
    Column("digest", String(64), nullable=False, comment="of the content"),
    Column(
        "file_digest",
        String(64),
        comment="of the file when it was applied last; NULL: it never came from a file",
    ),
    Column("create_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("update_time", _MOMENT, nullable=False, server_default=_NOW),
    **_INNODB,
)
_index("uq_project_definition", "project_definition", "project_code", "name", unique=True)

Table(
    "project_definition_log",
    _schema,
    Column("code", String(64), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("project_code", String(64), nullable=False),
    Column("name", String(384), nullable=False),
    Column("content", _LONG_TEXT, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("file_digest", String(64)),
    Column("create_time", _MOMENT, nullable=False),
    Column("update_time", _MOMENT, nullable=False),
    Column("operation", String(8), nullable=False, comment="add, modify, delete"),
    Column("operator", String(256), nullable=False, comment="who did it"),
    Column("operation_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("reason", Text, comment="apply, set, rollback to 3, import of …, an SQL client"),
    **_INNODB,
)

Table(
    "table_definition",
    _schema,
    Column("code", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("project_code", String(64), nullable=False),
    Column("name", String(384), nullable=False),
    Column("content", _LONG_TEXT, nullable=False, comment="JSON: what was declared"),
    Column("digest", String(64), nullable=False, comment="of the content"),
    Column(
        "file_digest",
        String(64),
        comment="of the file when it was applied last; NULL: it never came from a file",
    ),
    Column("create_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("update_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("description", Text),
    Column("incremental_type", String(16), nullable=False),
    Column("enabled", SmallInteger, nullable=False, server_default="1", comment="0: nobody"),
    Column(
        "release_state",
        String(8),
        nullable=False,
        server_default="online",
        comment="offline: no schedule and no sensor starts it",
    ),
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("worker_group", String(128)),
    Column("retries", Integer, comment="tries after the first; NULL: the job's, or none"),
    Column("retry_interval", Integer, comment="seconds"),
    Column("timeout", Integer, comment="seconds"),
    Column("timeout_strategy", String(8), comment="warn, fail, both"),
    CheckConstraint("enabled IN (0, 1)", name="ck_table_enabled"),
    CheckConstraint("release_state IN ('online', 'offline')", name="ck_table_release_state"),
    CheckConstraint("priority BETWEEN -100 AND 100", name="ck_table_priority"),
    CheckConstraint("retries >= 0", name="ck_table_retries"),
    CheckConstraint("retry_interval >= 0", name="ck_table_retry_interval"),
    CheckConstraint("timeout >= 0", name="ck_table_timeout"),
    CheckConstraint(
        "timeout_strategy IN ('warn', 'fail', 'both')", name="ck_table_timeout_strategy"
    ),
    **_INNODB,
)
_index("uq_table_definition", "table_definition", "project_code", "name", unique=True)

Table(
    "table_definition_log",
    _schema,
    Column("code", String(64), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("project_code", String(64), nullable=False),
    Column("name", String(384), nullable=False),
    Column("content", _LONG_TEXT, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("file_digest", String(64)),
    Column("create_time", _MOMENT, nullable=False),
    Column("update_time", _MOMENT, nullable=False),
    Column("description", Text),
    Column("incremental_type", String(16), nullable=False),
    Column("enabled", SmallInteger, nullable=False),
    Column("release_state", String(8), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("worker_group", String(128)),
    Column("retries", Integer),
    Column("retry_interval", Integer),
    Column("timeout", Integer),
    Column("timeout_strategy", String(8)),
    Column("operation", String(8), nullable=False, comment="add, modify, delete"),
    Column("operator", String(256), nullable=False, comment="who did it"),
    Column("operation_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("reason", Text, comment="apply, set, rollback to 3, import of …, an SQL client"),
    **_INNODB,
)

Table(
    "job_definition",
    _schema,
    Column("code", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("project_code", String(64), nullable=False),
    Column("name", String(384), nullable=False),
    Column("content", _LONG_TEXT, nullable=False, comment="JSON: what was declared"),
    Column("digest", String(64), nullable=False, comment="of the content"),
    Column(
        "file_digest",
        String(64),
        comment="of the file when it was applied last; NULL: it never came from a file",
    ),
    Column("create_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("update_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("description", Text),
    Column("job_type", String(16), nullable=False, comment="standard, maintenance"),
    Column("schedule", String(128), comment="a cron expression"),
    Column("enabled", SmallInteger, nullable=False, server_default="1", comment="0: nobody"),
    Column(
        "release_state",
        String(8),
        nullable=False,
        server_default="online",
        comment="offline: no schedule and no sensor starts it",
    ),
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("worker_group", String(128)),
    Column("retries", Integer, comment="tries after the first; NULL: the job's, or none"),
    Column("retry_interval", Integer, comment="seconds"),
    Column("timeout", Integer, comment="seconds"),
    Column("timeout_strategy", String(8), comment="warn, fail, both"),
    CheckConstraint("enabled IN (0, 1)", name="ck_job_enabled"),
    CheckConstraint("release_state IN ('online', 'offline')", name="ck_job_release_state"),
    CheckConstraint("priority BETWEEN -100 AND 100", name="ck_job_priority"),
    CheckConstraint("retries >= 0", name="ck_job_retries"),
    CheckConstraint("retry_interval >= 0", name="ck_job_retry_interval"),
    CheckConstraint("timeout >= 0", name="ck_job_timeout"),
    CheckConstraint("timeout_strategy IN ('warn', 'fail', 'both')", name="ck_job_timeout_strategy"),
    **_INNODB,
)
_index("uq_job_definition", "job_definition", "project_code", "name", unique=True)

Table(
    "job_definition_log",
    _schema,
    Column("code", String(64), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("project_code", String(64), nullable=False),
    Column("name", String(384), nullable=False),
    Column("content", _LONG_TEXT, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("file_digest", String(64)),
    Column("create_time", _MOMENT, nullable=False),
    Column("update_time", _MOMENT, nullable=False),
    Column("description", Text),
    Column("job_type", String(16), nullable=False),
    Column("schedule", String(128)),
    Column("enabled", SmallInteger, nullable=False),
    Column("release_state", String(8), nullable=False),
    Column("priority", Integer, nullable=False),
    Column("worker_group", String(128)),
    Column("retries", Integer),
    Column("retry_interval", Integer),
    Column("timeout", Integer),
    Column("timeout_strategy", String(8)),
    Column("operation", String(8), nullable=False, comment="add, modify, delete"),
    Column("operator", String(256), nullable=False, comment="who did it"),
    Column("operation_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("reason", Text, comment="apply, set, rollback to 3, import of …, an SQL client"),
    **_INNODB,
)

Table(
    "relation_definition",
    _schema,
    Column("code", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("project_code", String(64), nullable=False),
    Column("name", String(384), nullable=False),
    Column("content", _LONG_TEXT, nullable=False, comment="JSON: what was declared"),
    Column("digest", String(64), nullable=False, comment="of the content"),
    Column(
        "file_digest",
        String(64),
        comment="of the file when it was applied last; NULL: it never came from a file",
    ),
    Column("create_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("update_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("job_code", String(64), comment="NULL: of the table, in every job"),
    Column("pre_code", String(64), comment="NULL: the upstream is not ours"),
    Column("pre_name", String(256), nullable=False),
    Column("post_code", String(64), nullable=False),
    Column("post_name", String(256), nullable=False),
    Column("condition_type", SmallInteger, nullable=False, comment="0 none 1 judgment 2 delay"),
    Column("condition_params", Text, comment='JSON: {"condition": "failure", "delay": 1800}'),
    **_INNODB,
)
_index("ix_relation_job", "relation_definition", "job_code")
_index("ix_relation_post", "relation_definition", "post_code")
_index("ix_relation_pre", "relation_definition", "pre_code")
_index("uq_relation_definition", "relation_definition", "project_code", "name", unique=True)

Table(
    "relation_definition_log",
    _schema,
    Column("code", String(64), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("project_code", String(64), nullable=False),
    Column("name", String(384), nullable=False),
    Column("content", _LONG_TEXT, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("file_digest", String(64)),
    Column("create_time", _MOMENT, nullable=False),
    Column("update_time", _MOMENT, nullable=False),
    Column("job_code", String(64)),
    Column("pre_code", String(64)),
    Column("pre_name", String(256), nullable=False),
    Column("post_code", String(64), nullable=False),
    Column("post_name", String(256), nullable=False),
    Column("condition_type", SmallInteger, nullable=False),
    Column("condition_params", Text),
    Column("operation", String(8), nullable=False, comment="add, modify, delete"),
    Column("operator", String(256), nullable=False, comment="who did it"),
    Column("operation_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("reason", Text, comment="apply, set, rollback to 3, import of …, an SQL client"),
    **_INNODB,
)

Table(
    "step_definition",
    _schema,
    Column("code", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("project_code", String(64), nullable=False),
    Column("name", String(384), nullable=False),
    Column("content", _LONG_TEXT, nullable=False, comment="JSON: what was declared"),
    Column("digest", String(64), nullable=False, comment="of the content"),
    Column(
        "file_digest",
        String(64),
        comment="of the file when it was applied last; NULL: it never came from a file",
    ),
    Column("create_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("update_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("job_code", String(64), nullable=False),
    Column("exec_order", Integer, nullable=False),
    Column("enabled", SmallInteger, nullable=False, server_default="1"),
    CheckConstraint("enabled IN (0, 1)", name="ck_step_enabled"),
    **_INNODB,
)
_index("uq_step_definition", "step_definition", "project_code", "name", unique=True)
_index("uq_step_exec_order", "step_definition", "job_code", "exec_order", unique=True)

Table(
    "step_definition_log",
    _schema,
    Column("code", String(64), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("project_code", String(64), nullable=False),
    Column("name", String(384), nullable=False),
    Column("content", _LONG_TEXT, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("file_digest", String(64)),
    Column("create_time", _MOMENT, nullable=False),
    Column("update_time", _MOMENT, nullable=False),
    Column("job_code", String(64), nullable=False),
    Column("exec_order", Integer, nullable=False),
    Column("enabled", SmallInteger, nullable=False),
    Column("operation", String(8), nullable=False, comment="add, modify, delete"),
    Column("operator", String(256), nullable=False, comment="who did it"),
    Column("operation_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("reason", Text, comment="apply, set, rollback to 3, import of …, an SQL client"),
    **_INNODB,
)

Table(
    "definition_use",
    _schema,
    Column("project_code", String(64), nullable=False),
    Column("code", String(64), primary_key=True, comment="the table, job or step"),
    Column("kind", String(16), primary_key=True, comment="connection, topic, table, …"),
    Column("used", String(512), primary_key=True, comment="its name"),
    Column("step_id", String(64), primary_key=True),
    **_INNODB,
)
_index("ix_definition_use", "definition_use", "project_code", "kind", "used")

Table(
    "table_property",
    _schema,
    Column("project_code", String(64), nullable=False),
    Column("code", String(64), nullable=False, comment="the table's"),
    Column("config_group", String(128), nullable=False),
    Column("name", String(128), nullable=False),
    Column("value", Text, nullable=False),
    UniqueConstraint("code", "config_group", "name", name="uq_table_property"),
    **_INNODB,
)
_index("ix_table_property_project", "table_property", "project_code")

Table(
    "job_run",
    _schema,
    Column("job_run_id", _ID, primary_key=True, autoincrement=True),
    Column("job_code", String(64), nullable=False),
    Column("job_name", String(256), nullable=False),
    Column("job_type", String(16), nullable=False, comment="standard, maintenance"),
    Column("job_version", Integer, comment="of job_definition, as the run has it"),
    Column("project_name", String(256)),
    Column("status", String(32), nullable=False, comment="RUNNING, SUCCESS, FAILURE, DISCARDED"),
    Column("begin_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("end_time", _MOMENT),
    Column("run_trigger", String(16), comment="manual, schedule, sensor"),
    Column("parameters", _LONG_TEXT, comment="JSON: the global parameters, secrets as names"),
    Column("error", Text),
    Column("owner", String(256), comment="host:pid:process start"),
    Column("dagster_run_id", String(64)),
    Column("running", SmallInteger, comment="1 while it is RUNNING, else NULL"),
    Column("fencing_token", BigInteger),
    Column("heartbeat_at", _MOMENT),
    Column("lease_expires_at", _MOMENT),
    Column("blocked", _LONG_TEXT, comment="a line for each table that could not go on, and why"),
    CheckConstraint(
        "status IN ('RUNNING', 'SUCCESS', 'FAILURE', 'DISCARDED')", name="ck_job_run_status"
    ),
    sqlite_autoincrement=True,
    **_INNODB,
)
_index("ix_job_run_begin", "job_run", "begin_time")
_index("ix_job_run_code", "job_run", "job_code", "job_run_id")
_index("ix_job_run_dagster", "job_run", "dagster_run_id", "job_run_id")
_index("ix_job_run_name", "job_run", "job_name", "job_run_id")
_index("ix_job_run_open", "job_run", "running")
_index("uq_job_run_running", "job_run", "job_code", "running", unique=True)

Table(
    "job_run_step",
    _schema,
    Column("job_run_id", BigInteger, primary_key=True, autoincrement=False),
    Column("exec_order", Integer, primary_key=True, autoincrement=False),
    Column("step_id", String(64), nullable=False),
    Column("status", String(32), nullable=False, comment="READY, then as of the run"),
    Column("begin_time", _MOMENT, comment="NULL: its turn has not come"),
    Column("end_time", _MOMENT),
    Column("row_count", BigInteger, nullable=False, server_default="0"),
    Column("error_count", Integer, nullable=False, server_default="0", comment="failed tries"),
    Column("output", _LONG_TEXT),
    Column("error", Text),
    **_INNODB,
)

Table(
    "source_audit",
    _schema,
    Column("job_name", String(128), primary_key=True, comment="the table's name"),
    Column("step_id", String(64), primary_key=True),
    Column("looked_at", _MOMENT, nullable=False, server_default=_NOW),
    Column("digest", String(64), comment="of the files that were looked at"),
    Column("row_count", BigInteger, nullable=False, comment="all rows of the step's source"),
    Column("null_count", BigInteger, nullable=False, comment="NULL in what tells the window"),
    Column("before_count", BigInteger, nullable=False, comment="before the first window"),
    Column("after_count", BigInteger, nullable=False, comment="after the last window"),
    Column("future_count", BigInteger, nullable=False, comment="from the data clock on"),
    Column("done_count", BigInteger, comment="in windows that are done; NULL: nobody asked"),
    Column("read_count", BigInteger, comment="what those have read; NULL: not comparable"),
    **_INNODB,
)

Table(
    "quality_check_log",
    _schema,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("job_id", BigInteger, nullable=False),
    Column("job_name", String(128), nullable=False, comment="the table's name"),
    Column("step_id", String(64), nullable=False),
    Column("column", String(256), comment="NULL: the rule is about whole rows"),
    Column("data_check_type", String(256), nullable=False, comment="the rule"),
    Column("ids", _LONG_TEXT, comment="JSON: the keys of the first 1,000 rows"),
    Column("error_type", String(16), nullable=False, comment="warn, error"),
    Column("warn_count", BigInteger, nullable=False, server_default="0"),
    Column("error_count", BigInteger, nullable=False, server_default="0"),
    Column("checked_count", BigInteger, comment="rows that were looked at"),
    Column("create_time", _MOMENT, nullable=False, server_default=_NOW),
    Column("last_update_time", _MOMENT, nullable=False, server_default=_NOW),
    sqlite_autoincrement=True,
    **_INNODB,
)
_index("ix_quality_check_log_job", "quality_check_log", "job_id")
_index("ix_quality_check_log_name", "quality_check_log", "job_name", "id")

Table(
    "process_log",
    _schema,
    Column("log_id", _ID, primary_key=True, autoincrement=True),
    Column("add_ts", _MOMENT, nullable=False, server_default=_NOW),
    Column("job_name", String(128), nullable=False),
    Column("log_category", String(32), nullable=False, comment="quality, …"),
    Column("message_id", String(128), nullable=False),
    Column("message", _LONG_TEXT),
    Column("job_id", BigInteger, comment="the attempt"),
    sqlite_autoincrement=True,
    **_INNODB,
)
_index("ix_process_log", "process_log", "job_id", "log_category")

Table(
    "lineage_query",
    _schema,
    Column("query_id", _ID, primary_key=True, autoincrement=True),
    Column("digest", String(64), nullable=False, comment="of table, step, text and columns"),
    Column("job_name", String(128), nullable=False),
    Column("step_id", String(64), nullable=False),
    Column("query_type", String(16), nullable=False, comment="spark, source, python"),
    Column("query_string", _LONG_TEXT, nullable=False),
    Column("container_node_id", BigInteger, comment="what its columns are of"),
    Column("absent", Text, comment="why no lineage is known, or none of some columns"),
    Column("create_ts", _MOMENT, nullable=False, server_default=_NOW),
    sqlite_autoincrement=True,
    **_INNODB,
)
_index("ix_lineage_query_result", "lineage_query", "container_node_id")
_index("ix_lineage_query_step", "lineage_query", "job_name", "step_id")
_index("uq_lineage_query", "lineage_query", "digest", unique=True)

Table(
    "lineage_run",
    _schema,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False, comment="the attempt"),
    Column("query_id", BigInteger, primary_key=True, autoincrement=False),
    **_INNODB,
)
_index("ix_lineage_run_query", "lineage_run", "query_id", "job_id")

Table(
    "lineage_node",
    _schema,
    Column("node_id", _ID, primary_key=True, autoincrement=True),
    Column("node_type", String(16), nullable=False, comment="table, column, function, temp"),
    Column("container_node_id", BigInteger, comment="of a column: its table"),
    Column("display_name", String(512), nullable=False),
    Column("digest", String(64), nullable=False, comment="of type and full name"),
    sqlite_autoincrement=True,
    **_INNODB,
)
_index("uq_lineage_node", "lineage_node", "digest", unique=True)

Table(
    "lineage_relation",
    _schema,
    Column("relation_id", _ID, primary_key=True, autoincrement=True),
    Column("query_id", BigInteger, nullable=False),
    Column("src_node_id", BigInteger, comment="NULL: of nothing, as a constant is"),
    Column("target_node_id", BigInteger, nullable=False),
    sqlite_autoincrement=True,
    **_INNODB,
)
_index("ix_lineage_relation_query", "lineage_relation", "query_id")
_index("ix_lineage_relation_src", "lineage_relation", "src_node_id")
_index("ix_lineage_relation_target", "lineage_relation", "target_node_id")

Table(
    "notification_log",
    _schema,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("digest", String(64), nullable=False, comment="of project, recipient, what and job_id"),
    Column("project_name", String(256), nullable=False),
    Column("recipient", String(64), nullable=False, comment="a name of the project, no address"),
    Column("subject_type", String(16), nullable=False, comment="table, job"),
    Column("subject", String(256), nullable=False, comment="the name of the table or job"),
    Column("event", String(16), nullable=False, comment="failure, recovery, success"),
    Column("job_id", BigInteger, nullable=False, comment="the attempt, or the run of a job"),
    Column("owner", String(256), comment="whose run gathers it; NULL: whoever comes by"),
    Column("due_time", _MOMENT, nullable=False, comment="when others than the owner send it"),
    Column("sending", String(32), comment="the message that it is part of"),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("sent_time", _MOMENT),
    Column("error", Text, comment="why the last try did not reach the recipient"),
    Column("create_time", _MOMENT, nullable=False, server_default=_NOW),
    sqlite_autoincrement=True,
    **_INNODB,
)
_index("ix_notification_log_sending", "notification_log", "sending")
_index("ix_notification_log_unsent", "notification_log", "sent_time", "create_time")
_index("uq_notification_log", "notification_log", "digest", unique=True)
