"""State of a table in the run log, condensed for planning."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from logdriven_dagster.model.attempts import Owner, Status
from logdriven_dagster.model.ranges import subtract, unite
from logdriven_dagster.model.source_rows import FileChange
from logdriven_dagster.model.windows import Slice, TimeWindow


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """A window whose latest attempt is neither SUCCESS nor SKIPPED."""

    window: TimeWindow
    job_id: int
    status: Status
    owner: Owner | None = None
    """The process that holds a RUNNING attempt."""
    error: str | None = None
    """First line of a failed attempt's error."""
    expired: bool = False
    """True if a RUNNING attempt's lease has expired, by the database's clock."""
    failures: int = 0
    """Consecutive failures of the window, not counting a RUNNING attempt."""
    quiet_for: timedelta | None = None
    """Time since the attempt ended or had its last heartbeat, by the database's clock.

    None if that is in the future, because the clock was set back.
    """
    presumed: bool = False
    """True if the log still records RUNNING: it may be taken over, or come back."""
    stands: bool = False
    """True for a rerun that changed nothing: the rows published before are still valid."""
    was_finished: bool = False
    """True if an earlier attempt at the window succeeded or was skipped."""

    @property
    def has_ended(self) -> bool:
        """True if the log records the end of the attempt; a dead rerun is resumed instead."""
        return self.status is not Status.RUNNING and not (self.presumed or self.stands)


@dataclass(frozen=True, slots=True)
class EndedWindow:
    """A window whose latest attempt ended recently."""

    window: TimeWindow
    status: Status
    ago: timedelta
    """Time since its end, by the database's clock."""


@dataclass(frozen=True, slots=True)
class LookbackWindow:
    """A finished window of a table with `lookback`, for which late rows may still arrive."""

    window: TimeWindow
    seen: datetime
    """The data time up to which its input was complete when it ran."""


@dataclass(frozen=True, slots=True)
class LastSlice:
    """The newest successful key, offset or batch range, where the next one begins."""

    slice: Slice
    now: datetime
    """The data clock at which the end of the source was determined."""
    has_more: bool
    """True if the source had more data than the range."""
    all_read_at: datetime | None = None
    """The newest data clock at which a range took everything in the source.

    None if none of the newest ones did, or if it is not needed (tables without `freshness`).
    """
    reached: str | None = None
    """End of the preceding range, if this one was empty and has no bounds itself."""


@dataclass(frozen=True, slots=True)
class WindowCount:
    """A window with the status of its latest attempt, and its row count if known."""

    window: TimeWindow
    status: Status | None
    """Status of the latest attempt; None for a due window that was never tried."""
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A window skipped by an operator; downstream tables do not wait for it."""

    window: TimeWindow
    reason: str
    """The operator and the reason."""


@dataclass(frozen=True, slots=True)
class OldWindow:
    """A finished window that an older version of its table made."""

    window: TimeWindow
    version: int | None
    """The version that made it; None if it is not known."""
    reason: str | None = None
    """The reason of an operator who restated it; None if only `on_change` may restate it."""


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """Files of a step's source that changed after windows had read them."""

    step_id: str
    change: FileChange
    path: str
    """One of the files."""
    files: int = 1

    def __str__(self) -> str:
        more = f" and {self.files - 1:,} more" if self.files > 1 else ""
        return f"{self.path}{more} ({self.change.value})"


@dataclass(frozen=True, slots=True)
class ChangedWindow:
    """A finished window of which source files have changed since."""

    window: TimeWindow
    files: tuple[ChangedFiles, ...]

    @property
    def has_new_rows(self) -> bool:
        """True if a rerun would read other rows, not only fewer."""
        return any(each.change is not FileChange.GONE for each in self.files)

    @property
    def text(self) -> str:
        """The files, for display."""
        return ", ".join(dict.fromkeys(map(str, self.files)))


@dataclass(frozen=True, slots=True)
class TableLog:
    """The latest attempts at a table's windows; every tuple ascends.

    `finished` and `skipped` are coalesced: adjoining windows are merged into ranges, so that the
    size of a log depends on the number of gaps, not on the length of the history.
    """

    finished: tuple[TimeWindow, ...] = ()
    """Ranges whose latest attempts are SUCCESS."""
    skipped: tuple[TimeWindow, ...] = ()
    """Ranges whose latest attempts are SKIPPED."""
    left_out: tuple[LeftOut, ...] = ()
    """The skipped windows that an operator has skipped."""
    open: tuple[OpenWindow, ...] = ()
    failed_refreshes: tuple[OpenWindow, ...] = ()
    """Finished windows whose last rerun failed: the rows published before are still valid."""
    within_lookback: tuple[LookbackWindow, ...] = ()
    """Windows for which late rows may still arrive, possibly too many; only with `lookback`."""
    stale: tuple[TimeWindow, ...] = ()
    """Finished windows with an upstream window that ran again later."""
    old: tuple[OldWindow, ...] = ()
    """Windows that may be restated; empty if neither `on_change` nor an operator restates any."""
    restated: tuple[int, ...] = ()
    """Requests of operators to restate windows of which none is left."""
    changed: tuple[ChangedWindow, ...] = ()
    """Finished windows of which source files have changed since; see `on_source_change`."""
    settled: tuple[int, ...] = ()
    """Recorded changes of source files that concern no finished window any more."""
    upstreams_ran_again: bool = False
    """True if upstream windows ran again since the table's bookmark, stale windows or not."""
    last: LastSlice | None = None
    """The newest range of a table without time windows."""
    queued: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Number of batches waiting for the next runs, by (step, source)."""
    unmarked: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Number of further batches waiting for one that matches `cut_pattern`, by (step, source)."""
    recent: tuple[EndedWindow, ...] = ()
    """Windows that ended within the longest delay of a downstream table; empty without delays."""

    @property
    def once_finished(self) -> list[TimeWindow]:
        """Finished windows with a rerun that has not ended."""
        return [item.window for item in self.open if item.was_finished]

    @property
    def complete_until(self) -> float:
        """The timestamp, in epoch seconds, up to which all rows of a sliced source are loaded."""
        if self.last is None or self.open or self.last.has_more:
            return -math.inf
        return self.last.now.timestamp()

    def with_finished(self, windows: Sequence[TimeWindow]) -> "TableLog":
        """Return the log as it is after the first attempts at `windows`, in any order, succeeded.

        `last`, `within_lookback`, `queued` and `recent` are not updated: planners of tables that
        have them read the log again.
        """
        done = unite(sorted(windows, key=lambda window: window.span[0]))
        return replace(
            self,
            finished=tuple(unite(self.finished, done)),
            skipped=tuple(subtract(self.skipped, done)),
            open=tuple(item for item in self.open if item.window not in windows),
        )
