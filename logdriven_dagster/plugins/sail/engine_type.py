"""Sail as an engine: the tables that it supports, and its session."""

import atexit
from collections.abc import Iterator
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.checking.engines import Documents, EngineContext
from logdriven_dagster.config.project import PROJECT_FILE, REMOTE_VARIABLE, Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.config.yaml.documents import Document
from logdriven_dagster.engine.spark.engine_type import SparkEngineType, Watch
from logdriven_dagster.errors import ConfigError, UsageError
from logdriven_dagster.plugins.sail.supported_sql import VERSION

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from logdriven_dagster.plugins.sail.supported_queries import Columns

_sessions: "dict[str, SparkSession]" = {}
"""Name of this process's Sail server → the session on it."""


class Sail(SparkEngineType):
    """Sail, which speaks the protocol of Spark Connect and needs no Java."""

    name, title = "sail", "Sail"

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self._known: dict[str, Columns] = {}
        self._reasons: dict[str, str | None] = {}

    def find_unsupported(self, documents: Documents) -> Iterator[ConfigError]:
        from logdriven_dagster.plugins.sail.supported_projects import find_unsupported

        yield from find_unsupported(self.project, documents)

    def why_unsupported(self, table: str) -> str | None:
        if self._reason_of_project is not None:
            return self._reason_of_project
        if table not in self._reasons:
            # Upstreams first: the columns of a table follow from those that it reads.
            for each in self._with_upstreams(table):
                if each not in self._reasons:
                    self._reasons[each] = self._judge(each)
        return self._reasons[table]

    def session(self, _context: EngineContext, watch: Watch) -> "SparkSession":
        return connect_to_sail(self.project, watch)

    @cached_property
    def _reason_of_project(self) -> str | None:
        """The reason why no table can run on Sail, or None."""
        from logdriven_dagster.plugins.sail.supported_projects import (
            find_unsupported_settings,  # loads sqlglot
        )

        if missing := next(_find_missing_requirements(self.project), None):
            return missing
        main = Document(self.project.root / PROJECT_FILE, {}, {})
        errors = find_unsupported_settings(main, self.project.config)
        return next(map(_format_reason, errors), None)

    def _judge(self, name: str) -> str | None:
        from logdriven_dagster.plugins.sail.supported_projects import (
            find_unsupported_in_table,  # loads sqlglot
        )

        project, table = self.project, self.project.tables[name]
        if name not in project.files:
            return "its rows are written by code outside of the project"
        document = Document(project.files[name], {}, {})
        queries = {step.step: project.step_sql(table, step) for step in table.steps}
        found = find_unsupported_in_table(table, document, queries, self._known)
        return next(map(_format_reason, found), None)

    def _with_upstreams(self, name: str) -> list[str]:
        """Return a table and its direct and indirect upstream tables, in running order."""
        tables, needed, waiting = self.project.tables, {name}, [name]
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


def connect_to_sail(project: Project, watch: Watch) -> "SparkSession":
    """Return the process's session of Sail; start a server if there is none.

    It does not become PySpark's session of the process, which may have one of Spark, too. `watch`
    records the session. Raises UsageError if no server starts or answers, or if a package is
    missing.
    """
    from logdriven_dagster.engine.spark.connect.mode import require_packages
    from logdriven_dagster.plugins.sail.server import server_of

    # PySpark's client takes as long to import as the server takes to start.
    server = server_of(project, meanwhile=require_packages)
    from pyspark.sql.connect.session import SparkSession

    from logdriven_dagster.plugins.sail.mode import SailChannel, with_short_retries

    made: Any = _sessions.get(server.name)
    if made is not None and not made.is_stopped:
        return made  # type: ignore[no-any-return]
    made = SparkSession(SailChannel(server))
    session = with_short_retries(made)
    try:
        session.sql("SELECT 1 AS one").collect()
    except Exception as error:  # noqa: BLE001 - gRPC and PySpark have no common type
        raise UsageError(f"the server of Sail does not answer: {redact(str(error))}") from None
    atexit.register(session.stop)
    watch(session, lambda: server.lives)
    _sessions.clear()
    _sessions[server.name] = session
    return session
