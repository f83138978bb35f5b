"""Engines of a project's tables: the types of engines, and the choice of one for each table."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from inspect import isabstract
from typing import Any, ClassVar, Final

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.engines import AUTO, GROUP, SPARK, list_engines
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.yaml.documents import Document
from logdriven_dagster.errors import ConfigError, UsageError, in_brief
from logdriven_dagster.model.runs import ExpectedWork
from logdriven_dagster.model.source_rows import SourceRows

_FIX: Final = "rewrite it, or run the project on Spark (spark.engine: spark)"


@dataclass(frozen=True, slots=True)
class Documents:
    """The YAML documents of a project, which give errors their lines."""

    main: Document
    tables: Mapping[str, Document]
    jobs: Mapping[str, Document]


class EngineType(ABC):
    """An engine as `spark.engine` names it, for one project: the tables that it supports.

    Checking a project loads this class only. Its engine is loaded when a window runs.
    """

    name: ClassVar[str]
    """The value of `spark.engine`, which is also the name of the entry point."""
    title: ClassVar[str]
    """The name in messages."""
    engine: ClassVar[str]
    """Path `package.module:name` of a class or function, called with an `EngineContext`.

    It returns an `execution.window.engines.Engine`.
    """
    supports_batching: ClassVar[bool] = True
    """True if one session can run several adjoining windows (`batch_size`)."""

    def __init__(self, project: Project) -> None:
        self.project = project

    @abstractmethod
    def why_unsupported(self, table: str) -> str | None:
        """Return the first reason why a table cannot run on this engine, or None.

        `engine: auto` chooses the engine if there is none.
        """

    def find_unsupported(self, documents: Documents) -> Iterator[ConfigError]:
        """Yield an error for each feature of the project that this engine does not support.

        Called when a project that names this engine is loaded.
        """
        for name, document in documents.tables.items():
            if (reason := self.why_unsupported(name)) is not None:
                yield document.error(("table",), f"not supported on {self.title}: {reason}", _FIX)


@dataclass(frozen=True, slots=True)
class EngineContext:
    """The values from which an engine starts."""

    kind: EngineType
    spark: Callable[[], Any] | None = None
    """Supplies a session of Spark, if the caller has one."""
    recall: Callable[[str], Iterable[SourceRows]] = lambda _: ()
    """Returns the row counts that earlier processes found in the sources of a table."""
    expected: ExpectedWork | None = None
    """The work that the process is expected to do; None if that is not known."""

    @property
    def project(self) -> Project:
        """The project whose windows the engine runs."""
        return self.kind.project


def load_engine_type(name: str) -> type[EngineType]:
    """Return the type of an engine. Raises UsageError if its package cannot be used."""
    point = list_engines()[name]
    try:
        found = point.load()
        if not (isinstance(found, type) and issubclass(found, EngineType)) or isabstract(found):
            base = f"{EngineType.__module__}.{EngineType.__name__}"
            raise TypeError(f"it must be a whole subclass of {base}")  # noqa: TRY301
        if found.name != name:
            raise TypeError(f"its name must be {name!r}, as that of the entry point")  # noqa: TRY301
    except Exception as error:  # noqa: BLE001 - a module of a package may raise anything
        problem = in_brief(f"{type(error).__name__}: {error}")
        raise UsageError(f"{point.value} cannot be used: {problem}") from None
    return found


def find_unsupported_features(project: Project, documents: Documents) -> Iterator[ConfigError]:
    """Yield an error for each feature of a project that the engine it names does not support."""
    name = project.config.spark.engine
    if name in (SPARK, AUTO):
        return
    try:
        kind = load_engine_type(name)
    except UsageError as error:
        fix = f"repair or remove the package that registers it as {GROUP}"
        yield documents.main.error(("spark", "engine"), str(error), fix)
        return
    yield from kind(project).find_unsupported(documents)


class EngineChoice:
    """The engine of each table of a project, determined on demand."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._types: dict[str, EngineType] = {}

    @property
    def default(self) -> str:
        """The engine of interactive reads, whose tables need not be supported by another one."""
        name = self._project.config.spark.engine
        return SPARK if name == AUTO else name

    def choose(self, table: TableConfig, project: Project) -> str:
        """Return the engine of a table, which may be an earlier version of the project's."""
        if self._project.config.spark.engine != AUTO:
            return self.default
        same = table == self._project.tables.get(table.table)
        choice = self if same else EngineChoice(project.with_tables({table.table: table}))
        return choice.engine_and_reason(table.table)[0]

    def engine_and_reason(self, table: str) -> tuple[str, str | None]:
        """Return the engine that `auto` chooses for a table, and the reason if it is Spark."""
        reasons = {}
        for name in self._others:
            reason = self._why_unsupported(name, table)
            if reason is None:
                return name, None
            reasons[name] = reason
        named = [f"{self.title(name)}: " * (len(reasons) > 1) + reasons[name] for name in reasons]
        return SPARK, "; ".join(named)

    def type_of(self, name: str) -> EngineType:
        """Return an engine's type for this project. Raises UsageError if it cannot be used."""
        if name not in self._types:
            self._types[name] = load_engine_type(name)(self._project)
        return self._types[name]

    def title(self, name: str) -> str:
        """Return the name of an engine in messages."""
        try:
            return self.type_of(name).title
        except UsageError:
            return name

    def _why_unsupported(self, name: str, table: str) -> str | None:
        try:
            return self.type_of(name).why_unsupported(table)
        except UsageError as error:
            return str(error)

    @cached_property
    def _others(self) -> list[str]:
        return [name for name in list_engines() if name != SPARK]
