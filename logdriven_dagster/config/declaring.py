"""A project as the definitions that the registry keeps."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from logdriven_dagster.config.documents import Document
from logdriven_dagster.config.jobs import JobConfig, MaintenanceJob, StandardJob
from logdriven_dagster.config.loading import Sources
from logdriven_dagster.config.models import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.settings import Settings, setting_columns
from logdriven_dagster.config.uses import uses_of
from logdriven_dagster.model.definitions import Declared, Derived, Kind, canonical, code_of

_REFERENCES = ("sql_file", "python")
"""Fields that may name a file beside the one that holds them."""


def declared(sources: Sources, project: Project) -> Iterator[Declared]:
    """The project, its tables and its jobs, as the files declare them.

    A content is `values`, what the file says with the defaults of the project, `settings`, the
    operational ones as columns, and `files`, the text of every file beside it that it names, so
    that any version can run again.
    """
    yield Declared(Kind.PROJECT, project.name, canonical({"values": sources.main.values}))
    for document in sources.tables:
        table = project.tables[document.values["table"]]
        columns = {"description": table.description, "incremental_type": table.incremental_type}
        yield _declared(Kind.TABLE, table.table, document, columns, table)
    for document in sources.jobs:
        job = project.jobs[document.values["job"]]
        columns = {
            "description": job.description,
            "job_type": job.type,
            "schedule": job.schedule,
        }
        yield _declared(Kind.JOB, job.job, document, columns, job)


def derived(project: Project) -> Derived:
    """What follows from the tables and jobs: relations and steps of maintenance jobs as rows."""
    definitions = [
        *(item for table in project.tables.values() for item in _dependencies(project, table)),
        *(item for job in project.jobs.values() for item in _parts(project, job)),
    ]
    return Derived(definitions, list(uses_of(project)), [])


def in_place_of(sources: Sources, kind: Kind, contents: Mapping[str, Mapping[str, Any]]) -> Sources:
    """The sources with some definitions of the registry instead of those of the files.

    `contents` is by name; one that no file declares is added. The files that they name are below
    `.logdriven/definitions/`.
    """
    key, documents = ("table", sources.tables) if kind is Kind.TABLE else ("job", sources.jobs)
    kept = [item for item in documents if item.values.get(key) not in contents]
    added = [
        recorded(sources.root, sources.config.project, kind, name, content)
        for name, content in contents.items()
    ]
    if kind is Kind.TABLE:
        return replace(sources, tables=(*kept, *added))
    return replace(sources, jobs=(*kept, *added))


def recorded(
    root: Path, project: str, kind: Kind, name: str, content: Mapping[str, Any]
) -> Document:
    """A definition of the registry as a document, with the files that it names beside it."""
    files: Mapping[str, str] = content.get("files", {})
    code, text = code_of(project, kind, name), canonical(content)
    folder = root / ".logdriven" / "definitions" / code / Declared(kind, name, text).digest[:16]
    # As deep as paths lead upwards, so that they stay inside.
    folder /= "/".join(["in"] * max((path.split("/").count("..") for path in files), default=0))
    for path, written in files.items():
        file = folder / path
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(written, encoding="utf-8")
    return Document(folder / f"{name}.yaml", dict(content["values"]), {})


def _declared(
    kind: Kind, name: str, document: Document, columns: dict[str, Any], config: Settings
) -> Declared:
    settings = setting_columns(config)
    content: dict[str, Any] = {"values": document.values, "settings": settings}
    if files := dict(_files(document.values, document.path.parent)):
        content["files"] = files
    return Declared(kind, name, canonical(content), columns | settings)


def _files(values: Any, folder: Path) -> Iterator[tuple[str, str]]:
    """Every file that a content names, with its text."""
    if isinstance(values, dict):
        for name, value in values.items():
            if name in _REFERENCES and isinstance(value, str):
                path = value if name == "sql_file" else value.rpartition(":")[0]
                if not Path(path).is_absolute() and (folder / path).is_file():
                    yield path, (folder / path).read_text(encoding="utf-8")
            else:
                yield from _files(value, folder)
    elif isinstance(values, list):
        for value in values:
            yield from _files(value, folder)


def _dependencies(project: Project, table: TableConfig) -> Iterator[Declared]:
    for dependency in table.depends_on:
        told = dependency.model_dump(mode="json", exclude_defaults=True)
        yield _relation(
            project, None, dependency.table, table.table, told, managed=dependency.managed
        )


def _parts(project: Project, job: JobConfig) -> Iterator[Declared]:
    return _relations(project, job) if isinstance(job, StandardJob) else _steps(project, job)


def _relations(project: Project, job: StandardJob) -> Iterator[Declared]:
    for relation in job.relations:
        told = relation.model_dump(mode="json", exclude_defaults=True, exclude={"upstream"})
        for upstream in relation.upstream:
            yield _relation(project, job.job, upstream, relation.to, told, managed=True)


def _relation(
    project: Project,
    job: str | None,
    pre: str,
    post: str,
    told: Mapping[str, Any],
    *,
    managed: bool,
) -> Declared:
    """Condition types are DolphinScheduler's: 0 none, 1 judgment, 2 delay."""
    condition = {"condition": told.get("condition", "success"), "delay": told.get("delay")}
    kind = 2 if told.get("delay") else int(condition["condition"] != "success")
    columns = {
        "job_code": None if job is None else code_of(project.name, Kind.JOB, job),
        "pre_code": code_of(project.name, Kind.TABLE, pre) if managed else None,
        "pre_name": pre,
        "post_code": code_of(project.name, Kind.TABLE, post),
        "post_name": post,
        "condition_type": kind,
        "condition_params": canonical({k: v for k, v in condition.items() if v}),
    }
    place = "" if job is None else f"{job}: "
    suffix = "" if condition["condition"] == "success" else f" on {condition['condition']}"
    name = f"{place}{pre} -> {post}{suffix}"
    return Declared(Kind.RELATION, name, canonical({"values": dict(told)}), columns)


def _steps(project: Project, job: MaintenanceJob) -> Iterator[Declared]:
    for step in job.steps:
        columns = {
            "job_code": code_of(project.name, Kind.JOB, job.job),
            "exec_order": step.exec_order,
            "enabled": int(step.enabled),
        }
        content = {
            "values": step.model_dump(mode="json", exclude_defaults=True),
            "settings": {"enabled": columns["enabled"]},
        }
        yield Declared(Kind.STEP, f"{job.job}.{step.step}", canonical(content), columns)
