"""The protocol of target stores, and the values that it uses.

Each method takes the windows of one pass, oldest first, which adjoin each other; a pass may have
one window. Staged rows belong to single windows, so that a runner that takes one of them over needs
no other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from logdriven_dagster.config.locations import as_path
from logdriven_dagster.config.models.tables import MissingColumns
from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.sources.known_sources import KnownSources, Looks
from logdriven_dagster.engine.spark.actions import QueryCounts
from logdriven_dagster.engine.spark.settings import FEW_ROWS
from logdriven_dagster.model.quality import QualityReport
from logdriven_dagster.model.runs import Published, WindowRun
from logdriven_dagster.model.windows import TimeWindow, parse_range_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class StoreContext:
    """Dependencies of a store: the project, and the Spark session whose views its readers need."""

    project: Project
    spark: "SparkSession"
    catalog: Callable[[], Any]
    """The project's Iceberg catalog, opened at first use."""
    sources: KnownSources = field(default_factory=KnownSources)
    """Source files that were read before."""
    looks: Looks = field(default_factory=Looks)
    """Source rows that belong to no window."""

    def missing_columns(self, table: str) -> MissingColumns:
        """Return the rule for results that lack a column of the target."""
        config = self.project.table(table)
        return "refuse" if config.schema_rule == "frozen" else config.missing_columns

    def keeps_newest_state(self, table: str, target: Target) -> bool:
        """Return True if a window changes nothing after a newer one was published.

        It would replace the newer one's rows, or its snapshot shows the rows of today.
        """
        mode = target.write_mode
        if not mode.keeps_history:
            return mode.replaces_whole_table
        return self.project.table(table).incremental.is_snapshot

    def is_frozen(self, table: str, target: Target) -> bool:
        """Return True if a target has the frozen columns of a table."""
        config = self.project.table(table)
        return config.schema_rule == "frozen" and target == config.output


_UNCOUNTED = (
    "rows of the source are not counted: the query stops early, or Spark does not report them"
)


@dataclass(frozen=True, kw_only=True)
class StagedRows:
    """The rows of one window and step, written to a place that readers do not open."""

    run: WindowRun
    """The attempt that publishes them, at its step."""
    location: str
    """The staging folder or table; unique, so that it also identifies the publication."""
    schema: "StructType"
    source_rows: int | None
    rows: int | None
    files: tuple[str, ...] = ()
    """Paths of the files that hold rows."""
    staged_by: int = 0
    """The fencing token of the attempt that staged them; another one may have taken them over."""
    quality: QualityReport | None = None
    """The results of the step's rules; None without rules."""
    rejected: "StagedRows | None" = None
    """The rejected rows, staged for their own target."""
    query: QueryCounts | None = None
    """Spark's counts of the query that wrote the rows of the pass, if this process ran it; not part
    of the state.
    """

    @property
    def made(self) -> int | None:
        """The number of rows that the step's query produced, including rejected rows."""
        return self.rows if self.quality is None else self.quality.checked

    @property
    def were_few(self) -> bool:
        """Return True if every part of the query is known to have produced less than FEW_ROWS."""
        return self.query is not None and self.query.most is not None and self.query.most < FEW_ROWS

    @property
    def output(self) -> str:
        """The note on these rows for `step_log.output`."""
        unknown = "" if self.source_rows is not None else f"; {_UNCOUNTED}"
        return f"staged {self.rows} rows in {as_path(self.location)}{unknown}"

    def state(self) -> dict[str, Any]:
        """Serialize the values that another process needs to take the rows over, as JSON values."""
        return {
            "location": self.location,
            "schema": self.schema.jsonValue(),
            "source_rows": self.source_rows,
            "rows": self.rows,
            "files": list(self.files),
            "staged_by": self.staged_by,
            "quality": self.quality.state() if self.quality else None,
            "rejected": self.rejected.state() if self.rejected else None,
        }

    @classmethod
    def from_state(cls, run: WindowRun, state: Mapping[str, Any]) -> "StagedRows":
        """Deserialize the rows of a `state`, to be published by this attempt."""
        from pyspark.sql.types import StructType

        quality, rejected = state.get("quality"), state.get("rejected")
        known = {name: state[name] for name in ("location", "source_rows", "rows", "staged_by")}
        return cls(
            run=run,
            schema=StructType.fromJson(state["schema"]),
            files=tuple(state["files"]),
            quality=QualityReport.from_state(quality) if quality else None,
            rejected=cls.from_state(run, rejected) if rejected else None,
            **known,
        )


class Store(Protocol):
    """The protocol that every type of target implements: stage, publish, fence, discard, read."""

    @property
    def takes_stretches(self) -> bool:
        """True if it takes several windows at once; otherwise each method is given one."""
        ...

    def stage(self, frame: "DataFrame", runs: Sequence[WindowRun]) -> tuple[StagedRows, ...]:
        """Write the frame, which carries the columns that place its rows, where no reader looks.

        One query computes it, so that an `observe` in it sees all rows. Rows of several windows
        carry the number of their window, WINDOW_INDEX.
        """
        ...

    def staged_frame(self, staged: Sequence[StagedRows]) -> "DataFrame":
        """Return the staged rows, for later steps and checks."""
        ...

    def holds(self, staged: StagedRows) -> bool:
        """Return True if all staged rows are still there."""
        ...

    def publish(
        self, staged: Sequence[StagedRows], verify: Callable[[], None]
    ) -> tuple[Published, ...]:
        """Make the rows of each window visible at once; publishing twice has the effect of once.

        The store chooses the order of several windows.

        `verify` raises AttemptLostError if an attempt no longer holds its window according to the
        run log. It is called inside the store's critical section: a change between the call and the
        switch either makes the switch fail or overrides it.
        """
        ...

    def fence(self, runs: Sequence[WindowRun]) -> None:
        """Reject publications of these windows with smaller tokens from now on."""
        ...

    def discard(self, staged: Sequence[StagedRows]) -> None:
        """Remove staged rows, unless the target names them.

        They may have been published by an attempt that was taken over, or by a commit whose answer
        was lost.
        """
        ...

    def read(self, window: TimeWindow | None) -> "DataFrame":
        """Return the published rows that windows within `window` wrote, or all of them.

        The technical column is still included. Raises TerminalStepError if nothing was ever
        published.
        """
        ...


class SnapshotStore(Store, Protocol):
    """A store that can also read earlier states of its target."""

    def read_snapshot(self, snapshot: str, window: TimeWindow | None) -> "DataFrame":
        """Return the rows of a state, as `read` returns those of the current one.

        `snapshot` is the id of a `TableSnapshot`. Raises TerminalStepError if it has expired.
        """
        ...


def is_newer(data_range_start: str, window: TimeWindow) -> bool:
    """Return True if the window that starts there is newer than this one, and not inside it.

    A target that is replaced as a whole must not go back in time when an older window is rerun.
    """
    return parse_range_text(data_range_start, window.zone) >= window.end
