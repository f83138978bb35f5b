"""The tables of observations made with attempts: runs of jobs, quality, lineage, messages."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    SmallInteger,
    String,
    Table,
    Text,
)

from logdriven_dagster.runlog.schema.attempts import (
    INNODB,
    NOW,
    Id,
    LongText,
    build_project_column,
    metadata,
)
from logdriven_dagster.runlog.sql.clock import Timestamp

job_run = Table(
    "job_run",
    metadata,
    Column("job_run_id", Id, primary_key=True, autoincrement=True),
    Column("job_code", String(64), nullable=False),
    Column("job_name", String(256), nullable=False),
    Column("job_type", String(16), nullable=False, comment="standard, maintenance"),
    Column("job_version", Integer, comment="of job_definition, as the run has it"),
    Column("project_name", String(256)),
    Column("status", String(32), nullable=False, comment="RUNNING, SUCCESS, FAILURE, DISCARDED"),
    Column("begin_time", Timestamp, nullable=False, server_default=NOW),
    Column("end_time", Timestamp),
    Column("run_trigger", String(16), comment="manual, schedule, sensor"),
    Column("parameters", LongText, comment="JSON: the global parameters, secrets as names"),
    Column("error", Text),
    Column("owner", String(256), comment="host:pid:process start"),
    Column("dagster_run_id", String(64)),
    Column("running", SmallInteger, comment="1 while it is RUNNING, else NULL"),
    Column("fencing_token", BigInteger),
    Column("heartbeat_at", Timestamp),
    Column("lease_expires_at", Timestamp),
    Column("blocked", LongText, comment="a line for each blocked table, with the reason"),
    build_project_column(),
    CheckConstraint(
        "status IN ('RUNNING', 'SUCCESS', 'FAILURE', 'DISCARDED')", name="ck_job_run_status"
    ),
    sqlite_autoincrement=True,
    **INNODB,
)
"""The log of jobs. Source: Kettle, `t_etl_kjb_log`."""
# One run of a job at a time: NULLs differ from each other in a unique index.
Index(
    "uq_job_run_running",
    job_run.c.job_code,
    job_run.c.project_id,
    job_run.c.running,
    unique=True,
)
Index("ix_job_run_name", job_run.c.job_name, job_run.c.job_run_id)
Index("ix_job_run_begin", job_run.c.begin_time)
Index("ix_job_run_code", job_run.c.job_code, job_run.c.project_id, job_run.c.job_run_id)
Index("ix_job_run_open", job_run.c.running)
Index("ix_job_run_dagster", job_run.c.dagster_run_id, job_run.c.job_run_id)

job_run_step = Table(
    "job_run_step",
    metadata,
    Column("job_run_id", BigInteger, primary_key=True, autoincrement=False),
    Column("exec_order", Integer, primary_key=True, autoincrement=False),
    Column("step_id", String(64), nullable=False),
    Column("status", String(32), nullable=False, comment="READY, then the status of the run"),
    Column("begin_time", Timestamp, comment="NULL: not started"),
    Column("end_time", Timestamp),
    Column("row_count", BigInteger, nullable=False, server_default="0"),
    Column("error_count", Integer, nullable=False, server_default="0", comment="failed attempts"),
    Column("output", LongText),
    Column("error", Text),
    **INNODB,
)
"""The steps of a maintenance job's run. Source: Kettle, `t_etl_tbl_log`."""

source_audit = Table(
    "source_audit",
    metadata,
    build_project_column(primary_key=True),
    Column("job_name", String(128), primary_key=True, comment="the table's name"),
    Column("step_id", String(64), primary_key=True),
    Column("looked_at", Timestamp, nullable=False, server_default=NOW),
    Column("digest", String(64), comment="of the settings, and of files without rows here"),
    Column("row_count", BigInteger, nullable=False, comment="all rows of the step's source"),
    Column("null_count", BigInteger, nullable=False, comment="NULL in the column of the window"),
    Column("before_count", BigInteger, nullable=False, comment="before the first window"),
    Column("after_count", BigInteger, nullable=False, comment="after the last window"),
    Column("future_count", BigInteger, nullable=False, comment="from the data clock on"),
    Column("done_count", BigInteger, comment="in finished windows; NULL: not counted"),
    Column("read_count", BigInteger, comment="the rows that those read; NULL: not comparable"),
    **INNODB,
)
"""The place of source rows at the last audit."""

source_file = Table(
    "source_file",
    metadata,
    build_project_column(primary_key=True),
    Column("job_name", String(128), primary_key=True, comment="the table's name"),
    Column("step_id", String(64), primary_key=True),
    Column("path_digest", String(64), primary_key=True, comment="SHA-256 of the path"),
    Column("path", Text, nullable=False),
    Column("location", Text, nullable=False, comment="its name in Spark; empty without rows"),
    Column("file_size", BigInteger, nullable=False),
    Column("changed_ns", BigInteger, nullable=False, comment="its last change; <= 0: not counted"),
    Column("modified_ns", BigInteger, nullable=False, comment="of its content, since 1970"),
    Column("row_count", BigInteger, nullable=False),
    Column("null_count", BigInteger, nullable=False, comment="as in source_audit"),
    Column("before_count", BigInteger, nullable=False),
    Column("after_count", BigInteger, nullable=False),
    Column("first_position", String(64), comment="JSON: the least time; microseconds or raw"),
    Column("last_position", String(64), comment="JSON: the greatest time"),
    Column("footer", LongText, comment="JSON: types of the columns, by the package that read them"),
    **INNODB,
)
"""The rows of source files by window, as of `source_audit`: which files a window has to read."""

source_change = Table(
    "source_change",
    metadata,
    Column("change_id", Id, primary_key=True, autoincrement=True),
    Column("job_name", String(128), nullable=False, comment="the table's name"),
    Column("step_id", String(64), nullable=False),
    Column("file_change", String(16), nullable=False, comment="changed, new, gone"),
    Column("path", Text, nullable=False, comment="one of the files"),
    Column("file_count", BigInteger, nullable=False),
    Column("window_start", BigInteger, nullable=False, comment="epoch seconds"),
    Column("window_end", BigInteger, nullable=False),
    Column("job_id", BigInteger, nullable=False, comment="the last attempt with the old files"),
    Column("create_time", Timestamp, nullable=False, server_default=NOW),
    Column("done", SmallInteger, comment="1 if no window is left, else NULL"),
    build_project_column(),
    sqlite_autoincrement=True,
    **INNODB,
)
"""Changes of source files after windows had read them: these windows are out of date."""
Index(
    "ix_source_change", source_change.c.job_name, source_change.c.project_id, source_change.c.done
)

quality_check_log = Table(
    "quality_check_log",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("job_id", BigInteger, nullable=False),
    Column("job_name", String(128), nullable=False, comment="the table's name"),
    Column("step_id", String(64), nullable=False),
    Column("column", String(256), comment="NULL: the rule is about whole rows"),
    Column("data_check_type", String(256), nullable=False, comment="the rule"),
    Column("ids", LongText, comment="JSON: the keys of the first 1,000 rows"),
    Column("error_type", String(16), nullable=False, comment="warn, error"),
    Column("warn_count", BigInteger, nullable=False, server_default="0"),
    Column("error_count", BigInteger, nullable=False, server_default="0"),
    Column("checked_count", BigInteger, comment="rows that were checked"),
    Column("create_time", Timestamp, nullable=False, server_default=NOW),
    Column("last_update_time", Timestamp, nullable=False, server_default=NOW),
    build_project_column(),
    sqlite_autoincrement=True,
    **INNODB,
)
"""Source: Sharp ETL, `quality_check_log`."""
Index("ix_quality_check_log_job", quality_check_log.c.job_id)
Index(
    "ix_quality_check_log_name",
    quality_check_log.c.job_name,
    quality_check_log.c.project_id,
    quality_check_log.c.id,
)

process_log = Table(
    "process_log",
    metadata,
    Column("log_id", Id, primary_key=True, autoincrement=True),
    Column("add_ts", Timestamp, nullable=False, server_default=NOW),
    Column("job_name", String(128), nullable=False),
    Column("log_category", String(32), nullable=False, comment="quality, …"),
    Column("message_id", String(128), nullable=False),
    Column("message", LongText),
    Column("job_id", BigInteger, comment="the attempt"),
    sqlite_autoincrement=True,
    **INNODB,
)
"""Numbers and texts about an attempt, by category. Source: BDRE, PROCESS_LOG."""
Index("ix_process_log", process_log.c.job_id, process_log.c.log_category)

lineage_query = Table(
    "lineage_query",
    metadata,
    Column("query_id", Id, primary_key=True, autoincrement=True),
    Column("digest", String(64), nullable=False, comment="of table, step, text and columns"),
    Column("job_name", String(128), nullable=False),
    Column("step_id", String(64), nullable=False),
    Column("query_type", String(16), nullable=False, comment="spark, source, python"),
    Column("query_string", LongText, nullable=False),
    Column("container_node_id", BigInteger, comment="the owner of its columns"),
    Column("absent", Text, comment="the reason why lineage is unknown or incomplete"),
    Column("create_ts", Timestamp, nullable=False, server_default=NOW),
    build_project_column(),
    sqlite_autoincrement=True,
    **INNODB,
)
"""Queries whose lineage is known, each once. Source: BDRE, LINEAGE_QUERY."""
Index("uq_lineage_query", lineage_query.c.digest, lineage_query.c.project_id, unique=True)
Index(
    "ix_lineage_query_step",
    lineage_query.c.job_name,
    lineage_query.c.project_id,
    lineage_query.c.step_id,
)
Index("ix_lineage_query_result", lineage_query.c.container_node_id)

lineage_run = Table(
    "lineage_run",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False, comment="the attempt"),
    Column("query_id", BigInteger, primary_key=True, autoincrement=False),
    **INNODB,
)
"""The attempts that ran a query. Source: BDRE, `instance_exec_id` of LINEAGE_QUERY."""
Index("ix_lineage_run_query", lineage_run.c.query_id, lineage_run.c.job_id)

lineage_node = Table(
    "lineage_node",
    metadata,
    Column("node_id", Id, primary_key=True, autoincrement=True),
    Column("node_type", String(16), nullable=False, comment="table, column, function, temp"),
    Column("container_node_id", BigInteger, comment="of a column: its table"),
    Column("display_name", String(512), nullable=False),
    Column("digest", String(64), nullable=False, comment="of type and full name"),
    build_project_column(),
    sqlite_autoincrement=True,
    **INNODB,
)
"""Source: BDRE, LINEAGE_NODE."""
Index("uq_lineage_node", lineage_node.c.digest, lineage_node.c.project_id, unique=True)

lineage_relation = Table(
    "lineage_relation",
    metadata,
    Column("relation_id", Id, primary_key=True, autoincrement=True),
    Column("query_id", BigInteger, nullable=False),
    Column("src_node_id", BigInteger, comment="NULL: no source, as for a constant"),
    Column("target_node_id", BigInteger, nullable=False),
    sqlite_autoincrement=True,
    **INNODB,
)
"""The origin of a column: a column, the rows of a table, a function, or an intermediate result.

Source: BDRE, LINEAGE_RELATION.
"""
Index("ix_lineage_relation_query", lineage_relation.c.query_id)
Index("ix_lineage_relation_src", lineage_relation.c.src_node_id)
Index("ix_lineage_relation_target", lineage_relation.c.target_node_id)

notification_log = Table(
    "notification_log",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("digest", String(64), nullable=False, comment="of recipient, subject and job_id"),
    Column("recipient", String(64), nullable=False, comment="a recipient's name, not an address"),
    Column("subject_type", String(16), nullable=False, comment="table, job"),
    Column("subject", String(256), nullable=False, comment="the name of the table or job"),
    Column("event", String(16), nullable=False, comment="failure, recovery, success"),
    Column("job_id", BigInteger, nullable=False, comment="the attempt, or the run of a job"),
    Column("owner", String(256), comment="the run that collects it; NULL: any process"),
    Column(
        "due_time", Timestamp, nullable=False, comment="when other processes than the owner send it"
    ),
    Column("sending", String(32), comment="the message that it is part of"),
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("sent_time", Timestamp),
    Column("error", Text, comment="the error of the last attempt to send it"),
    Column("create_time", Timestamp, nullable=False, server_default=NOW),
    build_project_column(),
    sqlite_autoincrement=True,
    **INNODB,
)
"""Notices for recipients: each row is written by the transaction that records the fact, and sent
later.

An outbox, so that a crash neither loses nor repeats a notice.
"""
Index("uq_notification_log", notification_log.c.digest, notification_log.c.project_id, unique=True)
Index("ix_notification_log_unsent", notification_log.c.sent_time, notification_log.c.create_time)
Index("ix_notification_log_sending", notification_log.c.sending)
