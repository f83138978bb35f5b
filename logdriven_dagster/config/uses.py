"""What the steps of a project use: connections, sources, targets, files, topics, upstreams."""

from collections.abc import Iterator

from logdriven_dagster.config.jobs import MaintenanceJob
from logdriven_dagster.config.models import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.steps import (
    CatalogSource,
    CatalogTarget,
    FileTarget,
    IcebergTarget,
    JdbcSource,
    JdbcTarget,
    KafkaSource,
    KafkaTarget,
    Source,
    StepConfig,
    Target,
)
from logdriven_dagster.model.definitions import Kind, Use, code_of

USED_KINDS = ("connection", "source", "target", "file", "topic", "upstream")
"""The kinds of what can be used."""


def uses_of(project: Project) -> Iterator[Use]:
    """Everything that the tables and the maintenance jobs of a project use, each once."""
    for table in project.tables.values():
        code = code_of(project.name, Kind.TABLE, table.table)
        for step in table.steps:
            found = dict.fromkeys(_of_step(table, step))
            yield from (Use(code, kind, used, step.step) for kind, used in found)
        for dependency in table.depends_on:
            yield Use(code, "upstream", dependency.table, "")
    for job in project.jobs.values():
        if isinstance(job, MaintenanceJob):
            for item in job.steps:
                code = code_of(project.name, Kind.STEP, f"{job.job}.{item.step}")
                if item.connection is not None:
                    yield Use(code, "connection", item.connection, item.step)
                if item.python is not None:
                    yield Use(code, "file", item.python.rpartition(":")[0], item.step)


def _of_step(table: TableConfig, step: StepConfig) -> Iterator[tuple[str, str]]:
    if step.source is not None:
        yield from _of_source(step.source)
    if step.target is not None:
        yield from _of_target(table, step.target)
    if step.sql_file is not None:
        yield "file", step.sql_file
    if step.python is not None:
        yield "file", step.python.rpartition(":")[0]


def _of_source(source: Source) -> Iterator[tuple[str, str]]:
    match source:
        case JdbcSource():
            yield "connection", source.connection
            if source.table is not None:
                yield "source", source.table
        case KafkaSource():
            yield "connection", source.connection
            yield from (("topic", topic) for topic in source.topics)
        case CatalogSource():
            yield "source", source.name
        case _:
            yield "source", source.path


def _of_target(table: TableConfig, target: Target) -> Iterator[tuple[str, str]]:
    match target:
        case JdbcTarget():
            yield "connection", target.connection
            yield "target", target.table
        case KafkaTarget():
            yield "connection", target.connection
            yield "topic", target.topic
        case IcebergTarget():
            yield "target", target.name or table.table
        case CatalogTarget():
            yield "target", target.name
        case FileTarget():
            yield "target", target.path or table.table
