"""A project folder: loaded, checked as a whole, and asked for its parts."""

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy.engine import URL

from logdriven_dagster.config.connections import (
    Connection,
    database_url,
    driver_of,
    kafka_settings,
    open_connection,
)
from logdriven_dagster.config.locations import as_path, is_remote, local_folder, location_of
from logdriven_dagster.config.models.fields import Option
from logdriven_dagster.config.models.jobs import JobConfig, MaintenanceJob, StandardJob
from logdriven_dagster.config.models.project import ConnectionConfig, ProjectConfig
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.properties import query_of, text_of_option
from logdriven_dagster.config.secrets import resolve
from logdriven_dagster.errors import UsageError
from logdriven_dagster.model.definitions import Kind, code_of

PROJECT_FILE = "logdriven.yaml"
REMOTE_VARIABLE = "LOGDRIVEN_SPARK_REMOTE"
_IS_BRANCH = "DAGSTER_CLOUD_IS_BRANCH_DEPLOYMENT"
"""Dagster+ sets it to 1 where a branch is looked at before it is merged."""


@dataclass(frozen=True)
class Project:
    """A valid project. Tables and jobs stand in running order: upstreams first."""

    root: Path
    config: ProjectConfig
    tables: Mapping[str, TableConfig]
    jobs: Mapping[str, JobConfig]
    files: Mapping[str, Path]
    """Table name → the YAML file that defines it."""
    job_files: Mapping[str, Path] = field(default_factory=dict)
    """Job name → the same."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """Code → version in the registry; none before the project is registered."""
    other_versions: Mapping[str, str] = field(default_factory=dict)
    """Table → which version runs where it is not that of its file, in words."""
    registering: "Callable[[Any], Project] | None" = field(default=None, compare=False, repr=False)
    """Puts the files into the registry of a run log before anything runs; None: that is done."""

    @property
    def name(self) -> str:
        return self.config.project

    @property
    def zone(self) -> ZoneInfo:
        return self.config.timezone

    @cached_property
    def run_log_url(self) -> URL:
        """The run log's URL, secrets resolved; `LOGDRIVEN_RUN_LOG` wins over the project.

        UsageError in a branch deployment of Dagster+ for one that would be production's.
        """
        given = os.environ.get("LOGDRIVEN_RUN_LOG")
        text = given or self.config.run_log
        if not given and "${env:" not in text and os.environ.get(_IS_BRANCH) == "1":
            fix = "set LOGDRIVEN_RUN_LOG for branch deployments"
            raise UsageError(f"run_log: a branch deployment must have a run log of its own; {fix}")
        try:
            return database_url(text, self.root)
        except UsageError as error:
            raise UsageError(f"run_log: {error}") from None

    @cached_property
    def warehouse(self) -> str:
        """The location below which tables are stored; UsageError: of no store that is known."""
        try:
            text = self._resolved("warehouse", self.config.warehouse)
            return location_of(text) if is_remote(text) else self._local_warehouse(text)
        except ValueError as error:
            raise UsageError(f"warehouse: {error}") from None

    def _local_warehouse(self, text: str) -> str:
        return location_of((self.root / local_folder(text)).resolve())

    @property
    def spark_remote(self) -> str:
        """Where Spark runs, as `spark.remote` has it; `LOGDRIVEN_SPARK_REMOTE` wins over it."""
        return os.environ.get(REMOTE_VARIABLE) or self.config.spark.remote

    @property
    def staging(self) -> str:
        """The location of rows that are on their way: looked at again, or meant for elsewhere."""
        return f"{self.warehouse}/_staging"

    @cached_property
    def storage(self) -> Mapping[str, str]:
        """How object stores are reached: PyIceberg's properties, their secrets resolved."""
        given = self.resolved(self.config.storage, "storage")
        return {name: text_of_option(value) for name, value in given.items()}

    @property
    def uses_object_stores(self) -> bool:
        """Whether the project says that bytes of its own are in an object store."""
        return bool(self.config.storage) or is_remote(self.warehouse)

    @cached_property
    def catalog(self) -> Mapping[str, str]:
        """The properties of the Iceberg catalog, their secrets resolved.

        UsageError for a warehouse that is no folder of this machine and has no catalog.
        """
        given = self.config.catalog
        if isinstance(given, dict):
            found = self.resolved(given, "catalog")
            return {name: text_of_option(value) for name, value in found.items()}
        if given is None and is_remote(self.warehouse):
            raise UsageError(
                f"catalog: missing; Iceberg tables in {self.warehouse} need one, such as "
                "{type: rest, uri: https://…} or the URL of a database"
            )
        return {"type": "sql", "uri": given or f"sqlite:///{as_path(self.warehouse)}/catalog.db"}

    @cached_property
    def catalog_url(self) -> URL | None:
        """The database of an SQL catalog; None for a catalog of another type."""
        if self.catalog.get("type") != "sql":
            return None
        try:
            return database_url(self.catalog["uri"], self.root)
        except UsageError as error:
            raise UsageError(f"catalog: {error}") from None

    def table(self, name: str) -> TableConfig:
        """One table; UsageError names the nearest one if there is none of that name."""
        if name in self.tables:
            return self.tables[name]
        raise UsageError(f"no table {name!r} in project {self.name}" + _nearest(name, self.tables))

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
        """The registered version of a table or job; None before the project is registered."""
        return self.versions.get(code_of(self.name, kind, name))

    def with_tables(self, tables: Mapping[str, TableConfig]) -> "Project":
        """Return the project with some of its tables changed."""
        return replace(self, tables={**self.tables, **tables})

    def job(self, name: str) -> JobConfig:
        """One job; UsageError names the nearest one if there is none of that name."""
        if name in self.jobs:
            return self.jobs[name]
        if not name:
            raise UsageError("the job has no name")
        raise UsageError(f"no job {name!r} in project {self.name}" + _nearest(name, self.jobs))

    def standard_job(self, name: str) -> StandardJob:
        """Return one standard job; UsageError if it is of another type."""
        job = self.job(name)
        if not isinstance(job, StandardJob):
            raise UsageError(f"{name} is a {job.type} job, no standard one")
        return job

    def select(self, names: "tuple[str, ...] | list[str]") -> tuple[str, ...]:
        """Tables by their own names or those of jobs, in running order; all for no names.

        UsageError for a name that is neither, and for a maintenance job, which has no tables.
        """
        wanted: set[str] = set()
        for name in names:
            if name not in self.tables and name not in self.jobs:
                near = _nearest(name, [*self.tables, *self.jobs])
                raise UsageError(f"no table or job {name!r} in project {self.name}{near}")
            wanted |= {name} if name in self.tables else self._tables_of(name)
        return tuple(name for name in self.tables if not names or name in wanted)

    def _tables_of(self, name: str) -> set[str]:
        job = self.jobs[name]
        if isinstance(job, MaintenanceJob):
            fix = f"`logdriven job run {name}` runs it"
            raise UsageError(f"{name} is a maintenance job, which has steps and no tables; {fix}")
        return set(job.tables)

    def connection(self, name: str) -> Connection:
        """A connection with its secrets from the environment; UsageError says what is missing."""
        return open_connection(name, self._connection(name), self.root)

    def driver(self, name: str) -> str | None:
        """Return the JDBC driver of a connection; None if it has none, or lacks what tells it."""
        return driver_of(self._connection(name))

    def kafka(self, name: str) -> dict[str, str]:
        """Return the settings of a connection to Kafka, in the same way."""
        return kafka_settings(name, self._connection(name))

    def _connection(self, name: str) -> ConnectionConfig:
        if name not in self.config.connections:
            raise UsageError(f"no connection {name!r}" + _nearest(name, self.config.connections))
        return self.config.connections[name]

    def variables(self, table: TableConfig) -> dict[str, str | int | float | bool]:
        """Project variables and the table's own, which win; their secrets resolved.

        Those of the project that lack something are left out for a table that does not name them.
        """
        idle = {name for name in self.config.variables if self._is_idle(name, table)}
        given = {**self.config.variables, **table.variables}
        needed = {name: value for name, value in given.items() if name not in idle}
        return self.resolved(needed, "variables")

    def _is_idle(self, name: str, table: TableConfig) -> bool:
        """Whether a variable of the project has no value here, and the table does not need one."""
        if name in table.variables or any(step.python for step in table.steps):
            return False
        try:
            self.resolved({name: self.config.variables[name]}, "variables")
        except UsageError:
            queries = [self.step_sql(table, step) or "" for step in table.steps]
            return not re.search(rf"\b{name}\b", "\n".join([table.model_dump_json(), *queries]))
        return False

    def values(self, own: Mapping[str, Option]) -> dict[str, str | int | float | bool]:
        """Project variables and those of a table or job, which win."""
        return self.resolved({**self.config.variables, **own}, "variables")

    def resolved(self, given: Mapping[str, Option], field: str = "options") -> dict[str, Option]:
        """Named values, their secrets resolved; UsageError says which is missing."""
        return {
            name: self._resolved(f"{field}.{name}", value) if isinstance(value, str) else value
            for name, value in given.items()
        }

    def properties(self, table: TableConfig) -> dict[str, dict[str, Option]]:
        """Group → key → value of a table, their secrets resolved and hidden from now on."""
        groups = table.properties.items()
        return {group: self.resolved(keys, f"properties.{group}") for group, keys in groups}

    def written_properties(self, table: TableConfig) -> dict[str, dict[str, str]]:
        """Group → key → text of a table, the project's own among them; no secrets."""
        own, given = table.properties, self.config.properties
        return {
            group: {
                key: text_of_option(value)
                for key, value in {**given.get(group, {}), **own.get(group, {})}.items()
            }
            for group in {**given, **own}
        }

    def path(self, text: str) -> str:
        """Return a path of the configuration with its variables, as `located` has it."""
        for name, value in self.config.variables.items():
            text = text.replace(f"${{{name}}}", str(value))
        return self.located(self._resolved("path", text))

    def located(self, text: str) -> str:
        """Where a path leads: relative ones start at the project folder, URLs stay."""
        return text if re.match(r"[a-z][a-z0-9+.-]*:", text) else str(self.root / text)

    def step_sql(self, table: TableConfig, step: StepConfig) -> str | None:
        """Return the query of a step, inline or from its file; None for a step without one."""
        return query_of(table, step, self.files[table.table].parent, self.config.variables)

    def _resolved(self, field: str, text: str) -> str:
        try:
            return resolve(text, field)
        except UsageError as missing:
            raise UsageError(f"{field}: {missing}") from None


def _nearest(name: str, names: "Mapping[str, object] | list[str]") -> str:
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
