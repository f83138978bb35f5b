"""The tables of a project as one job sees them: with the job's relations.

Tables are reusable by many jobs; a relation belongs to one, and says only in its runs what a table
waits for besides its own `depends_on`. Source: DolphinScheduler, workflow definition split.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from logdriven_dagster.config.derived.job_settings import in_job
from logdriven_dagster.config.derived.running_order import running_order
from logdriven_dagster.config.models.dependencies import Dependency
from logdriven_dagster.config.models.jobs import Relation, StandardJob
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project


def project_of_job(project: Project, name: str | None) -> Project:
    """The project as a standard job sees it, or as it is for no job; UsageError for another name.

    What the tables are is the same; only what they wait for is more, and what they do not set
    themselves is the job's.
    """
    if name is None:
        return project
    job = project.standard_job(name)
    tables = {key: in_job(table, job) for key, table in project.tables.items()}
    return replace(project, tables=tables_of_job(tables, job))


def tables_of_job(tables: Mapping[str, TableConfig], job: StandardJob) -> Mapping[str, TableConfig]:
    """All tables with the job's relations, in running order: upstreams and `from` first."""
    if not job.relations:
        return tables
    waiting: dict[str, list[Dependency]] = {}
    for relation in job.relations:
        waiting.setdefault(relation.to, []).extend(_dependencies(relation))
    seen = {
        name: also_waiting(table, waiting[name]) if name in waiting else table
        for name, table in tables.items()
    }
    return {name: seen[name] for name in running_order(seen)}


def also_waiting(table: TableConfig, waits: Iterable[Dependency]) -> TableConfig:
    """Return the table, waiting for more; what it reads stays the same.

    All must hold: the same condition on the same windows of an upstream is one, with the longer
    delay; of other conditions each is there by itself.
    """
    found = list(table.depends_on)
    for wait in waits:
        for n, known in enumerate(found):
            if not isinstance(known, Dependency) or not known.managed:
                continue
            if _condition(known) == _condition(wait):
                longer = max(known.delay, wait.delay)
                found[n] = known.model_copy(update={"delay": longer})
                break
        else:
            found.append(wait)
    return table.model_copy(update={"depends_on": tuple(found)})


def _condition(dependency: Dependency) -> tuple[str, str, str]:
    return dependency.table, dependency.condition, dependency.window


def _dependencies(relation: Relation) -> Iterable[Dependency]:
    for upstream in relation.upstream:
        yield Dependency(
            table=upstream,
            condition=relation.condition,
            delay=relation.delay,
            window=relation.window,
            read="none",
        )
