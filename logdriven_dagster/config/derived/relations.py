"""Tables of a project as a job runs them: with the job's relations.

Many jobs can run the same table. A relation belongs to one job, and adds dependencies to a table's
`depends_on` only in runs of that job. Source: DolphinScheduler, workflow definition split.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from logdriven_dagster.config.derived.job_settings import apply_job_settings
from logdriven_dagster.config.derived.running_order import sort_by_dependencies
from logdriven_dagster.config.models.dependencies import Dependency
from logdriven_dagster.config.models.jobs import Relation, StandardJob
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project


def apply_job(project: Project, name: str | None) -> Project:
    """Return the project as a standard job runs it, or unchanged if `name` is None.

    The tables have the job's relations as further dependencies, and the job's settings as defaults.
    Raises UsageError for any other name.
    """
    if name is None:
        return project
    job = project.standard_job(name)
    tables = {key: apply_job_settings(table, job) for key, table in project.tables.items()}
    return replace(project, tables=apply_relations(tables, job))


def apply_relations(
    tables: Mapping[str, TableConfig], job: StandardJob
) -> Mapping[str, TableConfig]:
    """Return all tables with the job's relations, in running order."""
    if not job.relations:
        return tables
    waiting: dict[str, list[Dependency]] = {}
    for relation in job.relations:
        waiting.setdefault(relation.to, []).extend(_list_dependencies(relation))
    seen = {
        name: add_waits(table, waiting[name]) if name in waiting else table
        for name, table in tables.items()
    }
    return {name: seen[name] for name in sort_by_dependencies(seen)}


def add_waits(table: TableConfig, waits: Iterable[Dependency]) -> TableConfig:
    """Return the table with further dependencies that it waits for, but does not read.

    A wait with the same condition on the same windows of an upstream table is merged, keeping the
    longer delay. All other waits are added.
    """
    found = list(table.depends_on)
    for wait in waits:
        for n, known in enumerate(found):
            if not isinstance(known, Dependency) or not known.managed:
                continue
            if _get_condition(known) == _get_condition(wait):
                longer = max(known.delay, wait.delay)
                found[n] = known.model_copy(update={"delay": longer})
                break
        else:
            found.append(wait)
    return table.model_copy(update={"depends_on": tuple(found)})


def _get_condition(dependency: Dependency) -> tuple[str, str, str]:
    return dependency.table, dependency.condition, dependency.window


def _list_dependencies(relation: Relation) -> Iterable[Dependency]:
    for upstream in relation.upstream:
        yield Dependency(
            table=upstream,
            condition=relation.condition,
            delay=relation.delay,
            window=relation.window,
            read="none",
        )
