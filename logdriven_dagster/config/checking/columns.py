"""Unknown columns and functions in the queries of a project, as far as columns are declared.

Columns are known from the `columns` of sources and tables, and from the queries over them: from
step to step, and from table to table. Runs no code, and asks no database and no Spark.
"""

from collections.abc import Iterator, Mapping

from logdriven_dagster.config.checking.quality import list_rule_queries
from logdriven_dagster.config.models.quality import ROWS
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.declared_columns import list_declared_columns
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.sql.known_names import Columns, UnknownName, examine_query
from logdriven_dagster.config.yaml.documents import Location

Found = tuple[str, Location, UnknownName]
"""The table, the place in its file, and the name."""


def find_unknown_names(project: Project, *, may_have_own: bool) -> Iterator[Found]:
    """Yield the unknown columns and functions of all queries, upstream tables first.

    `may_have_own` is True if Spark may have functions that users have created.
    """
    known: dict[str, Columns | None] = {}
    for table in project.tables.values():
        has_python = any(step.python for step in table.steps)
        examined = _ExaminedTable(
            project, table, known, examines_functions=not (may_have_own or has_python)
        )
        yield from examined.find_unknown_names()
        known[table.table.lower()] = examined.columns


class _ExaminedTable:
    """The queries of one table, in the order in which they run."""

    def __init__(
        self,
        project: Project,
        table: TableConfig,
        upstream: Mapping[str, Columns | None],
        *,
        examines_functions: bool,
    ) -> None:
        self._project, self._table, self._examines = project, table, examines_functions
        read = {d.table.lower() for d in table.managed_dependencies if d.read != "none"}
        self._known = {name: upstream.get(name) for name in read}
        declared = list_declared_columns(table.columns) if table.columns else None
        if declared is not None:
            declared |= table.output.added_columns.keys()
        self._known[table.table.lower()] = self.columns = declared
        """The columns of the rows that other tables read, or None if they are not known."""

    def find_unknown_names(self) -> Iterator[Found]:
        for n, step in enumerate(self._table.steps):
            yield from self._examine_step(n, step)
        for n, check in enumerate(self._table.checks):
            yield from self._examine(("checks", n, "sql"), check.sql)[1]
        self._known[ROWS] = self.columns
        for location, query in list_rule_queries(self._table, self._project.config):
            yield from self._examine(location, query)[1]

    def _examine_step(self, n: int, step: StepConfig) -> Iterator[Found]:
        result: Columns | None = None
        if step.source is not None:
            result = self._known["source"] = step.source.known_columns
        query = self._project.step_sql(self._table, step)
        if step.python is not None or step.loop_over is not None:
            result = None
        elif query is not None:
            result, found = self._examine(("steps", n, "sql"), query)
            yield from found
        self._known[step.step.lower()] = result
        if step.target == self._table.output and self.columns is None and self._is_exact(step):
            self.columns = result

    def _is_exact(self, step: StepConfig) -> bool:
        """Return True if the target has no columns other than those of the result."""
        target = step.target
        assert target is not None
        is_whole = not target.write_mode.merges_by_key and self._table.missing_columns == "refuse"
        return is_whole and target.has_only_columns_of_results

    def _examine(self, location: Location, query: str) -> tuple[Columns | None, list[Found]]:
        examined = examine_query(query, self._known, examines_functions=self._examines)
        return examined.columns, [(self._table.table, location, name) for name in examined.unknown]
