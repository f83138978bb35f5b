"""Conversion of a project into the definitions that the registry keeps."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from logdriven_dagster.config.derived.contents import declare_content, write_registered
from logdriven_dagster.config.derived.uses import list_uses
from logdriven_dagster.config.models.code_files import find_named_files
from logdriven_dagster.config.models.dependencies import Dependency
from logdriven_dagster.config.models.jobs import (
    JobConfig,
    MaintenanceJob,
    StandardJob,
)
from logdriven_dagster.config.models.settings import Settings, build_setting_columns
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.project_files import ProjectFiles
from logdriven_dagster.config.yaml.documents import Document, read_text
from logdriven_dagster.model.definitions import (
    Declared,
    Derived,
    Kind,
    build_code,
    serialize_canonical,
)


def declare_all(sources: ProjectFiles, project: Project) -> Iterator[Declared]:
    """Yield the project, its tables and its jobs, as the files declare them.

    A content consists of `values` (the file with the project's defaults), `settings` (operational
    settings as columns) and `files` (the text of every file that it names), so that any version can
    run again.
    """
    yield declare_content(Kind.PROJECT, project.name, {"values": sources.main.values})
    for document in sources.tables:
        table = project.tables[document.values["table"]]
        columns = {"description": table.description, "incremental_type": table.incremental_type}
        yield _declare(Kind.TABLE, table.table, document, columns, table)
    for document in sources.jobs:
        job = project.jobs[document.values["job"]]
        columns = {
            "description": job.description,
            "job_type": job.type,
            "schedule": job.schedule,
        }
        yield _declare(Kind.JOB, job.job, document, columns, job)


def derive_definitions(project: Project) -> Derived:
    """Return derived definitions: relations and maintenance steps as rows, uses and properties."""
    definitions = [
        *(item for table in project.tables.values() for item in _list_dependencies(project, table)),
        *(item for job in project.jobs.values() for item in _list_parts(project, job)),
    ]
    properties = [
        row for table in project.tables.values() for row in _list_properties(project, table)
    ]
    return Derived(definitions, list(list_uses(project)), properties)


def replace_definitions(
    sources: ProjectFiles,
    kind: Kind,
    contents: Mapping[str, Mapping[str, Any]],
    labels: Mapping[str, str] | None = None,
) -> ProjectFiles:
    """Return the files with some definitions replaced by versions from the registry.

    `contents` maps names to registered contents; names that no file declares are added. Their files
    are below `sources.recorded_in`. `labels` describe the version in error messages. Raises
    InvalidProjectError for a content whose files lie outside of it.
    """
    key, documents = ("table", sources.tables) if kind is Kind.TABLE else ("job", sources.jobs)
    kept = [item for item in documents if item.values.get(key) not in contents]
    project = sources.config.project
    added = [
        write_registered(
            sources.recorded_in, project, kind, name, content, label=(labels or {}).get(name)
        )
        for name, content in contents.items()
    ]
    if kind is Kind.TABLE:
        return replace(sources, tables=(*kept, *added))
    return replace(sources, jobs=(*kept, *added))


def _declare(
    kind: Kind, name: str, document: Document, columns: dict[str, Any], config: Settings
) -> Declared:
    settings = build_setting_columns(config)
    content: dict[str, Any] = {"values": document.values, "settings": settings}
    if files := dict(_read_files(document.values, document.path.parent)):
        content["files"] = files
    return declare_content(kind, name, content, columns | settings)


def _read_files(values: Any, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield every file that a content names, with its text."""
    for path in find_named_files(values):
        if not Path(path).is_absolute() and (folder / path).is_file():
            yield path, read_text(folder / path)


def _list_properties(project: Project, table: TableConfig) -> Iterator[dict[str, str]]:
    code = build_code(project.name, Kind.TABLE, table.table)
    for group, values in project.get_unresolved_properties(table).items():
        for name, value in values.items():
            yield {"code": code, "config_group": group, "name": name, "value": value}


def _list_dependencies(project: Project, table: TableConfig) -> Iterator[Declared]:
    for dependency in table.depends_on:
        fields = dependency.model_dump(mode="json", exclude_defaults=True)
        managed = isinstance(dependency, Dependency) and dependency.managed
        yield _build_relation(
            project, None, dependency.upstream, table.table, fields, managed=managed
        )


def _list_parts(project: Project, job: JobConfig) -> Iterator[Declared]:
    return (
        _list_relations(project, job) if isinstance(job, StandardJob) else _list_steps(project, job)
    )


def _list_relations(project: Project, job: StandardJob) -> Iterator[Declared]:
    for relation in job.relations:
        fields = relation.model_dump(mode="json", exclude_defaults=True, exclude={"upstream"})
        for upstream in relation.upstream:
            yield _build_relation(project, job.job, upstream, relation.to, fields, managed=True)


def _build_relation(
    project: Project,
    job: str | None,
    pre: str,
    post: str,
    fields: Mapping[str, Any],
    *,
    managed: bool,
) -> Declared:
    """Return a relation as a registry row.

    Condition types are DolphinScheduler's: 0 none, 1 judgment, 2 delay.
    """
    condition = {"condition": fields.get("condition", "success"), "delay": fields.get("delay")}
    kind = 2 if fields.get("delay") else int(condition["condition"] != "success")
    columns = {
        "job_code": None if job is None else build_code(project.name, Kind.JOB, job),
        "pre_code": build_code(project.name, Kind.TABLE, pre) if managed else None,
        "pre_name": pre,
        "post_code": build_code(project.name, Kind.TABLE, post),
        "post_name": post,
        "condition_type": kind,
        "condition_params": serialize_canonical({k: v for k, v in condition.items() if v}),
    }
    place = "" if job is None else f"{job}: "
    suffix = "" if condition["condition"] == "success" else f" on {condition['condition']}"
    name = f"{place}{pre} -> {post}{suffix}"
    return Declared(Kind.RELATION, name, serialize_canonical({"values": dict(fields)}), columns)


def _list_steps(project: Project, job: MaintenanceJob) -> Iterator[Declared]:
    for step in job.steps:
        columns = {
            "job_code": build_code(project.name, Kind.JOB, job.job),
            "exec_order": step.exec_order,
            "enabled": int(step.enabled),
        }
        content = {
            "values": step.model_dump(mode="json", exclude_defaults=True),
            "settings": {"enabled": columns["enabled"]},
        }
        yield Declared(Kind.STEP, f"{job.job}.{step.step}", serialize_canonical(content), columns)
