"""A project in a Dagster code location, next to other projects and a team's own assets."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from dagster import (
    AssetKey,
    DagsterInvalidDefinitionError,
    GraphDefinition,
)

from logdriven_dagster.config.derived.selection import select_tables
from logdriven_dagster.config.models.jobs import StandardJob
from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import UsageError

CATCH_UP, SKIP, UNSKIP = "catch_up", "skip_windows", "unskip_windows"
"""The names of the jobs that every project has, and of their ops; without the prefix."""


@dataclass(frozen=True)
class Location:
    """A project, its shown tables, and the names of its Dagster objects."""

    project: Project
    keys: Mapping[str, AssetKey]
    """The asset keys of the shown tables by name, in running order."""
    prefix: str = ""
    """The prefix of the names of ops, jobs, sensors, schedules and resources."""
    inputs: Mapping[str, tuple[AssetKey, ...]] = field(default_factory=dict)
    """The upstream assets of the shown tables by name."""
    _tables: Mapping[AssetKey, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse two tables with one key."""
        tables: dict[AssetKey, str] = {}
        for table, key in self.keys.items():
            if other := tables.get(key):
                both = f"{other} and {table} are both asset {key.to_user_string()}"
                raise UsageError(f"{both}; the translation must give each table its own key")
            tables[key] = table
        object.__setattr__(self, "_tables", tables)

    def name(self, plain: str) -> str:
        """Return the name of an op, job, sensor or resource in this code location."""
        return f"{self.prefix}_{plain}" if self.prefix else plain

    @cached_property
    def spark(self) -> str:
        """The key of the Spark resource."""
        return self.name("logdriven_spark")

    @cached_property
    def io_manager(self) -> str:
        """The key of the IO manager through which hand-written assets read and write tables."""
        return self.name("logdriven")

    def op(self, table: str) -> str:
        """Return the name of a table's op and step."""
        return self.name(_op_name(table))

    def key(self, table: str) -> AssetKey:
        """Return the key of a table's asset, even if another code location shows it."""
        return self.keys.get(table) or default_key(table)

    def table(self, key: AssetKey) -> str:
        """Return the table of an asset.

        A hand-written one is a table too: `dws/sum` is `dws.sum`.
        """
        return self._tables.get(key) or ".".join(key.path)

    def select(self, names: Collection[str] = ()) -> list[str]:
        """Return the shown tables of these selections (see `select_tables`); without any, all."""
        chosen = list(select_tables(self.project, names) if names else self.keys)
        if hidden := [table for table in chosen if table not in self.keys]:
            raise UsageError(f"{', '.join(hidden)}: not in the tables of this code location")
        return chosen


@dataclass(frozen=True, slots=True)
class Selection:
    """Tables and configured jobs, each in the project's order."""

    tables: tuple[str, ...]
    jobs: tuple[str, ...]


def selection(project: Project, names: Collection[str] = ()) -> Selection:
    """Select tables and jobs as `select_tables` does; all without names.

    A job selects its tables, and tables select the jobs that run no others. A maintenance job,
    which has no tables, is selected by its name only, so that two code locations do not both run
    it. Raises UsageError with the names that match nothing.
    """
    if not names:
        return Selection(tuple(project.tables), tuple(project.jobs))
    wanted: set[str] = set()
    for name in names:
        maintenance = name in project.jobs and not isinstance(project.jobs[name], StandardJob)
        wanted |= {name} if maintenance else set(select_tables(project, (name,)))
    tables = tuple(table for table in project.tables if table in wanted)
    jobs = tuple(
        name
        for name, job in project.jobs.items()
        if (set(job.tables) <= wanted if isinstance(job, StandardJob) else name in wanted)
    )
    return Selection(tables, jobs)


def default_key(table: str) -> AssetKey:
    """Return the default key of a table's asset: `ods.flights` → `ods/flights`."""
    return AssetKey(table.split("."))


def _op_name(table: str) -> str:
    name = table.replace(".", "__")
    return name if "__" in name or _is_valid_name(name) else f"{name}_table"


@cache
def _is_valid_name(name: str) -> bool:
    """Return True if Dagster, which refuses names such as `output`, accepts this one."""
    try:
        GraphDefinition(name)
    except DagsterInvalidDefinitionError:
        return False
    return True
