"""Sample rows of a window in Dagster, for tables with `preview`.

The rows become a part of Dagster's event log, which keeps them after they are deleted from the
table, and shows them to every user of Dagster. Therefore they are shown only if a table file
requests it.
"""

from threading import Thread
from typing import TYPE_CHECKING, Any

from dagster import MetadataValue

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.arrow.values import records, text_of
from logdriven_dagster.engine.looking import rows_without_spark
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.orchestration.assets.markdown import grid, plain

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_COLUMNS = 20
_PATIENCE = 5.0
"""Seconds that a run waits for the rows; a table on slow storage has no preview."""


def preview_shown(project: Project, table: TableConfig, window: TimeWindow) -> dict[str, Any]:
    """Return as metadata the first rows of a published window, if they can be read without Spark.

    Raises TimeoutError, and any error of the table's storage.
    """
    if not table.preview:
        return {}
    found = _within_patience(project, table, window)
    return {"preview": MetadataValue.md(_draw_table(found, project))} if found is not None else {}


def _within_patience(project: Project, table: TableConfig, window: TimeWindow) -> "pa.Table | None":
    """Read in a separate daemon thread, since reads from storage cannot be interrupted."""
    whole = table.output.write_mode.replaces_whole_table
    found: list[pa.Table | None] = []
    failed: list[Exception] = []

    def read() -> None:
        try:
            rows = rows_without_spark(project, table.table, None if whole else window)
            found.append(None if rows is None else rows.first(table.preview))
        except Exception as error:  # noqa: BLE001 - it is raised in the waiting thread
            failed.append(error)

    thread = Thread(target=read, daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    if failed:
        raise failed[0]
    if not found:
        raise TimeoutError(f"no rows within {_PATIENCE:g} s")
    return found[0]


def _draw_table(rows: "pa.Table", project: Project) -> str:
    names = rows.column_names
    shown, hidden = names[:_MOST_COLUMNS], names[_MOST_COLUMNS:]
    few = rows.select(shown)
    cells = [
        [plain(text_of(value)) for value in row.values()] for row in records(few, project.zone)
    ]
    text = grid([plain(name) for name in shown], cells)
    return f"{text}\n\nand {len(hidden)} more columns" if hidden else text
