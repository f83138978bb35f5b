"""Reading databases: only the rows that their queries select, with exact values."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.jdbc import JdbcSource
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.databases.connections import as_subquery, reader_options
from logdriven_dagster.engine.databases.exact_columns import read_exactly
from logdriven_dagster.engine.queries.rendering import render_for_database
from logdriven_dagster.engine.sources import keys
from logdriven_dagster.engine.sources.readers import Ask, Reader, Reading
from logdriven_dagster.engine.spark.settings import option_texts
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.model.windows import Slice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class JdbcReader(Reader):
    """Reader of database tables and queries."""

    asks_for_keys = True

    def whole(self, reading: Reading, source: JdbcSource) -> "DataFrame":
        """Return the rows of the query; with a window_column, little more than the window's."""
        connection = reading.project.connection(source.connection)
        options = reader_options(connection)
        if source.table:
            options["dbtable"] = render_for_database(source.table, reading.run, connection)
        else:
            query = render_for_database(source.query or "", reading.run, connection)
            options["query"] = as_subquery(query)
        options |= option_texts(source.options)
        read = read_exactly(reading.spark, connection, options, reading.project.zone)
        if source.key_column:
            rows = _read_keys(reading, source, read.options, read.convert())
            return read.convert(rows)
        if isinstance(source.window_column, str):
            return read.convert(read.near(source.window_column, reading.run.window))
        return read.convert()

    def find_keys(
        self,
        project: Project,
        run: WindowRun,
        source: JdbcSource,
        reading: Ask,
    ) -> tuple[int | None, int | None]:
        """Query the database, without Spark."""
        _ = reading
        assert isinstance(run.window, Slice)
        return keys.keys_in_database(project, run, source, int(run.window.low))

    def count_rows_without_key(
        self, project: Project, run: WindowRun, source: JdbcSource
    ) -> SourceRows | None:
        return keys.count_rows_in_database(project, run, source)


def _read_keys(
    reading: Reading, source: JdbcSource, options: Mapping[str, str], frame: "DataFrame"
) -> "DataFrame":
    """Return the rows of a window, with one query for each of `partitions` equal key ranges.

    `frame` is the source as a whole, and `options` are the options that read it.
    """
    kind = frame.schema[keys.column_name(frame, str(source.key_column))].dataType
    connection = reading.project.connection(source.connection)
    wanted = keys.key_range(reading.table, reading.slice)
    conditions = keys.predicates(connection, source, wanted, text=kind.typeName() == "string")
    origin = options.get("dbtable") or f"({options['query']}) logdriven_source"
    rest = {name: v for name, v in options.items() if name not in ("url", "dbtable", "query")}
    url = options["url"]
    return reading.spark.read.jdbc(url, origin, predicates=conditions, properties=rest)
