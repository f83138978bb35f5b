"""Engine of each table: the value of `spark.engine`, or with `auto` the proven one."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.project import EngineName
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import PROJECT_FILE, REMOTE_VARIABLE, Project
from logdriven_dagster.config.sql.proven import VERSION
from logdriven_dagster.config.yaml.documents import Document
from logdriven_dagster.errors import ConfigError

if TYPE_CHECKING:
    from logdriven_dagster.config.sql.proven_queries import Columns


class EngineChoice:
    """The engine of each table of a project, determined on demand."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._known: dict[str, Columns] = {}
        self._reasons: dict[str, str | None] = {}
        self._of_all: list[str] | None = None

    @property
    def default(self) -> EngineName:
        """The engine of interactive reads, which need not be on the list of proven SQL."""
        return "sail" if self._project.config.spark.engine == "sail" else "spark"

    def of(self, table: TableConfig, project: Project) -> EngineName:
        """Return the engine of a table, which may be an earlier version of the project's."""
        if self._project.config.spark.engine != "auto":
            return self.default
        same = table == self._project.tables.get(table.table)
        choice = self if same else EngineChoice(project.with_tables({table.table: table}))
        return "sail" if choice.why_spark(table.table) is None else "spark"

    def why_spark(self, name: str) -> str | None:
        """Return the first reason why `auto` does not choose Sail for a table, or None."""
        if (reason := self._explain_spark_for_project()) is not None:
            return reason
        if name not in self._reasons:
            # Upstreams first: the columns of a table follow from those that it reads.
            for each in self._list_with_upstreams(name):
                if each not in self._reasons:
                    self._reasons[each] = self._judge(each)
        return self._reasons[name]

    def _explain_spark_for_project(self) -> str | None:
        """Return the reason why no table can run on Sail, or None."""
        if self._of_all is None:
            from logdriven_dagster.config.checking.proven import unproven_project  # loads sqlglot

            main = Document(self._project.root / PROJECT_FILE, {}, {})
            found = unproven_project(main, self._project.config)
            self._of_all = [
                *_find_missing_requirements(self._project),
                *map(_format_reason, found),
            ][:1]
        return next(iter(self._of_all), None)

    def _judge(self, name: str) -> str | None:
        from logdriven_dagster.config.checking.proven import unproven_table  # loads sqlglot

        project, table = self._project, self._project.tables[name]
        if name not in project.files:
            return "its rows are written by code outside of the project"
        document = Document(project.files[name], {}, {})
        queries = {step.step: project.step_sql(table, step) for step in table.steps}
        found = unproven_table(table, document, queries, self._known)
        return next(map(_format_reason, found), None)

    def _list_with_upstreams(self, name: str) -> list[str]:
        """Return a table and its direct and indirect upstream tables, in running order."""
        tables, needed, waiting = self._project.tables, {name}, [name]
        while waiting:
            read = {d.table for d in tables[waiting.pop()].managed_dependencies}
            new = (read & tables.keys()) - needed
            needed |= new
            waiting += new
        return [each for each in tables if each in needed]


def _find_missing_requirements(project: Project) -> Iterator[str]:
    """Yield reasons why Sail cannot run in this environment."""
    if project.spark_remote != "classic":
        yield f"{REMOTE_VARIABLE} names a Spark server"
    try:
        found = version("pysail")
    except PackageNotFoundError:
        yield "the package pysail is not installed"
        return
    if found != VERSION:
        yield f"pysail {found} is installed, but the supported version is {VERSION}"


def _format_reason(error: ConfigError) -> str:
    return f"{error.field}: {error.problem}"
