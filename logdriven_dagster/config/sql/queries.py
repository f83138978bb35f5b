"""Queries of a table's steps, and the datasets that names in them refer to."""

import re
from collections.abc import Iterator, Mapping

from logdriven_dagster.config.connections import get_url
from logdriven_dagster.config.models.frozen import Option
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.config.sql.lexing import get_dialect
from logdriven_dagster.model.lineage import Container, NodeType, Query


def list_queries(
    project: Project,
    table: TableConfig,
    columns: Mapping[str, tuple[str, ...]],
    parameters: Mapping[str, Option],
    writers: Mapping[str, str],
) -> Iterator[Query]:
    """Yield the queries of the steps that have results in `columns`, in their order.

    `parameters` are the variables of the attempt, with secrets as references; `writers` is the
    result of `map_written_places`.
    """
    tables = _list_tables(table)
    for step in table.steps:
        if step.step in columns:
            asking = _Asking(project, table, step, parameters, writers)
            yield asking.query(columns[step.step], tables)
        tables[step.step.lower()] = get_result(table, step)


def get_result(table: TableConfig, step: StepConfig) -> Container:
    """Return the dataset of a step's rows: the table itself for the step that other tables read."""
    if step.target is None:
        return Container(f"{table.table}#{step.step}", NodeType.TEMP)
    output = next(step.step for step in reversed(table.steps) if step.target)
    return Container(table.table if step.step == output else f"{table.table}#{step.step}")


def map_written_places(project: Project) -> dict[str, str]:
    """Return the table that writes each database table or topic, by its lower-case name.

    A source that reads such a place depends on the table.
    """
    return {
        place.lower(): table.table
        for table in project.tables.values()
        if (place := table.output.source_place) is not None
    }


def get_connection_dialect(project: Project, connection: str) -> str | None:
    """Return sqlglot's dialect name for a connection's database, or None."""
    url = get_url(project.config.connections[connection]) or ""
    backend = re.split(r"[+:]", url)[0]
    return get_dialect(backend) if backend else None


class _Asking:
    """Collector of the queries of one step, and of the datasets that their names refer to."""

    def __init__(
        self,
        project: Project,
        table: TableConfig,
        step: StepConfig,
        parameters: Mapping[str, Option],
        writers: Mapping[str, str],
    ) -> None:
        self._project, self._table, self._step = project, table, step
        self._parameters, self._writers = parameters, writers

    def query(self, columns: tuple[str, ...], tables: Mapping[str, Container]) -> Query:
        names, inner, step = dict(tables), None, self._step
        if step.source is not None:
            inner = self._build_inner_query(step.source)
            names["source"] = inner[0].result if inner else self._find_origin(step.source)
        result = get_result(self._table, step)
        common = (self._table.table, step.step)
        if step.python is not None:
            return Query(*common, "python", step.python, result, columns, names, inner)
        text = self._project.step_sql(self._table, step)
        if text is not None:
            return Query(
                *common, "spark", self._fill_variables(text), result, columns, names, inner
            )
        text = names["source"].name if inner is None else inner[0].text
        return Query(*common, "source", text, result, columns, names, inner)

    def _build_inner_query(self, source: Source) -> tuple[Query, str | None] | None:
        """Return the query that a database executes, with its dialect, or None."""
        asked = next(source.statements(), None)
        if asked is None:
            return None
        name = f"{self._table.table}#{self._step.step}.source"
        result = Container(name, NodeType.TEMP)
        text, own = self._fill_variables(asked.sql), (self._table.table, self._step.step)
        names = {
            "": Container(asked.connection),
            **self._find_written_tables(asked.connection, text),
        }
        query = Query(*own, "spark", text, result, (), names)
        return query, get_connection_dialect(self._project, asked.connection)

    def _find_written_tables(self, connection: str, text: str) -> dict[str, Container]:
        """Return the tables mentioned in `text` that the project writes, by lower-case name."""
        prefix, mentioned = f"{connection}:".lower(), text.lower()
        return {
            place.removeprefix(prefix): Container(table)
            for place, table in self._writers.items()
            if place.startswith(prefix) and place.removeprefix(prefix) in mentioned
        }

    def _find_origin(self, source: Source) -> Container:
        place = redact(self._fill_variables(source.place))
        return Container(self._writers.get(place.lower(), place))

    def _fill_variables(self, text: str) -> str:
        """Replace the attempt's variables in a text; references to its window stay."""
        for name, value in self._parameters.items():
            text = text.replace(f"${{{name}}}", str(value))
        return text


def _list_tables(table: TableConfig) -> dict[str, Container]:
    names = [
        dependency.table for dependency in table.table_dependencies if dependency.read != "none"
    ]
    return {name.lower(): Container(name) for name in [*names, table.table]}
