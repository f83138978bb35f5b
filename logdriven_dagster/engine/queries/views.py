"""Names within a window's queries: `source`, earlier steps, and tables by their dotted names."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from logdriven_dagster.config.sql.references import (
    UnreadableSqlError,
    find_table_references,
    is_script,
    replace_tables,
)
from logdriven_dagster.engine.queries.rendering import parameters, render, with_instants
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.windows import Reads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Frames: TypeAlias = "Mapping[str, DataFrame]"
Narrowed: TypeAlias = "Callable[[str, Mapping[str, Any], Frames], tuple[str, Frames]]"
"""Function from a query, its values and its frames to a query over other frames."""


class Views:
    """Temporary views in a session that no other window shares."""

    def __init__(
        self,
        spark: "SparkSession",
        run: WindowRun,
        tables: "Callable[[str, Reads], DataFrame]",
        configured: frozenset[str],
        *,
        narrowed: "Narrowed" = lambda sql, _, frames: (sql, frames),
    ) -> None:
        """Create the views of a run.

        `tables` reads a configured table, `configured` are the names of all of them. `narrowed` may
        replace the frames of a query.
        """
        self._narrowed = narrowed
        self._spark, self._run, self._read, self._configured = spark, run, tables, configured
        self._frames: dict[str, DataFrame] = {}
        self._offered: dict[str, Callable[[], DataFrame]] = {}
        self._readable = {name.lower(): name for name in (*run.reads, run.table)}
        self.opened: set[str] = set()
        """Configured tables that were read since this set was last cleared."""

    def use(self, run: WindowRun) -> None:
        """Use the variables of this run from now on."""
        self._run = run

    def register(self, name: str, frame: "DataFrame") -> None:
        """Register a frame under `name` for later steps and checks."""
        self._frames[name] = frame
        self._offered.pop(name, None)
        mode_of(self._spark).name_frame(frame, name)

    def offer(self, name: str, frame: "Callable[[], DataFrame]") -> None:
        """Register a function under `name` that creates the frame only if a query needs it."""
        self._frames.pop(name, None)
        self._offered[name] = frame

    def withdraw_offers(self) -> None:
        """Drop the offered frames that no query has used so far."""
        self._offered.clear()

    def table(self, name: str) -> "DataFrame":
        """Open a configured table, restricted to the windows that this window reads."""
        self.opened.add(name)
        if name not in self._frames:
            self.register(name, self._read(name, self._run.reads.get(name)))
        return self._frames[name]

    def query(self, sql: str) -> "DataFrame":
        """Return the result of a query, with its variables replaced and its tables opened.

        Raises TerminalStepError if the query cannot be parsed, or reads a table that is not in
        `depends_on`.
        """
        text = render(sql, self._run)
        self._take_offers(text)
        try:
            names = self._find_mentioned(text)
            for name in names:
                self.table(name)
            text = replace_tables(text, {name: name for name in names})
        except UnreadableSqlError as error:
            if is_script(sql):
                raise TerminalStepError(
                    "a SQL script must not name tables of the project; read them in an earlier "
                    "step, and use the name of that step"
                ) from None
            raise TerminalStepError(f"the query cannot be read: {error}") from None
        text, values = with_instants(text, self._run), parameters(text, self._run)
        text, frames = self._narrowed(text, values, self._frames)
        return mode_of(self._spark).query(self._spark, text, values, frames)

    def parameters(self) -> "dict[str, Callable[[], DataFrame]]":
        """Return the frames that a Python transform can use as parameters.

        All offered frames are registered: the transform has the session, too, and any view in it.
        """
        self._take_offers()
        names = self._readable.values()
        known: dict[str, Callable[[], DataFrame]] = {}
        known |= {name.replace(".", "_"): partial(self.table, name) for name in names}
        return known | {name: partial(self._frames.__getitem__, name) for name in self._frames}

    def _take_offers(self, sql: str | None = None) -> None:
        """Register the offered frames that a query may name; all of them without a query."""
        plain = None if sql is None else _plain(sql)
        for name in [name for name in self._offered if plain is None or name.lower() in plain]:
            self.register(name, self._offered[name]())

    def _find_mentioned(self, sql: str) -> list[str]:
        """Return the configured tables that a query reads, under their configured names."""
        plain = _plain(sql)
        if not any(name.lower() in plain for name in self._configured):
            return []
        steps = {name.lower() for name in self._frames} - set(self._readable)
        names = {reference.lower() for reference in find_table_references(sql)} - steps
        for name in self._configured:
            if name.lower() in names and name.lower() not in self._readable:
                raise TerminalStepError(
                    f"the query reads {name}, which is not in depends_on of {self._run.table}"
                )
        return [self._readable[name] for name in sorted(names & set(self._readable))]


def _plain(sql: str) -> str:
    """Normalize a query for a quick check of the names it may contain."""
    return sql.lower().replace("`", "")
