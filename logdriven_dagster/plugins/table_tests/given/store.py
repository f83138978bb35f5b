"""The store of a stand-in for an upstream table, which reads the rows that a test gives."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from logdriven_dagster.engine.queries.schemas import WINDOW_START
from logdriven_dagster.engine.queries.window_values import window_values
from logdriven_dagster.engine.targets.store import StagedRows, StoreContext
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.plugins.table_tests.given.target import GivenTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class GivenTable:
    """The rows of a table in a test. Nothing is written to it."""

    takes_stretches = True

    def __init__(self, context: StoreContext, table: str, target: GivenTarget) -> None:
        self._context, self._table, self._target = context, table, target

    def read(self, window: TimeWindow | None) -> "DataFrame":
        """Return the rows: all, or those of a window.

        The `_window_start` of a row, or else the value of the table's window column, is its
        window. Rows without both belong to every window.
        """
        frame = self._read_all()
        column = self._target.window_column
        name = WINDOW_START if WINDOW_START in frame.columns else column
        if window is None or name is None:
            return frame
        zone = self._context.project.table(self._table).grid.zone
        return frame.where(window_values(name, frame, zone).lies_within(window))

    def _read_all(self) -> "DataFrame":
        """Return all rows, without a Spark job that reads the columns from the file."""
        from pyarrow import parquet
        from pyspark.errors import PySparkTypeError
        from pyspark.sql.pandas.types import from_arrow_schema

        reader = self._context.spark.read
        columns = parquet.read_schema(self._target.path)
        with suppress(PySparkTypeError):  # unsigned numbers, for which Spark finds another type
            reader = reader.schema(from_arrow_schema(columns, prefer_timestamp_ntz=True))
        return reader.parquet(self._target.path)

    def stage(self, frame: "DataFrame", runs: Sequence[WindowRun]) -> NoReturn:
        """Raise TerminalStepError: the rows are given."""
        _ = frame, runs
        self._refuse()

    def staged_frame(self, staged: Sequence[StagedRows]) -> NoReturn:
        """Raise TerminalStepError: nothing is staged."""
        _ = staged
        self._refuse()

    def holds(self, staged: StagedRows) -> bool:
        """Return False: nothing is staged."""
        _ = staged
        return False

    def publish(self, staged: Sequence[StagedRows], verify: Callable[[], None]) -> NoReturn:
        """Raise TerminalStepError: the rows are given."""
        _ = staged, verify
        self._refuse()

    def fence(self, runs: Sequence[WindowRun]) -> None:
        """Accept the fence of any window."""

    def discard(self, staged: Sequence[StagedRows]) -> None:
        """Discard nothing."""

    def _refuse(self) -> NoReturn:
        raise TerminalStepError(f"{self._table} has given rows and cannot be written in a test")
