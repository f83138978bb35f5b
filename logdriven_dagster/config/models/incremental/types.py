"""Base classes of incremental types, which declare the properties of a table's windows.

Source: Sharp ETL, incremental types.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar, Protocol

from pydantic import ValidationInfo

from logdriven_dagster.config.models.dependencies import Dependency
from logdriven_dagster.config.models.fields import get_zone, parse_as_written, refuse_ambiguous
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.config.models.types.time_columns import TimeColumn
from logdriven_dagster.model.periods import Grid
from logdriven_dagster.model.windows import Along


class DeclaredStep(Protocol):
    """Fields of a step against which the incremental type of its table is validated."""

    @property
    def step(self) -> str: ...
    @property
    def source(self) -> Source | None: ...
    @property
    def target(self) -> Target | None: ...
    @property
    def loop_over(self) -> object: ...


class DeclaredTable(Protocol):
    """Fields of a table file against which its incremental type is validated."""

    @property
    def incremental(self) -> "IncrementalType": ...
    @property
    def model_fields_set(self) -> set[str]: ...
    @property
    def steps(self) -> tuple[DeclaredStep, ...]: ...
    @property
    def sliced_step(self) -> DeclaredStep: ...
    @property
    def grid(self) -> Grid: ...
    @property
    def ordered(self) -> bool: ...
    @property
    def lookback(self) -> int: ...
    @property
    def overlap(self) -> int: ...
    @property
    def catch_up(self) -> str: ...
    @property
    def batch_dependencies(self) -> tuple[Dependency, ...]: ...
    @property
    def table_dependencies(self) -> tuple[Dependency, ...]: ...


class IncrementalType:
    """Incremental type of time windows, and default values for the other types."""

    name: ClassVar[str]
    """Value of `incremental_type` in table files and in `job_log`."""
    along: ClassVar[Along | None] = None
    """Dimension of key, offset or batch ranges; None for time windows."""
    is_snapshot: ClassVar[bool] = False
    """True if each window reads all rows, so that only the newest window is worth running."""
    registers_files: ClassVar[bool] = False
    """True if an attempt registers newly arrived files itself and takes them as batches."""
    takes_upstream_batches: ClassVar[bool] = False
    """True if windows take the deliveries of upstream tables."""
    default_batches: ClassVar[int | None] = None
    """Default for the maximum number of batches that a window takes from each source."""
    options: ClassVar[frozenset[str]] = frozenset()
    """Table fields that are valid only for the types that list them here."""
    assigns_windows_by: ClassVar[str | None] = None
    """Source field with the column that assigns rows to windows."""
    looks_first: ClassVar[bool] = False
    """True if an attempt determines the end of the source before its steps commit anything."""
    cut: ClassVar[str] = ""
    """Description of the one step that reads the source by range; empty if there is none."""
    first_low: ClassVar[str] = ""
    """Lower bound of the first range without `default_start`."""
    example: ClassVar[tuple[str, str]] = ("1", "1")
    """Example bounds of a range, for callers that need only the columns of a query."""

    @property
    def is_sliced(self) -> bool:
        """True if windows are ranges of keys, offsets or batches instead of time."""
        return self.along is not None

    @property
    def consumes_batches(self) -> bool:
        """True if windows take batches from queues."""
        return self.along is Along.BATCHES

    def start(self, value: Any, info: ValidationInfo) -> datetime | int | str:
        """Parse `default_start` of a table. Raises ValueError, with the accepted forms."""
        found, zone = parse_as_written(value), get_zone(info)
        if found.tzinfo:
            return found.astimezone(zone)
        refuse_ambiguous(value, found, zone)
        # Not shifted out of a gap of daylight saving time: otherwise each day of the grid would
        # begin at the shifted hour.
        return found.replace(tzinfo=zone)

    def cuts(self, source: Source) -> bool:
        """Return True if windows are ranges of this source."""
        _ = source
        return False

    def slice_text(self, number: str, start: str | None, end: str | None) -> str:
        """Format a range with these bounds on one line; `number` is its number with a `#`."""
        _ = start, end
        return number

    def mistakes(self, table: DeclaredTable) -> Iterator[str]:
        """Yield each setting in a table's file that contradicts this type."""
        for step in table.steps:
            for problem in step.source.only_of_slices() if step.source else ():
                yield f"step {step.step}: {problem}"
            column = step.source.window_column if step.source else None
            if isinstance(column, TimeColumn) and (reason := column.coarseness(table.grid)):
                yield f"step {step.step}: source.window_column: {reason}"


class SlicedType(IncrementalType):
    """Base of the types whose windows are numbered ranges of a source without data time."""

    def mistakes(self, table: DeclaredTable) -> Iterator[str]:
        """Yield each setting in a table's file that contradicts windows without data time."""
        if not table.ordered:
            yield f"ordered: cannot be false; {self.name} tables are always ordered"
        if table.lookback:
            yield f"lookback: only for time windows, not for {self.name}"
        if table.catch_up == "latest_only":
            yield f"catch_up: windows of type {self.name} cannot be skipped"
        yield from self._find_mistakes_of_cut(table)
        for step in table.steps:
            for part, given in (("source", step.source), ("target", step.target)):
                if given is not None and given.window_column is not None:
                    yield f"step {step.step}: {part}.window_column is only for time windows"
            for problem in step.source.slicing_mistakes() if step.source else ():
                yield f"step {step.step}: {problem}"

    def _find_mistakes_of_cut(self, table: DeclaredTable) -> Iterator[str]:
        cut = [step for step in table.steps if step.source and self.cuts(step.source)]
        if self.cut and len(cut) != 1:
            yield f"incremental_type {self.name} needs {self.cut}; found {len(cut)}"
        for step in cut:
            if step.loop_over is not None:
                problem = f"{self.name} divides the whole source of this step into windows"
                yield f"step {step.step}: loop_over: {problem}"
