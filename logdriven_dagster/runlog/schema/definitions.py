"""The tables of the registry: definitions, and every version that they ever had.

Source: DolphinScheduler, workflow definition split: tables, relations and jobs are rows of their
own, each with a code and a version, and a `*_log` with every version, its author and its time.
Steps are those of maintenance jobs (Kettle, `t_etl_maint_ktr_cfg`).
"""

from typing import Any

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
    UniqueConstraint,
)

from logdriven_dagster.model.definitions import USED_LENGTH
from logdriven_dagster.runlog.schema.attempts import (
    INNODB,
    NOW,
    LongText,
    build_project_column,
    metadata,
)
from logdriven_dagster.runlog.sql.clock import Timestamp

CODE_LENGTH = 64

SETTING_CHECKS = {
    "enabled": "enabled IN (0, 1)",
    "release_state": "release_state IN ('online', 'offline')",
    "priority": "priority BETWEEN -100 AND 100",
    "retries": "retries >= 0",
    "retry_interval": "retry_interval >= 0",
    "timeout": "timeout >= 0",
    "timeout_strategy": "timeout_strategy IN ('warn', 'fail', 'both')",
}
"""CHECK constraints for settings that operators change with an SQL client."""


def _build_settings_columns() -> list[Column[Any]]:
    """Return the columns that an operator may change without a deploy: the values in force."""
    return [
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
        Column("retries", Integer, comment="retries; NULL: the job's, or none"),
        Column("retry_interval", Integer, comment="seconds"),
        Column("timeout", Integer, comment="seconds"),
        Column("timeout_strategy", String(8), comment="warn, fail, both"),
    ]


def _build_definition_tables(name: str, *columns: Column[Any]) -> tuple[Table, Table]:
    """Return a table with the latest version of each definition, and one with all versions."""
    common: list[Column[Any]] = [
        Column("version", Integer, nullable=False),
        Column("project_code", String(CODE_LENGTH), nullable=False),
        Column("name", String(384), nullable=False),
        Column("content", LongText, nullable=False, comment="JSON: the declared values"),
        Column("digest", String(64), nullable=False, comment="of the content"),
        Column(
            "file_digest",
            String(64),
            comment="of the file at the last apply; NULL: not from a file",
        ),
        Column("create_time", Timestamp, nullable=False, server_default=NOW),
        Column("update_time", Timestamp, nullable=False, server_default=NOW),
    ]
    code: Column[Any] = Column("code", String(CODE_LENGTH), primary_key=True)
    checks = [
        CheckConstraint(SETTING_CHECKS[column.name], name=f"ck_{name}_{column.name}")
        for column in columns
        if column.name in SETTING_CHECKS
    ]
    latest = Table(f"{name}_definition", metadata, code, *common, *columns, *checks, **INNODB)
    Index(f"uq_{name}_definition", latest.c.project_code, latest.c.name, unique=True)
    versions = Table(
        f"{name}_definition_log",
        metadata,
        Column("code", String(CODE_LENGTH), primary_key=True),
        Column("version", Integer, primary_key=True, autoincrement=False),
        *(
            Column(c.name, c.type, nullable=c.nullable)
            for c in latest.columns
            if c.name not in ("code", "version")
        ),
        Column("operation", String(8), nullable=False, comment="add, modify, delete"),
        Column("operator", String(256), nullable=False, comment="the operator"),
        Column("operation_time", Timestamp, nullable=False, server_default=NOW),
        Column("reason", Text, comment="apply, set, rollback to 3, import of …, an SQL client"),
        **INNODB,
    )
    return latest, versions


table_rename = Table(
    "table_rename",
    metadata,
    build_project_column(primary_key=True),
    Column("renamed_from", String(384), primary_key=True, comment="the earlier name"),
    Column("name", String(384), nullable=False, comment="of the table"),
    Column("version", Integer, comment="of table_definition, the last with the earlier name"),
    Column("job_id", BigInteger, nullable=False, comment="the last with the earlier name"),
    Column("moved", SmallInteger, nullable=False, comment="1: its rows are in the new place"),
    Column("create_time", Timestamp, nullable=False, server_default=NOW),
    **INNODB,
)
"""The earlier names of tables. A rename is finished when the rows have followed (`moved`)."""

project_definition, project_definition_log = _build_definition_tables("project")
table_definition, table_definition_log = _build_definition_tables(
    "table",
    Column("description", Text),
    Column("incremental_type", String(16), nullable=False),
    *_build_settings_columns(),
    Column(
        "effect_version",
        Integer,
        comment="the first version with the same effect on rows; NULL: this one",
    ),
    Column("effect_change", Text, comment="the change since the version before, in words"),
)
job_definition, job_definition_log = _build_definition_tables(
    "job",
    Column("description", Text),
    Column("job_type", String(16), nullable=False, comment="standard, maintenance"),
    Column("schedule", String(128), comment="a cron expression"),
    *_build_settings_columns(),
)
relation_definition, relation_definition_log = _build_definition_tables(
    "relation",
    Column("job_code", String(CODE_LENGTH), comment="NULL: of the table, in every job"),
    Column("pre_code", String(CODE_LENGTH), comment="NULL: the upstream is not managed"),
    Column("pre_name", String(256), nullable=False),
    Column("post_code", String(CODE_LENGTH), nullable=False),
    Column("post_name", String(256), nullable=False),
    Column("condition_type", SmallInteger, nullable=False, comment="0 none 1 judgment 2 delay"),
    Column("condition_params", Text, comment='JSON: {"condition": "failure", "delay": 1800}'),
)
Index("ix_relation_pre", relation_definition.c.pre_code)
Index("ix_relation_post", relation_definition.c.post_code)
Index("ix_relation_job", relation_definition.c.job_code)
step_definition, step_definition_log = _build_definition_tables(
    "step",
    Column("job_code", String(CODE_LENGTH), nullable=False),
    Column("exec_order", Integer, nullable=False),
    Column("enabled", SmallInteger, nullable=False, server_default="1"),
)
"""Steps of maintenance jobs. Source: Kettle, `unq_kjb_name_exec_order`."""
Index("uq_step_exec_order", step_definition.c.job_code, step_definition.c.exec_order, unique=True)

definition_use = Table(
    "definition_use",
    metadata,
    Column("project_code", String(CODE_LENGTH), nullable=False),
    Column("code", String(CODE_LENGTH), primary_key=True, comment="the table, job or step"),
    Column("kind", String(16), primary_key=True, comment="connection, topic, table, …"),
    Column("used", String(USED_LENGTH), primary_key=True, comment="its name"),
    Column("step_id", String(64), primary_key=True),
    **INNODB,
)
"""Objects that the steps of the latest versions use: one indexed query finds the users of one."""
Index(
    "ix_definition_use",
    definition_use.c.project_code,
    definition_use.c.kind,
    definition_use.c.used,
)

table_property = Table(
    "table_property",
    metadata,
    Column("project_code", String(CODE_LENGTH), nullable=False),
    Column("code", String(CODE_LENGTH), nullable=False, comment="the table's"),
    Column("config_group", String(128), nullable=False),
    Column("name", String(128), nullable=False),
    Column("value", Text, nullable=False),
    UniqueConstraint("code", "config_group", "name", name="uq_table_property"),
    **INNODB,
)
"""Parameters of the latest versions, by group. Source: BDRE, PROPERTIES."""
Index("ix_table_property_project", table_property.c.project_code)
