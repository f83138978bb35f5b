"""Reading sources: the protocol of readers, and the reading of a window."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeAlias

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.models.types.time_columns import explain_not_a_time
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.queries.window_values import WindowValues, window_values
from logdriven_dagster.engine.sources import keys
from logdriven_dagster.engine.sources.file_rows import FileSelection
from logdriven_dagster.engine.sources.known_sources import FileVersions, KnownSources, Listings
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.source_rows import FileRows, FileVersion, SourceRows
from logdriven_dagster.model.windows import Slice, TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Malformed: TypeAlias = Callable[[], list[int | None]]
"""Returns the number of malformed records per window, once a query has read them."""


@dataclass(frozen=True)
class Reading:
    """Context of a reader, apart from its source."""

    project: Project
    spark: "SparkSession"
    run: WindowRun
    catalog: Callable[[], Any]
    """The project's Iceberg catalog, opened at first use."""
    sources: KnownSources = field(default_factory=KnownSources)
    windows: tuple[TimeWindow, ...] = ()
    """The windows that the run reads in one pass; empty for a single window."""
    malformed: list[Malformed] = field(default_factory=list)
    """The malformed records of sources that tolerate them."""
    files: FileSelection | None = None
    """The files to read, if their rows are known; None for all."""
    listed: Listings = field(default_factory=Listings)
    """The files of sources, once they have been listed."""

    @property
    def table(self) -> TableConfig:
        return self.project.table(self.run.table)

    @property
    def slice(self) -> Slice:
        """The window of this run; its table is sliced."""
        assert isinstance(self.run.window, Slice)
        return self.run.window


Ask: TypeAlias = Callable[[], Reading]
"""A function that returns the reading of a run, for which it starts Spark."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """The window that an attempt at a sliced table will read."""

    window: Slice
    """The window with its end; empty if there is no new data."""
    has_more: bool
    """True if the source continues after the window."""
    notes: str = ""
    """A note for the run log."""
    source_rows: SourceRows | None = None
    """The rows of the source, if some belong to no window."""


class Reader(ABC):
    """Reader of one type of source; the defaults of all methods but `whole` fit most types."""

    asks_for_keys = False
    """True if `whole` reads only the keys of the window."""

    @abstractmethod
    def whole(self, reading: Reading, source: Any) -> "DataFrame":
        """Return the source as a frame that is not yet computed.

        For a sliced source other than one of keys, only the rows of the window.
        """

    def all_rows(self, reading: Reading, source: Any) -> "DataFrame":
        """Return all rows of the source, also those that no window reads, to count them."""
        return self.whole(reading, source.whole())

    def select_existing(self, reading: Reading, source: Any) -> Any:
        """Return the source limited to the places of the window that exist; None if none does.

        Raises TerminalStepError for a place that is missing and may not be.
        """
        _ = reading
        return source

    def validate_frame(self, reading: Reading, source: Any, frame: "DataFrame") -> "DataFrame":
        """Return the frame of a window without values that the source does not really hold."""
        _ = reading, source
        return frame

    def add_file_columns(self, reading: Reading, source: Any, frame: "DataFrame") -> "DataFrame":
        """Return the frame with the columns about the file of each row that the source names."""
        _ = reading, source
        return frame

    def may_pass(self, reading: Reading, source: Any, error: Exception) -> bool:
        """Return True if a failed step may succeed when it is retried at once.

        Raises TerminalStepError with the source's record that caused the error, if one did.
        """
        _ = reading, source, error
        return False

    def file_names(self, reading: Reading, source: Any, frame: "DataFrame") -> tuple[str, ...]:
        """Return base names of the files that are read, for `job_log.current_file`."""
        _ = reading, source, frame
        return ()

    def fingerprint(self, reading: Reading, source: Any) -> FileVersions | None:
        """Return the state of a source of which one column costs much less than all of it.

        While it stays the same, its rows are not counted again by window. None if not known.
        """
        _ = reading, source
        return None

    def list_files(self, reading: Reading, source: Any, files: FileVersions) -> FileVersions | None:
        """Return the `files` that Spark reads; None if the file of a row is unknown.

        A reader that returns them applies `Reading.files`.
        """
        _ = reading, source, files
        return None

    def learn_files(self, source: Any, files: Iterable[FileRows]) -> None:
        """Use what earlier processes have recorded of files in their present versions."""
        _ = source, files

    def describe_file(self, source: Any, version: FileVersion) -> str | None:
        """Return the content of a file's footer, for `FileRows.footer`; None without one."""
        _ = source, version
        return None

    def without_rows(self, reading: Reading, source: Any) -> "DataFrame":
        """Return an empty frame of the source's columns, for `logdriven validate --analyze`."""
        source = source.model_copy(update={"window_column": None})
        return reading.spark.createDataFrame([], read_source(reading, source).schema)

    def frontier(self, project: Project, run: WindowRun, source: Any, reading: Ask) -> Frontier:
        """Return the frontier of a run's window, by default the newest key."""
        table, window = project.table(run.table), run.window
        assert isinstance(window, Slice)
        first, last = self.find_keys(project, run, source, reading)
        note = keys.restart_note(table, source, window, last)
        high, has_more = keys.cut(table, window, first, last)
        return Frontier(window.up_to(high), has_more, note)

    def find_keys(
        self, project: Project, run: WindowRun, source: Any, reading: Ask
    ) -> tuple[int | None, int | None]:
        """Return the least key after the low end of the run's window, and the greatest of all.

        Rows below are read only if keys were read before and none is left from the low end on.
        """
        _ = project, run
        asked = reading()
        first, last = keys.keys_in_frame(self.whole(asked, source), source, int(asked.slice.low))
        if last is None and asked.slice.number:
            last = keys.greatest_in_frame(self.whole(asked, source.whole()), source)
        return first, last

    def count_rows_without_key(
        self, project: Project, run: WindowRun, source: Any
    ) -> SourceRows | None:
        """Count the source's rows if some have no key, for sources that are asked for keys."""
        _ = project, run, source
        return None


def reader_of(source: Source) -> Reader:
    """Return the reader for a source's type."""
    return _reader(source.reader)


@cache
def _reader(name: str) -> Reader:
    found: Reader = resolve_name(name)()
    return found


def read_source(reading: Reading, source: Source) -> "DataFrame":
    """Return the source as a frame, restricted to the window by its window or key column."""
    reader = reader_of(source)
    frame = reader.whole(reading, source)
    if source.key_column and not reader.asks_for_keys:
        within = keys.key_range(reading.table, reading.slice)
        frame = frame.where(keys.lies_in_keys(frame, source, within))
    if source.window_column:
        with columns_named_by(source):
            values = values_of(reading, source, frame)
            frame = frame.where(values.lies_within(reading.run.window))
    return reader.validate_frame(reading, source, frame)


def values_of(
    reading: Reading, source: Source, frame: "DataFrame", name: str | None = None
) -> WindowValues:
    """Describe how the rows of a frame are assigned to windows.

    `name` is the name of the window column in the frame, if it differs there.
    """
    assert source.window_column is not None
    return window_values(source.window_column, frame, reading.table.grid.zone, name)


@contextmanager
def columns_named_by(source: Source) -> Iterator[None]:
    """Report a column that the source lacks by the field that names it, not as one of a query.

    A column whose type cannot be compared with times is reported, too. Spark Connect resolves
    columns later, and reports them as columns of a query.
    """
    from pyspark.errors import AnalysisException

    try:
        yield
    except AnalysisException as error:
        condition = error.getCondition() or ""
        if condition.startswith("DATATYPE_MISMATCH") and source.window_name:
            kind = (error.getMessageParameters() or {}).get("left", "").strip('"').lower()
            if problem := explain_not_a_time(source.window_name, kind):
                raise TerminalStepError(problem) from None
        if not condition.startswith("UNRESOLVED_COLUMN"):
            raise
        field, name = "key_column", source.key_column
        if source.window_name:
            field, name = "window_column", source.window_name
        proposal = (error.getMessageParameters() or {}).get("proposal", "").replace("`", "")
        near = [name for name in proposal.split(", ") if name and not name.startswith("_")]
        columns = f"; it has {', '.join(near)}" if near else ""
        problem = f"the source has no column {name}, its {field}{columns}"
        raise TerminalStepError(problem) from None
