"""A loaded and validated project folder, with access to its tables, jobs and connections."""

import difflib
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy.engine import URL

from logdriven_dagster.config.connections import (
    Connection,
    build_database_url,
    find_driver,
    open_connection,
    resolve_connection_settings,
)
from logdriven_dagster.config.locations import (
    as_path,
    get_local_folder,
    is_remote,
    resolve_location,
)
from logdriven_dagster.config.models.frozen import Option
from logdriven_dagster.config.models.jobs import JobConfig, StandardJob
from logdriven_dagster.config.models.project import ProjectConfig
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.connections import ConnectionConfig, ConnectionType
from logdriven_dagster.config.properties import format_option, query_of
from logdriven_dagster.config.secrets import resolve
from logdriven_dagster.errors import ConfigError, UsageError
from logdriven_dagster.model.definitions import Kind, build_code

PROJECT_FILE = "logdriven.yaml"
_REFERENCE = re.compile(r"\$\{(\w+)\}")
REMOTE_VARIABLE = "LOGDRIVEN_SPARK_REMOTE"
_IS_BRANCH = "DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT"
"""Environment variable that Dagster+ sets to 1 in branch deployments."""


@dataclass(frozen=True)
class Project:
    """A valid project. Tables and jobs are in running order: upstream tables first."""

    root: Path
    config: ProjectConfig
    tables: Mapping[str, TableConfig]
    jobs: Mapping[str, JobConfig]
    files: Mapping[str, Path]
    """YAML file of each table."""
    job_files: Mapping[str, Path] = field(default_factory=dict)
    """YAML file of each job."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """Registered version of each definition by code; empty before the project is registered."""
    effect_versions: Mapping[str, int] = field(default_factory=dict)
    """The first version with the same effect as each table's version, by code."""
    other_versions: Mapping[str, str] = field(default_factory=dict)
    """Description of the version in use, for tables that do not run the version of their file."""
    renamed_fields: tuple[ConfigError, ...] = ()
    """Hints about former names of fields in the files."""
    states: Mapping[str, Callable[[], Collection[str]]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """Functions that return the tables in a state, by the word that selects them: `changed`, …

    They read the run log, so they are called only for a selection that names the state.
    """
    registering: "Callable[[Any], Project] | None" = field(default=None, compare=False, repr=False)
    """Function that registers the files in a run log before a run, or None if that is done."""

    @property
    def name(self) -> str:
        return self.config.project

    @property
    def zone(self) -> ZoneInfo:
        return self.config.timezone

    @cached_property
    def run_log_url(self) -> URL:
        """The run log's URL, secrets resolved; `LOGDRIVEN_RUN_LOG` overrides the project file.

        Raises UsageError in a branch deployment of Dagster+ that would use the production run log.
        """
        given = os.environ.get("LOGDRIVEN_RUN_LOG")
        text = given or self.config.run_log
        if not given and "${env:" not in text and os.environ.get(_IS_BRANCH) == "1":
            fix = "set LOGDRIVEN_RUN_LOG for branch deployments"
            raise UsageError(f"run_log: a branch deployment must have its own run log; {fix}")
        try:
            return build_database_url(text, self.root)
        except UsageError as error:
            raise UsageError(f"run_log: {error}") from None

    @cached_property
    def warehouse(self) -> str:
        """The location of stored tables. Raises UsageError for an unsupported object store."""
        try:
            text = self._resolve_text("warehouse", self.config.warehouse)
            return resolve_location(text) if is_remote(text) else self._find_local_warehouse(text)
        except ValueError as error:
            raise UsageError(f"warehouse: {error}") from None

    def _find_local_warehouse(self, text: str) -> str:
        return resolve_location((self.root / get_local_folder(text)).resolve())

    @property
    def spark_remote(self) -> str:
        """Spark's address, as in `spark.remote`; `LOGDRIVEN_SPARK_REMOTE` overrides it."""
        return os.environ.get(REMOTE_VARIABLE) or self.config.spark.remote

    @property
    def staging(self) -> str:
        """The location of temporary rows: staged, or to be copied to another store."""
        return f"{self.warehouse}/_staging"

    @cached_property
    def storage(self) -> Mapping[str, str]:
        """Properties of object stores for PyIceberg, with secrets resolved."""
        given = self.resolve_options(self.config.storage, "storage")
        return {name: format_option(value) for name, value in given.items()}

    @property
    def uses_object_stores(self) -> bool:
        """True if the warehouse or the `storage` settings refer to an object store."""
        return bool(self.config.storage) or is_remote(self.warehouse)

    @cached_property
    def catalog(self) -> Mapping[str, str]:
        """The properties of the Iceberg catalog, with secrets resolved.

        Raises UsageError for a warehouse in an object store without a catalog.
        """
        given = self.config.catalog
        if isinstance(given, dict):
            found = self.resolve_options(given, "catalog")
            return {name: format_option(value) for name, value in found.items()}
        if given is None and is_remote(self.warehouse):
            raise UsageError(
                f"catalog: missing; Iceberg tables in {self.warehouse} need one, such as "
                "{type: rest, uri: https://…} or the URL of a database"
            )
        return {"type": "sql", "uri": given or f"sqlite:///{as_path(self.warehouse)}/catalog.db"}

    @cached_property
    def catalog_url(self) -> URL | None:
        """The database of an SQL catalog, or None for other types of catalogs."""
        if self.catalog.get("type") != "sql":
            return None
        try:
            return build_database_url(self.catalog["uri"], self.root)
        except UsageError as error:
            raise UsageError(f"catalog: {error}") from None

    def table(self, name: str) -> TableConfig:
        """Return a table by name. Raises UsageError, with the closest name, if there is none."""
        if name in self.tables:
            return self.tables[name]
        raise UsageError(
            f"unknown table {name!r} in project {self.name}" + suggest_nearest(name, self.tables)
        )

    @cached_property
    def rerun_behind(self) -> Mapping[str, list[str]]:
        """Upstream table → the tables whose windows wait for its own and run again after them."""
        found: dict[str, list[str]] = {}
        for name, table in self.tables.items():
            if table.on_upstream_refresh == "rerun" and not table.is_sliced:
                for dependency in table.managed_dependencies:
                    if dependency.is_input and dependency.window == "overlapping":
                        found.setdefault(dependency.table, []).append(name)
        return found

    def version(self, kind: Kind, name: str) -> int | None:
        """Return the registered version of a table or job, or None before registration."""
        return self.versions.get(build_code(self.name, kind, name))

    def effect_version(self, table: str) -> int:
        """Return the first version of a table that has the effect of the version in force."""
        return self.effect_versions.get(build_code(self.name, Kind.TABLE, table), 1)

    def with_tables(self, tables: Mapping[str, TableConfig]) -> "Project":
        """Return a copy of the project with some tables replaced."""
        return replace(self, tables={**self.tables, **tables})

    def job(self, name: str) -> JobConfig:
        """Return a job by name. Raises UsageError, with the closest name, if there is none."""
        if name in self.jobs:
            return self.jobs[name]
        if not name:
            raise UsageError("the job has no name")
        raise UsageError(
            f"unknown job {name!r} in project {self.name}" + suggest_nearest(name, self.jobs)
        )

    def standard_job(self, name: str) -> StandardJob:
        """Return a standard job by name. Raises UsageError for a job of another type."""
        job = self.job(name)
        if not isinstance(job, StandardJob):
            raise UsageError(f"{name} is a {job.type} job, not a standard job")
        return job

    def connection(self, name: str) -> Connection:
        """Return a connection with its secrets resolved. Raises UsageError if one is missing."""
        return open_connection(name, self._get_connection(name), self.root)

    def driver(self, name: str) -> str | None:
        """Return the JDBC driver of a connection, or None if it cannot be derived."""
        config = self._get_declared_connection(name)
        return find_driver(config) if isinstance(config, ConnectionConfig) else None

    def connection_settings(self, name: str) -> dict[str, Any]:
        """Return the fields of a connection of a package's type, their secrets resolved."""
        return resolve_connection_settings(name, self._get_declared_connection(name))

    def refuse_incomplete_connection(self, name: str) -> None:
        """Raise UsageError if the environment lacks something that a connection needs."""
        if isinstance(self._get_declared_connection(name), ConnectionConfig):
            self.connection(name)
        else:
            self.connection_settings(name)

    def _get_connection(self, name: str) -> ConnectionConfig:
        config = self._get_declared_connection(name)
        if not isinstance(config, ConnectionConfig):
            raise UsageError(f"connection {name} leads to {config.leads_to}")
        return config

    def _get_declared_connection(self, name: str) -> ConnectionType:
        if name not in self.config.connections:
            raise UsageError(
                f"unknown connection {name!r}" + suggest_nearest(name, self.config.connections)
            )
        return self.config.connections[name]

    def variables(self, table: TableConfig) -> dict[str, str | int | float | bool]:
        """Return the variables of a table, which override the project's, with secrets resolved.

        Project variables without a value are left out if the table does not use them.
        """
        idle = {name for name in self.config.variables if self._is_idle(name, table)}
        given = {**self.config.variables, **table.variables}
        needed = {name: value for name, value in given.items() if name not in idle}
        return self.resolve_options(needed, "variables")

    def _is_idle(self, name: str, table: TableConfig) -> bool:
        """Return True if a project variable has no value here and the table does not use it."""
        if name in table.variables or any(step.python for step in table.steps):
            return False
        try:
            self.resolve_options({name: self.config.variables[name]}, "variables")
        except UsageError:
            queries = [self.step_sql(table, step) or "" for step in table.steps]
            return not re.search(rf"\b{name}\b", "\n".join([table.model_dump_json(), *queries]))
        return False

    def values(self, own: Mapping[str, Option]) -> dict[str, str | int | float | bool]:
        """Return the project's variables, overridden by `own` of a table or job."""
        return self.resolve_options({**self.config.variables, **own}, "variables")

    def resolve_options(
        self, given: Mapping[str, Option], field: str = "options"
    ) -> dict[str, Option]:
        """Resolve the secrets in named values. Raises UsageError with the missing name."""
        return {
            name: self._resolve_text(f"{field}.{name}", value) if isinstance(value, str) else value
            for name, value in given.items()
        }

    def properties(self, table: TableConfig) -> dict[str, dict[str, Option]]:
        """Return the properties of a table by group and key, with secrets resolved and redacted."""
        groups = table.properties.items()
        return {group: self.resolve_options(keys, f"properties.{group}") for group, keys in groups}

    def get_unresolved_properties(self, table: TableConfig) -> dict[str, dict[str, str]]:
        """Return properties of the table and the project as text, with secrets unresolved."""
        own, given = table.properties, self.config.properties
        return {
            group: {
                key: format_option(value)
                for key, value in {**given.get(group, {}), **own.get(group, {})}.items()
            }
            for group in {**given, **own}
        }

    def path(self, text: str) -> str:
        """Resolve variables in a path of the configuration, and make it absolute."""
        for name, value in self.config.variables.items():
            text = text.replace(f"${{{name}}}", str(value))
        return self.resolve_path(self._resolve_text("path", text))

    def find_source_folder(self, table: TableConfig, path: str) -> str | None:
        """Return the folder that holds all files of a source; None if the path does not show it.

        It ends before the first part of the path that is a pattern or differs between windows.
        """
        values = {**self.config.variables, **table.variables}
        path = _REFERENCE.sub(lambda found: str(values.get(found[1], found[0])), path)
        start = re.split(r"[$*?\[{]", path, maxsplit=1)[0]
        if start != path:
            start = start.rpartition("/")[0]
        return as_path(resolve_location(self.resolve_path(start))) if start else None

    def resolve_path(self, text: str) -> str:
        """Resolve a relative path against the project folder; URLs are returned unchanged."""
        return text if re.match(r"[a-z][a-z0-9+.-]*:", text) else str(self.root / text)

    def step_sql(self, table: TableConfig, step: StepConfig) -> str | None:
        """Return the query of a step, inline or from its file, or None for a step without one."""
        return query_of(table, step, self.files[table.table].parent, self.config.variables)

    def _resolve_text(self, field: str, text: str) -> str:
        try:
            return resolve(text, field)
        except UsageError as missing:
            raise UsageError(f"{field}: {missing}") from None


def suggest_nearest(name: str, names: Iterable[str]) -> str:
    """Return the question whether a similar name is meant, or nothing if there is none."""
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
