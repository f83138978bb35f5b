"""Preview of a table's published rows, without Spark if its target allows it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.arrow.queries import duckdb, query
from logdriven_dagster.engine.arrow.rows import ArrowRows
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.queries.schemas import WINDOW_START
from logdriven_dagster.engine.targets.contents import contents_of
from logdriven_dagster.errors import UsageError
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    import pyarrow as pa


class PreviewEngine(Protocol):
    """An engine that can read the rows of any target."""

    def look(
        self, table: str, window: TimeWindow | None, sql: str | None, limit: int
    ) -> "pa.Table":
        """Return the first published rows of a table, or of the query `sql` over it."""
        ...


def look(
    project: Project,
    engine: Callable[[], PreviewEngine],
    table: str,
    *,
    window: TimeWindow | None = None,
    sql: str | None = None,
    limit: int,
) -> "pa.Table":
    """Return the first published rows of a table, of one window, or of a query over them.

    `engine` is called only if Spark is required to read the target. Rows are read only as far as
    the result needs them. Raises UsageError for a window of a table that is replaced as a whole,
    and NotPublishedError if no window was ever published.
    """
    if window is not None and project.table(table).output.write_mode.replaces_whole_table:
        raise UsageError(
            f"{table} is replaced completely, so it has no rows of single windows; "
            "leave out --window"
        )
    rows = rows_without_spark(project, table, window)
    if rows is None:
        return engine().look(table, window, sql, limit)
    package = None if sql is None else duckdb()
    with step_errors():
        if sql is None:
            return rows.first(limit)
        return query(package, rows, table, sql, zone=project.zone, limit=limit)


def rows_without_spark(project: Project, table: str, window: TimeWindow | None) -> ArrowRows | None:
    """Return the published rows of a table, all or those of `window`, as a lazy stream.

    Returns None if only Spark can read the target. Raises NotPublishedError if no window was ever
    published.
    """
    target = project.table(table).output
    with step_errors():
        rows = contents_of(target).rows(project, table, target, window)
    return None if rows is None else rows.without(WINDOW_START)
