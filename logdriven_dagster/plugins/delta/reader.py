"""Reading Delta tables from any writer: exactly the rows of one version of their log."""

from typing import TYPE_CHECKING

from logdriven_dagster.config.locations import resolve_location
from logdriven_dagster.config.models.types.time_columns import TimeColumn
from logdriven_dagster.engine.queries.rendering import render_path
from logdriven_dagster.engine.sources.known_sources import FileVersions
from logdriven_dagster.engine.sources.readers import Reader, Reading
from logdriven_dagster.engine.spark.settings import option_texts
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.source_rows import FileVersion
from logdriven_dagster.plugins.delta.format.features import refuse_unreadable
from logdriven_dagster.plugins.delta.format.frames import frame_of
from logdriven_dagster.plugins.delta.format.pruning import (
    Selection,
    files_within,
    holds_times,
    range_of_values,
)
from logdriven_dagster.plugins.delta.format.tables import DataFile, Snapshot, open_table
from logdriven_dagster.plugins.delta.models import DeltaSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class DeltaReader(Reader):
    """Reader of Delta tables; for a window, it opens only the files that may hold its rows."""

    def whole(self, reading: Reading, source: DeltaSource) -> "DataFrame":
        snapshot = _open_table(reading, source)
        files = _files(snapshot, reading, source)
        return frame_of(reading.spark, snapshot, files, option_texts(source.options))

    def fingerprint(self, reading: Reading, source: DeltaSource) -> FileVersions:
        snapshot = _open_table(reading, source)
        return frozenset([FileVersion(snapshot.location, snapshot.version, 0, 0)])


def _files(snapshot: Snapshot, reading: Reading, source: DeltaSource) -> tuple[DataFile, ...]:
    """Return the files that may hold rows of the window."""
    column, window = snapshot.column_name(source.window_name or ""), reading.run.window
    if column is not None and isinstance(source.window_column, TimeColumn):
        if found := range_of_values(snapshot, column, source.window_column, window):
            return tuple(files_within(snapshot, column, [found]))
    elif column is not None and holds_times(snapshot, column):
        return tuple(Selection(snapshot, column, [window]).possible())
    return snapshot.files


def _open_table(reading: Reading, source: DeltaSource) -> Snapshot:
    location = resolve_location(render_path(source.path, reading.run, reading.project))
    snapshot = open_table(location, reading.project.storage)
    if snapshot is None:
        raise TerminalStepError(f"{source.path}: there is no Delta table")
    refuse_unreadable(snapshot)
    return snapshot
