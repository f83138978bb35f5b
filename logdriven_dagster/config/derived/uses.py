"""Resources that tables use (connections, files, topics, upstreams, …); tables used by jobs."""

from collections.abc import Iterator

from logdriven_dagster.config.models.jobs import MaintenanceJob
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.model.definitions import USED_LENGTH, Kind, Use, build_code

USED_KINDS = ("connection", "source", "target", "file", "topic", "upstream", "table")
"""Kinds of used resources."""


def list_uses(project: Project) -> Iterator[Use]:
    """Yield each resource that the tables and maintenance jobs of a project use, once."""
    for table in project.tables.values():
        code = build_code(project.name, Kind.TABLE, table.table)
        for step in table.steps:
            found = dict.fromkeys(
                (kind, used[:USED_LENGTH]) for kind, used in _list_uses_of_step(table, step)
            )
            yield from (Use(code, kind, used, step.step) for kind, used in found)
        for dependency in table.depends_on:
            yield Use(code, "upstream", dependency.upstream, "")
    for job in project.jobs.values():
        if isinstance(job, MaintenanceJob):
            yield from _list_uses_of_maintenance(project, job)
        else:
            code = build_code(project.name, Kind.JOB, job.job)
            yield from (Use(code, "table", name, "") for name in dict.fromkeys(job.tables))


def _list_uses_of_maintenance(project: Project, job: MaintenanceJob) -> Iterator[Use]:
    for step in job.steps:
        code = build_code(project.name, Kind.STEP, f"{job.job}.{step.step}")
        if step.connection is not None:
            yield Use(code, "connection", step.connection, step.step)
        if step.python is not None:
            yield Use(code, "file", step.python.rpartition(":")[0][:USED_LENGTH], step.step)
        yield from (Use(code, "table", name, step.step) for name in dict.fromkeys(step.tables))


def _list_uses_of_step(table: TableConfig, step: StepConfig) -> Iterator[tuple[str, str]]:
    yield from (("connection", script.connection) for script in step.commit_before_read)
    if step.source is not None:
        yield from step.source.uses()
    if step.target is not None:
        yield from step.target.uses(table.table)
    if step.sql_file is not None:
        yield "file", step.sql_file
    if step.python is not None:
        yield "file", step.python.rpartition(":")[0]
