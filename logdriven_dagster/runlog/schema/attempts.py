"""The tables of the run log. Source: Sharp ETL, `job_log` and `step_log`; the rest is our own.

All timestamps are naive UTC by the database's clock. A new log starts with this schema; migrations
will bring the logs of released versions to it.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    DDL,
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    event,
    text,
)
from sqlalchemy.dialects import mysql

from logdriven_dagster.model.attempts import CURRENT_FILE_LENGTH, Status
from logdriven_dagster.runlog.sql.clock import Timestamp
from logdriven_dagster.runlog.sql.projects import get_new_row_project

metadata = MetaData()

Id = BigInteger().with_variant(Integer, "sqlite")
NOW = text("CURRENT_TIMESTAMP")
LongText = Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
INNODB: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}


def build_project_column(*, primary_key: bool = False) -> Column[int]:
    """Return the column of tables whose rows belong to one project; inserts set it by default."""
    return Column(
        "project_id",
        BigInteger,
        primary_key=primary_key,
        autoincrement=False,
        nullable=False,
        default=get_new_row_project,
        comment="of the table project",
    )


def _format_choices(statuses: Iterable[Status]) -> str:
    return "status IN ({})".format(", ".join(f"'{status.value}'" for status in statuses))


STATUS_CHECKS = {
    "job_log": _format_choices(status for status in Status if status is not Status.READY),
    "step_log": _format_choices(Status),
}
"""CHECK constraints of the databases: there are no other states."""
LEASE_CHECK = "status <> 'RUNNING' OR fencing_token IS NOT NULL"
"""A lease always has a fencing token."""

project = Table(
    "project",
    metadata,
    Column("project_id", Id, primary_key=True, autoincrement=True),
    Column("project_name", String(256), nullable=False),
    Column("host", String(256), nullable=False, comment="the machine that recorded it"),
    Column("folder", Text, nullable=False, comment="of the project, on that machine"),
    Column("place", Text, comment="the warehouse; NULL: no table is stored in one"),
    Column("create_time", Timestamp, nullable=False, server_default=NOW),
    Column("last_update_time", Timestamp, nullable=False, server_default=NOW),
    sqlite_autoincrement=True,
    **INNODB,
)
"""The projects that share the log; each has its rows in the tables with a `project_id`."""
Index("uq_project", project.c.project_name, unique=True)

job_log = Table(
    "job_log",
    metadata,
    Column("job_id", Id, primary_key=True, autoincrement=True),
    Column("job_name", String(128), nullable=False, comment="the table's name"),
    Column("job_period", Integer, nullable=False, comment="minutes"),
    Column("job_schedule_id", String(128), nullable=False, comment="job_name-data_range_start"),
    Column("data_range_start", LongText, comment="yyyyMMddHHmmss, a key, offsets as JSON, …"),
    Column("data_range_end", LongText),
    Column("job_start_time", Timestamp),
    Column("job_end_time", Timestamp),
    Column("status", String(32), nullable=False, comment="RUNNING, then the final status"),
    Column("create_time", Timestamp, nullable=False, server_default=NOW),
    Column("last_update_time", Timestamp, nullable=False, server_default=NOW),
    Column("incremental_type", String(16)),
    Column("current_file", String(CURRENT_FILE_LENGTH)),
    Column("application_id", String(64)),
    Column("project_name", String(256)),
    # The columns from here on are specific to logdriven.
    Column("run_trigger", String(16), comment="pending, refresh, lookback, upstream, takeover, …"),
    Column("attempt_number", Integer, nullable=False, server_default="1"),
    Column("error_count", Integer, nullable=False, server_default="0"),
    Column("owner", String(256), comment="host:pid:process start"),
    Column("dagster_run_id", String(64)),
    Column("runtime_args", Text, comment="JSON"),
    Column("data_now", BigInteger, comment="the data clock of the claim, epoch seconds"),
    # The position of data_range_* among all windows: wall-clock texts repeat in autumn, and keys,
    # offsets and batches have no order as texts.
    Column("window_start", BigInteger, comment="epoch seconds, or the number of a slice"),
    Column("window_end", BigInteger),
    Column("latest", SmallInteger, comment="1 for the attempt that counts, else NULL"),
    # The lease. A RUNNING row without an expiry has none; an ended row with an expiry did not end
    # by itself.
    Column("fencing_token", BigInteger, comment="greater than any earlier one of the window"),
    Column("heartbeat_at", Timestamp),
    Column("lease_expires_at", Timestamp),
    Column("failures", Integer, nullable=False, server_default="0", comment="in a row before"),
    Column("definition", String(64), comment="digest of the steps"),
    Column("covered", SmallInteger, comment="1 if log_range has the window, 0 if it never will"),
    Column("has_more", SmallInteger, comment="1 if the source had more than a slice took"),
    Column("target_batch_id", BigInteger, comment="the batch that a success writes"),
    Column("table_version", Integer, comment="of table_definition, as the attempt ran it"),
    Column("parameters", LongText, comment="JSON: the values of the run, secrets as names"),
    Column("job_run_id", BigInteger, comment="the run of a job that it belongs to"),
    Column("again", SmallInteger, comment="1 for an attempt after the first one, else NULL"),
    Column("seen_until", BigInteger, comment="lookback: complete up to here; NULL: permanently"),
    Column(
        "failed_refresh",
        SmallInteger,
        comment="1: it failed and the rows before it remain; 0: past",
    ),
    Column("standing", BigInteger, comment="the state to restore after a refresh without changes"),
    build_project_column(),
    CheckConstraint(STATUS_CHECKS["job_log"], name="ck_job_log_status"),
    CheckConstraint(LEASE_CHECK, name="ck_job_log_lease"),
    sqlite_autoincrement=True,
    **INNODB,
)
# NULLs differ from each other in a unique index: one latest attempt per window, any number of older
# ones. This index makes a second start impossible.
Index(
    "uq_job_log_latest",
    job_log.c.job_schedule_id,
    job_log.c.project_id,
    job_log.c.latest,
    unique=True,
)
# The project never comes first: SQLite has no statistics and would consider any index that begins
# with it selective.
Index(
    "ix_job_log_windows",
    job_log.c.job_name,
    job_log.c.project_id,
    job_log.c.latest,
    job_log.c.status,
    job_log.c.window_start,
    job_log.c.window_end,
    job_log.c.table_version,
)
for _index, _columns in {
    "ix_job_log_status": ("status", "latest", "project_id"),
    "ix_job_log_seen": ("job_name", "project_id", "latest", "seen_until"),
    "ix_job_log_failed_refresh": ("failed_refresh", "job_name", "project_id"),
    "ix_job_log_again": ("job_name", "project_id", "again", "job_id"),
    "ix_job_log_name": ("job_name", "project_id", "job_id"),
    "ix_job_log_ended": ("job_end_time",),
    "ix_job_log_run": ("dagster_run_id", "job_id"),
    "ix_job_log_job_run": ("job_run_id",),
    "ix_job_log_uncovered": ("latest", "covered", "status", "project_id"),
}.items():
    Index(_index, *(job_log.c[name] for name in _columns))
STATISTICS = "CREATE STATISTICS IF NOT EXISTS st_job_log ON status, latest, covered FROM job_log"
"""For PostgreSQL, which would otherwise expect as many failed rows among latest as older ones."""
_statistics = DDL(STATISTICS)  # type: ignore[no-untyped-call]
event.listen(job_log, "after_create", _statistics.execute_if(dialect="postgresql"))

step_log = Table(
    "step_log",
    metadata,
    Column("job_id", Id, ForeignKey("job_log.job_id"), primary_key=True, autoincrement=False),
    Column("step_id", String(64), primary_key=True),
    Column("status", String(32), nullable=False),
    Column("start_time", Timestamp, nullable=False),
    Column("end_time", Timestamp, nullable=False, comment="start_time while it runs"),
    Column("duration", Integer, nullable=False, comment="seconds"),
    Column("output", Text, nullable=False),
    Column("source_count", BigInteger),
    Column("target_count", BigInteger),
    Column("success_count", BigInteger),
    Column("failure_count", BigInteger),
    Column("error", String(10000)),
    Column("source_type", String(256)),
    Column("target_type", String(256)),
    Column("staged", LongText, comment="JSON: a durable result that is not published yet"),
    Column("inserted_count", BigInteger, comment="of target_count, rows with new keys"),
    Column("updated_count", BigInteger, comment="of target_count, rows that replaced others"),
    Column("malformed_count", BigInteger, comment="rows that a permissive source could not read"),
    Column("outside_count", BigInteger, comment="rows of the source that belong to no window"),
    Column("target", Text, comment="the published table, folder or topic, as readers name it"),
    Column("snapshot_id", String(64), comment="the snapshot or version that has the rows"),
    CheckConstraint(STATUS_CHECKS["step_log"], name="ck_step_log_status"),
    **INNODB,
)

log_range = Table(
    "log_range",
    metadata,
    Column("range_id", Id, primary_key=True, autoincrement=True),
    Column("job_name", String(128), nullable=False),
    Column("status", String(32), nullable=False, comment="SUCCESS or SKIPPED"),
    Column("window_start", BigInteger, nullable=False, comment="epoch seconds"),
    Column("window_end", BigInteger, nullable=False, comment="epoch seconds"),
    build_project_column(),
    **INNODB,
)
"""The ranges of the covered rows of `job_log`: planning reads these instead of the history."""
Index(
    "ix_log_range_end",
    log_range.c.job_name,
    log_range.c.project_id,
    log_range.c.status,
    log_range.c.window_end,
)

refresh_bookmark = Table(
    "refresh_bookmark",
    metadata,
    build_project_column(primary_key=True),
    Column("job_name", String(128), primary_key=True),
    Column("upstream", String(128), primary_key=True),
    Column("job_id", BigInteger, nullable=False, comment="of the upstream"),
    **INNODB,
)
"""The attempt of a rerun upstream up to which no window of a table is stale because of it."""

restatement = Table(
    "restatement",
    metadata,
    Column("restatement_id", Id, primary_key=True, autoincrement=True),
    Column("job_name", String(128), nullable=False, comment="the table's name"),
    Column("window_start", BigInteger, comment="epoch seconds; NULL: from the first window"),
    Column("window_end", BigInteger, comment="NULL: up to the last window"),
    Column("version", Integer, comment="windows by older ones run again; NULL: all windows"),
    Column("job_id", BigInteger, nullable=False, comment="the last attempt before the request"),
    Column("operator", String(256), nullable=False, comment="the operator"),
    Column("reason", Text, nullable=False),
    Column("create_time", Timestamp, nullable=False, server_default=NOW),
    Column("done", SmallInteger, comment="1 if no window is left, else NULL"),
    build_project_column(),
    sqlite_autoincrement=True,
    **INNODB,
)
"""Requests of operators to run finished windows again that older versions made."""
Index("ix_restatement", restatement.c.job_name, restatement.c.project_id, restatement.c.done)

table_home = Table(
    "table_home",
    metadata,
    build_project_column(primary_key=True),
    Column("name", String(384), primary_key=True, comment="of the table"),
    Column("host", String(256), nullable=False, comment="the machine that recorded it"),
    Column("folder", Text, nullable=False, comment="of the project, on that machine"),
    Column("place", Text, comment="of the target; NULL: not known"),
    Column("create_time", Timestamp, nullable=False, server_default=NOW),
    Column("last_update_time", Timestamp, nullable=False, server_default=NOW),
    **INNODB,
)
"""The places of the rows of a project's tables."""

batch = Table(
    "batch",
    metadata,
    Column("batch_id", Id, primary_key=True, autoincrement=True),
    Column("source_job_id", BigInteger, comment="the attempt that wrote it"),
    Column("batch_type", String(32), nullable=False, comment="window, file"),
    Column("batch_marking", LongText, comment="of a finished attempt; dates or NAME@date"),
    Column("create_time", Timestamp, nullable=False, server_default=NOW),
    build_project_column(),
    sqlite_autoincrement=True,
    **INNODB,
)
"""Source: BDRE, BATCH."""

batch_queue = Table(
    "batch_queue",
    metadata,
    Column("queue_id", Id, primary_key=True, autoincrement=True),
    Column("job_name", String(128), nullable=False, comment="the table that consumes it"),
    Column("step_id", String(64), nullable=False, comment="the step that consumes it"),
    Column("source_job_name", String(128), nullable=False, comment="the table that wrote it"),
    Column("source_batch_id", BigInteger, nullable=False),
    Column("source_job_id", BigInteger, comment="the attempt that wrote it"),
    Column("target_batch_id", BigInteger, comment="the batch that its consumer writes"),
    Column(
        "batch_state", SmallInteger, nullable=False, comment="0 new 1 processed 2 accessed 3 failed"
    ),
    Column("batch_marking", LongText, comment="dates of its data, or NAME@date; commas between"),
    Column("window_start", BigInteger, comment="the range of the producing table that it has"),
    Column("window_end", BigInteger),
    Column("insert_ts", Timestamp, nullable=False, server_default=NOW),
    Column("start_ts", Timestamp),
    Column("end_ts", Timestamp),
    build_project_column(),
    sqlite_autoincrement=True,
    **INNODB,
)
"""One row for each consumer of a batch. Source: BDRE, BATCH_CONSUMP_QUEUE."""
Index(
    "uq_batch_queue",
    batch_queue.c.job_name,
    batch_queue.c.project_id,
    batch_queue.c.source_job_name,
    batch_queue.c.source_batch_id,
    batch_queue.c.step_id,
    unique=True,
)
Index("ix_batch_queue_source", batch_queue.c.source_batch_id)
Index(
    "ix_batch_queue_target",
    batch_queue.c.job_name,
    batch_queue.c.project_id,
    batch_queue.c.target_batch_id,
)

file = Table(
    "file",
    metadata,
    Column("file_id", Id, primary_key=True, autoincrement=True),
    Column("batch_id", BigInteger, nullable=False),
    Column("server", String(128), nullable=False, comment="scheme and host; empty: this machine"),
    Column("path", Text, nullable=False),
    Column("path_digest", String(64), nullable=False, comment="SHA-256 of server and path"),
    Column("file_size", BigInteger, nullable=False),
    Column("file_hash", String(128), nullable=False, comment="of the content, or size and time"),
    Column("creation_ts", Timestamp, nullable=False, comment="last modification"),
    build_project_column(),
    sqlite_autoincrement=True,
    **INNODB,
)
"""Files that were found, one row for each version. Source: BDRE, FILE."""
Index("uq_file", file.c.path_digest, file.c.project_id, file.c.file_hash, unique=True)
Index("ix_file_batch", file.c.batch_id)


def _archive_of(table: Table) -> Table:
    """Return a table for old rows: the same columns, without a sequence and constraints."""
    of_project = [build_project_column()] if "project_id" in table.columns else []
    columns = [
        Column(c.name, c.type, primary_key=c.primary_key, autoincrement=False, nullable=c.nullable)
        for c in table.columns
        if c.name != "project_id"
    ]
    return Table(f"{table.name}_archive", metadata, *columns, *of_project, **INNODB)


job_log_archive, step_log_archive = _archive_of(job_log), _archive_of(step_log)
batch_archive = _archive_of(batch_queue)
"""Consumed batches. Source: BDRE, ARCHIVE_CONSUMP_QUEUE."""
Index(
    "ix_batch_archive_consumer",
    batch_archive.c.job_name,
    batch_archive.c.project_id,
    batch_archive.c.source_job_name,
    batch_archive.c.source_batch_id,
)
Index(
    "ix_batch_archive_newest",
    batch_archive.c.job_name,
    batch_archive.c.project_id,
    batch_archive.c.source_job_name,
    batch_archive.c.source_job_id,
)
Index("ix_batch_archive_source", batch_archive.c.source_batch_id)
Index(
    "ix_batch_archive_target",
    batch_archive.c.job_name,
    batch_archive.c.project_id,
    batch_archive.c.target_batch_id,
)
Index(
    "ix_job_log_archive_id",
    job_log_archive.c.job_schedule_id,
    job_log_archive.c.project_id,
    job_log_archive.c.attempt_number,
)
Index(
    "ix_job_log_archive_windows",
    job_log_archive.c.job_name,
    job_log_archive.c.project_id,
    job_log_archive.c.latest,
    job_log_archive.c.status,
    job_log_archive.c.window_start,
    job_log_archive.c.window_end,
    job_log_archive.c.table_version,
)
Index("ix_job_log_archive_ended", job_log_archive.c.job_end_time)
