"""From a folder of YAML files to a `Project`, or to the list of all its mistakes."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from logdriven_dagster.config.connections import plain_secrets
from logdriven_dagster.config.documents import Document, read_document, validation_errors
from logdriven_dagster.config.models import SLICED, JobConfig, ProjectConfig, TableConfig
from logdriven_dagster.config.project import PROJECT_FILE, Project
from logdriven_dagster.config.references import UnreadableSqlError, table_references
from logdriven_dagster.config.steps import (
    CatalogTarget,
    FileTarget,
    IcebergTarget,
    JdbcSource,
    JdbcTarget,
    KafkaSource,
    KafkaTarget,
    Target,
)
from logdriven_dagster.errors import ConfigError, InvalidProjectError

_Model = TypeVar("_Model", bound=BaseModel)


def load_project(root: Path | str) -> Project:
    """Load a project folder; InvalidProjectError holds every mistake found in it."""
    root = Path(root).resolve()
    main = root / PROJECT_FILE
    if not main.is_file():
        hint = "`logdriven init FOLDER` makes a project; --project or LOGDRIVEN_PROJECT names one"
        raise InvalidProjectError([ConfigError(main, None, "", "no such file", hint)])
    loading = _Loading(root)
    config = loading.read(main, ProjectConfig, {})
    if config is None:
        raise InvalidProjectError(loading.errors)
    loading.errors += plain_secrets(loading.documents[main], config)
    loading.tables(config)
    loading.jobs()
    loading.errors += _broken_relations(loading, config)
    if loading.errors:
        raise InvalidProjectError(loading.errors)
    tables = {name: loading.found[name] for name in _running_order(loading.found)}
    files = {name: document.path for name, document in loading.origins.items()}
    return Project(root, config, tables, loading.found_jobs, files)


@dataclass
class _Loading:
    """What was read so far, and every mistake met on the way."""

    root: Path
    errors: list[ConfigError] = field(default_factory=list)
    documents: dict[Path, Document] = field(default_factory=dict)
    found: dict[str, TableConfig] = field(default_factory=dict)
    origins: dict[str, Document] = field(default_factory=dict)
    found_jobs: dict[str, JobConfig] = field(default_factory=dict)
    job_origins: dict[str, Document] = field(default_factory=dict)

    def read(
        self, path: Path, model: type[_Model], defaults: Mapping[str, Any], **context: Any
    ) -> _Model | None:
        try:
            document = read_document(path)
        except ConfigError as error:
            self.errors.append(error)
            return None
        self.documents[path] = document
        try:
            values = {**_meant_for(document.values, defaults), **document.values}
            return model.model_validate(values, context=context)
        except ValidationError as error:
            self.errors += validation_errors(document, model, error)
            return None

    def tables(self, config: ProjectConfig) -> None:
        main = self.documents[self.root / PROJECT_FILE].values
        defaults = main.get("defaults") or {}
        for path in _yaml_files(self.root / "tables", "**/*"):
            table = self.read(path, TableConfig, defaults, zone=config.timezone)
            if table is None:
                continue
            document = self.documents[path]
            twin = next((name for name in self.found if name.lower() == table.table.lower()), None)
            if twin:
                problem = (
                    f"table {table.table} is defined twice, first in {self.origins[twin].path}"
                )
                self.errors.append(document.error(("table",), problem))
                continue
            self.found[table.table] = table
            self.origins[table.table] = document

    def jobs(self) -> None:
        for path in _yaml_files(self.root / "jobs", "*"):
            job = self.read(path, JobConfig, {})
            if job is None:
                continue
            document = self.documents[path]
            if job.job in self.found_jobs:
                problem = (
                    f"job {job.job} is defined twice, first in {self.job_origins[job.job].path}"
                )
                self.errors.append(document.error(("job",), problem))
                continue
            self.found_jobs[job.job] = job
            self.job_origins[job.job] = document


def _meant_for(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults that a table can have: a sliced one neither begins nor ends at a time."""
    sliced = values.get("incremental_type") in SLICED
    of_time = ("default_start", "end", "ordered") if sliced else ()
    return {name: value for name, value in defaults.items() if name not in of_time}


def _yaml_files(folder: Path, pattern: str) -> list[Path]:
    return sorted(path for path in folder.glob(pattern) if path.suffix in (".yaml", ".yml"))


def _running_order(tables: Mapping[str, TableConfig]) -> Iterator[str]:
    """Upstreams first; among equals by name, so that the order never changes by itself."""
    sorter = TopologicalSorter(
        {
            name: [d.table for d in tables[name].depends_on if d.table in tables]
            for name in sorted(tables)
        }
    )
    sorter.prepare()
    while ready := sorted(sorter.get_ready()):
        yield from ready
        sorter.done(*ready)


def _broken_relations(loading: _Loading, config: ProjectConfig) -> Iterator[ConfigError]:
    for name, table in loading.found.items():
        document = loading.origins[name]
        yield from _broken_dependencies(table, document, loading)
        yield from _broken_steps(table, document, loading.found, config)
    for name, job in loading.found_jobs.items():
        for n, table_name in enumerate(job.tables):
            if table_name not in loading.found and not loading.errors:
                hint = _suggestion(table_name, loading.found)
                origin = loading.job_origins[name]
                yield origin.error(("tables", n), f"unknown table {table_name!r}", hint)
        if name in loading.found:
            yield loading.job_origins[name].error(("job",), "a table has the same name")
    yield from _shared_targets(loading)
    try:
        list(_running_order(loading.found))
    except CycleError as error:
        cycle = list(reversed(error.args[1]))
        document = loading.origins[cycle[0]]
        yield document.error(("depends_on",), f"a cycle of dependencies: {' → '.join(cycle)}")


def _broken_dependencies(
    table: TableConfig, document: Document, loading: _Loading
) -> Iterator[ConfigError]:
    for n, dependency in enumerate(table.depends_on):
        place = ("depends_on", n)
        known = dependency.table in loading.found
        if dependency.managed and not known and not _failed_elsewhere(dependency.table, loading):
            hint = _suggestion(dependency.table, loading.found)
            unmanaged = f"or {{table: {dependency.table}, managed: false}} if it is not ours"
            hint = f"{hint}; {unmanaged}" if hint else unmanaged.removeprefix("or ")
            yield document.error(place, f"unknown table {dependency.table!r}", hint)
        if not dependency.managed and known:
            hint = "remove managed: false"
            yield document.error(place, f"{dependency.table} is a table of this project", hint)


def _failed_elsewhere(name: str, loading: _Loading) -> bool:
    """Whether the table has a file that could not be read, which was reported already."""
    valid = {document.path for document in loading.origins.values()}
    return any(
        path not in valid and document.values.get("table") == name
        for path, document in loading.documents.items()
    )


def _broken_steps(
    table: TableConfig,
    document: Document,
    tables: Mapping[str, TableConfig],
    config: ProjectConfig,
) -> Iterator[ConfigError]:
    folder = document.path.parent
    for n, step in enumerate(table.steps):
        for part, used in (("source", step.source), ("target", step.target)):
            if isinstance(used, (JdbcSource, JdbcTarget, KafkaSource, KafkaTarget)):
                where = ("steps", n, part, "connection")
                yield from _broken_connection(used.connection, used.type, document, where, config)
        file = (step.python or "").partition(":")[0]
        if file.endswith(".py") and not (folder / file).is_file():
            yield document.error(("steps", n, "python"), f"no such file: {folder / file}")
        if step.sql_file and not (folder / step.sql_file).is_file():
            yield document.error(
                ("steps", n, "sql_file"), f"no such file: {folder / step.sql_file}"
            )
            continue
        sql = (folder / step.sql_file).read_text("utf-8") if step.sql_file else step.sql
        place = ("steps", n, "sql_file" if step.sql_file else "sql")
        yield from _undeclared_reads(table, sql, document, place, tables)
    for n, check in enumerate(table.checks):
        yield from _undeclared_reads(table, check.sql, document, ("checks", n, "sql"), tables)


def _broken_connection(
    name: str,
    kind: str,
    document: Document,
    where: tuple[str | int, ...],
    config: ProjectConfig,
) -> Iterator[ConfigError]:
    if name not in config.connections:
        hint = _suggestion(name, config.connections)
        yield document.error(where, f"unknown connection {name!r}", hint)
    elif (config.connections[name].kafka is not None) != (kind == "kafka"):
        leads = "a database" if kind == "kafka" else "Kafka"
        yield document.error(where, f"connection {name!r} leads to {leads}")


def _undeclared_reads(
    table: TableConfig,
    sql: str | None,
    document: Document,
    place: tuple[str | int, ...],
    tables: Mapping[str, TableConfig],
) -> Iterator[ConfigError]:
    """Tables that a query reads without waiting for them: they would be read half-finished."""
    if not sql:
        return
    declared = {d.table for d in table.depends_on} | {table.table}
    text = sql.lower().replace("`", "")
    suspects = [name for name in tables if name not in declared and name.lower() in text]
    if not suspects:
        return  # parsing is only needed to tell a table from a mere mention
    try:
        read = {name.lower() for name in table_references(sql)}
    except UnreadableSqlError as error:
        yield document.error(place, f"cannot read this query: {error}")
        return
    for name in suspects:
        if name.lower() in read:
            hint = f"add {name} to depends_on"
            yield document.error(place, f"reads {name}, which is not among depends_on", hint)


def _shared_targets(loading: _Loading) -> Iterator[ConfigError]:
    """Two tables that write to the same place would delete each other's rows."""
    users: dict[tuple[str, str], str] = {}
    for name, table in loading.found.items():
        for n, step in enumerate(table.steps):
            if step.target is None:
                continue
            writer = f"{name}.{step.step}"
            other = users.setdefault(_place(name, step.target), writer)
            if other != writer:
                document = loading.origins[name]
                yield document.error(("steps", n, "target"), f"{other} writes to the same target")


def _place(table: str, target: Target) -> tuple[str, str]:
    match target:
        case IcebergTarget():
            return "iceberg", (target.name or table).lower()
        case JdbcTarget():
            return "jdbc", f"{target.connection}.{target.table}".lower()
        case CatalogTarget():
            return "table", target.name.lower()
        case FileTarget():
            return "files", target.path or table.lower()
        case KafkaTarget():
            # Topics are made for many writers.
            return "kafka", f"{target.connection}.{target.topic} of {table}"


def _suggestion(name: str, names: Iterable[str]) -> str | None:
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"did you mean {near[0]!r}?" if near else None
