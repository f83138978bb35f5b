"""What every incremental type can say of itself.

Source: Sharp ETL, incremental types.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar, Protocol

from pydantic import ValidationInfo

from logdriven_dagster.config.models.dependencies import Dependency
from logdriven_dagster.config.models.fields import as_written, refuse_ambiguous, zone_of
from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.models.types.time_columns import TimeColumn
from logdriven_dagster.model.periods import Grid
from logdriven_dagster.model.windows import Along


class DeclaredTable(Protocol):
    """The fields of a table file that its incremental type is checked against."""

    @property
    def incremental(self) -> "IncrementalType": ...
    @property
    def model_fields_set(self) -> set[str]: ...
    @property
    def steps(self) -> tuple[StepConfig, ...]: ...
    @property
    def sliced_step(self) -> StepConfig: ...
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
    """Windows of time, and whatever another type does not say of itself."""

    name: ClassVar[str]
    """What `incremental_type` of a table and of a `job_log` row says."""
    along: ClassVar[Along | None] = None
    """What slices are cut along; None: windows are ranges of time."""
    is_snapshot: ClassVar[bool] = False
    """Whether each window reads all rows, so that only the newest one is worth running."""
    registers_files: ClassVar[bool] = False
    """Whether an attempt looks which files have come, and takes them as batches of its own."""
    takes_upstream_batches: ClassVar[bool] = False
    """Whether windows take what upstreams' successes hand over."""
    default_batches: ClassVar[int | None] = None
    """How many batches of each source a window takes if nobody says how many."""
    options: ClassVar[frozenset[str]] = frozenset()
    """Fields of a table that only types which name them may have."""
    tells_windows_by: ClassVar[str | None] = None
    """The field of a source that names the column by which rows belong to windows."""
    looks_first: ClassVar[bool] = False
    """Whether an attempt asks how far a source goes before its steps commit anything."""
    cut: ClassVar[str] = ""
    """The one step whose source is cut into slices, in words; empty: there is none."""
    first_low: ClassVar[str] = ""
    """Where the first slice begins without `default_start`."""
    example: ClassVar[tuple[str, str]] = ("1", "1")
    """The ends of some slice, for those who only ask for columns."""

    @property
    def is_sliced(self) -> bool:
        """Whether windows are slices of a source that has no time."""
        return self.along is not None

    @property
    def consumes_batches(self) -> bool:
        """Whether slices take batches from queues."""
        return self.along is Along.BATCHES

    def start(self, value: Any, info: ValidationInfo) -> datetime | int | str:
        """Where a table begins, by what `default_start` says; ValueError tells what it may say."""
        found, zone = as_written(value), zone_of(info)
        if found.tzinfo:
            return found.astimezone(zone)
        refuse_ambiguous(value, found, zone)
        # Not moved where the clocks skip it: all days of a grid would begin at the moved hour.
        return found.replace(tzinfo=zone)

    def cuts(self, source: Source) -> bool:
        """Whether windows are slices of this source."""
        _ = source
        return False

    def slice_text(self, number: str, start: str | None, end: str | None) -> str:
        """Show a slice of these ends on a line; `number` is `#` and the number."""
        _ = start, end
        return number

    def mistakes(self, table: DeclaredTable) -> Iterator[str]:
        """Yield everything in a table's file that the type contradicts."""
        for step in table.steps:
            for problem in step.source.only_of_slices() if step.source else ():
                yield f"step {step.step}: {problem}"
            column = step.source.window_column if step.source else None
            if isinstance(column, TimeColumn) and (reason := column.coarseness(table.grid)):
                yield f"step {step.step}: source.window_column: {reason}"


class SlicedType(IncrementalType):
    """Slices: parts of a source that has no time, numbered one after the other."""

    def mistakes(self, table: DeclaredTable) -> Iterator[str]:
        """Yield everything in a table's file that slices contradict."""
        if not table.ordered:
            yield f"ordered: slices follow each other; {self.name} tables are always ordered"
        if table.lookback:
            yield f"lookback: it is for windows of time, not for {self.name}"
        if table.catch_up == "latest_only":
            yield f"catch_up: nothing of {self.name} can be passed over"
        yield from self._mistakes_of_cut(table)
        for step in table.steps:
            for part, given in (("source", step.source), ("target", step.target)):
                if given is not None and given.window_column is not None:
                    yield f"step {step.step}: {part}.window_column is for windows of time"
            for problem in step.source.slicing_mistakes() if step.source else ():
                yield f"step {step.step}: {problem}"

    def _mistakes_of_cut(self, table: DeclaredTable) -> Iterator[str]:
        cut = [step for step in table.steps if step.source and self.cuts(step.source)]
        if self.cut and len(cut) != 1:
            yield f"incremental_type {self.name} needs {self.cut}; there are {len(cut)}"
        for step in cut:
            if step.loop_over is not None:
                problem = f"{self.name} cuts the source of this step into slices, as a whole"
                yield f"step {step.step}: loop_over: {problem}"
