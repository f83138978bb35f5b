"""Dagster metadata of a whole table: its columns, their origins, its number of rows."""

import logging
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

from dagster import AssetObservation, MetadataValue, TableColumnDep, TableColumnLineage

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.engine.targets.contents import holdings
from logdriven_dagster.execution.inspection.plots import PlottedWindow, draw_windows
from logdriven_dagster.model.lineage import Container, QueryLineage, find_outer_origins
from logdriven_dagster.model.runs import Column
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.orchestration.assets.previews import preview_shown
from logdriven_dagster.orchestration.assets.windows import COLUMNS, columns_shown, rows_of_table
from logdriven_dagster.orchestration.location import Location
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.history.logs import list_newest_windows
from logdriven_dagster.runlog.observed.lineage_answers import find_by_table

_PLOTTED = 90
"""The number of windows in the picture of a table."""
_SHARE = 0.02
"""The share of a run's time that inspections of one table may take."""


def lineage_shown(
    location: Location, table: str, queries: Sequence[QueryLineage]
) -> dict[str, Any]:
    """Return as metadata the columns of other assets from which a table's columns are made."""
    project = location.project
    steps = [step.step for step in project.tables[table].steps] if table in project.tables else []
    places = {step: n for n, step in enumerate(steps)}
    ordered = sorted(queries, key=lambda query: places.get(query.step_id, 0))
    deps = {
        column: [
            TableColumnDep(location.key(ref.container.name), ref.column)
            for ref in refs
            if ref.container.name in project.tables and ref.column is not None
        ]
        for column, refs in find_outer_origins(ordered, Container(table)).items()
    }
    known = {column: found for column, found in deps.items() if found}
    return {"dagster/column_lineage": TableColumnLineage(known)} if known else {}


def table_shown(
    location: Location, table: TableConfig, run_log: RunLog, window: TimeWindow | None = None
) -> dict[str, Any]:
    """Return the table's current metadata for a window that ran elsewhere or wrote nothing."""

    def ran() -> dict[str, Any]:
        queries = run_log.ask(lambda conn: find_by_table(conn, table.table))
        return lineage_shown(location, table.table, queries)

    shown = _describe_holdings(location.project, table) | _if_known(table, ran)
    return shown | (_preview(location.project, table, window) if window else {})


def _describe_holdings(project: Project, table: TableConfig) -> dict[str, Any]:
    def read() -> dict[str, Any]:
        held = holdings(project, table)
        columns = columns_shown(table, held.columns) if held.columns else {}
        return columns | rows_of_table(held.rows)

    return _if_known(table, read)


def _preview(project: Project, table: TableConfig, window: TimeWindow) -> dict[str, Any]:
    return _if_known(table, lambda: preview_shown(project, table, window))


def plot_windows(
    location: Location, table: TableConfig, run_log: RunLog
) -> AssetObservation | None:
    """Return a picture of the newest windows of a table, their states and rows, as an observation.

    It belongs to no partition: the page of a partition begins with the story of its window.
    """

    def draw() -> dict[str, Any]:
        rows = run_log.ask(lambda conn: list_newest_windows(conn, table.table, _PLOTTED))
        if not rows:
            return {}
        image = draw_windows([PlottedWindow.from_row(row) for row in rows])
        data = b64encode(image.encode()).decode()
        text = "Rows and states of the newest windows"
        legend = (
            "Bars: rows. Squares: states. Band: the middle half of the windows, with the median."
        )
        markdown = f"![{text}](data:image/svg+xml;base64,{data})\n\n{legend}"
        return {"windows": MetadataValue.md(markdown)}

    found = _if_known(table, draw)
    if not found:
        return None
    return AssetObservation(location.key(table.table), metadata=found)


def _if_known(table: TableConfig, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Describe the whole table; log a failure and return nothing, so that it hides no window."""
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - targets may raise any error
        text = redact(f"{table.table}: {type(error).__name__}: {error}")
        logging.getLogger(__name__).warning("table_not_described: %s", text)
        return {}


@dataclass
class Looks:
    """Inspections of published tables next to the windows of one Dagster step.

    An inspection finds the columns with their comments, the number of rows if the target does not
    report it, and some rows if the table requests them. The first window of a table is inspected,
    and later ones as often as this takes little of the run's time.
    """

    project: Project
    _again: dict[str, float] = field(default_factory=dict)
    """The earliest time of the next inspection of each table, by this process's clock."""
    _comments: dict[str, dict[str, str | None]] = field(default_factory=dict)
    """The comments of each table's columns, as last seen."""

    def describe(
        self, table: TableConfig, window: TimeWindow, columns: Sequence[Column]
    ) -> dict[str, Any]:
        """Return the metadata of a window that was just published with these columns."""
        began = monotonic()
        if began < self._again.get(table.table, 0):
            comments = self._comments.get(table.table, {})
            written = [replace(each, comment=comments.get(each.name)) for each in columns]
            return columns_shown(table, written) if written else {}
        found = _describe_holdings(self.project, table)
        if schema := found.get(COLUMNS):
            self._comments[table.table] = {each.name: each.description for each in schema.columns}
        elif columns:
            found |= columns_shown(table, columns)
        found |= _preview(self.project, table, window)
        ended = monotonic()
        self._again[table.table] = ended + (ended - began) / _SHARE
        return found
