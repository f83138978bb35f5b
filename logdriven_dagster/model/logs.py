"""What the run log says about a table, compressed for planning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from logdriven_dagster.model.attempts import Owner, Status
from logdriven_dagster.model.ranges import union, without
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
    """The first line of a failed attempt's error."""
    expired: bool = False
    """Whether a RUNNING attempt's lease is over, by the database's clock."""
    failures: int = 0
    """How often in a row the window has failed, not counting a RUNNING attempt."""
    quiet_for: timedelta | None = None
    """How long ago the attempt ended or had its last heartbeat, by the database's clock.

    None if that lies in the future of a clock that was set back.
    """
    presumed: bool = False
    """Whether the log still says RUNNING: it may be taken over, and may as well come back."""
    stands: bool = False
    """Whether it is a refresh that has changed nothing: what was published before stands."""
    was_finished: bool = False
    """Whether an earlier attempt at the window succeeded or was skipped."""

    @property
    def has_ended(self) -> bool:
        """Whether the log says how the attempt ended; a refresh that died before is taken up."""
        return self.status is not Status.RUNNING and not (self.presumed or self.stands)


@dataclass(frozen=True, slots=True)
class EndedWindow:
    """A window whose latest attempt ended lately."""

    window: TimeWindow
    status: Status
    ago: timedelta
    """How long ago, by the database's clock."""


@dataclass(frozen=True, slots=True)
class LookbackWindow:
    """A finished window of a table with `lookback`, for which late rows may still come."""

    window: TimeWindow
    seen: datetime
    """Up to which moment of data time all that it reads was there when it ran."""


@dataclass(frozen=True, slots=True)
class LastSlice:
    """The newest slice that succeeded, which is where the next one begins."""

    slice: Slice
    now: datetime
    """The data clock at which the source was asked how far it goes."""
    has_more: bool
    """Whether the source went further than the slice."""
    all_read_at: datetime | None = None
    """The newest data clock at which a slice took all that the source held.

    None if none of the newest ones did, or if nobody asks (tables without `fresh`).
    """
    reached: str | None = None
    """Where the slice before it ends, if there was nothing in it and it has no range itself."""


@dataclass(frozen=True, slots=True)
class WindowCount:
    """A window, how its latest attempt stands, and the rows that it wrote where that is known."""

    window: TimeWindow
    status: Status | None
    """None: it is due and was never tried."""
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A window that an operator has skipped; what is downstream does not wait for it."""

    window: TimeWindow
    reason: str
    """Who skipped it, and why."""


@dataclass(frozen=True, slots=True)
class TableLog:
    """The latest attempts at a table's windows; every tuple ascends.

    `finished` and `skipped` are coalesced: adjoining windows appear as one range, so the size of
    a log follows the number of gaps, not the length of the history.
    """

    finished: tuple[TimeWindow, ...] = ()
    """Ranges whose latest attempts are SUCCESS."""
    skipped: tuple[TimeWindow, ...] = ()
    """Ranges whose latest attempts are SKIPPED."""
    left_out: tuple[LeftOut, ...] = ()
    """The windows of these that an operator has skipped."""
    open: tuple[OpenWindow, ...] = ()
    failed_refreshes: tuple[OpenWindow, ...] = ()
    """Finished windows whose last refresh failed: what was published before it stands."""
    within_lookback: tuple[LookbackWindow, ...] = ()
    """The windows for which late rows may still come, perhaps more; only with `lookback`."""
    stale: tuple[TimeWindow, ...] = ()
    """Finished windows over which an upstream window was run again later."""
    upstreams_ran_again: bool = False
    """Whether upstream windows ran again since the table's bookmark, stale windows or not."""
    last: LastSlice | None = None
    """The newest slice of a sliced table."""
    queued: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(Step, source) of a table that consumes batches → how many wait for the next slices."""
    unmarked: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(Step, source) with a `cut_pattern` → how many more wait for one that is marked by it."""
    recent: tuple[EndedWindow, ...] = ()
    """What ended within the longest delay after which another table follows; none without."""

    @property
    def once_finished(self) -> list[TimeWindow]:
        """The windows that were finished before a refresh of them was begun and did not end."""
        return [item.window for item in self.open if item.was_finished]

    def with_finished(self, windows: Sequence[TimeWindow]) -> "TableLog":
        """Return the log after the first attempts at some windows, in any order, have succeeded.

        `last`, `within_lookback`, `queued` and `recent` stay as they are: whoever has them reads
        the log.
        """
        done = union(sorted(windows, key=lambda window: window.span[0]))
        return replace(
            self,
            finished=tuple(union(self.finished, done)),
            skipped=tuple(without(self.skipped, done)),
            open=tuple(item for item in self.open if item.window not in windows),
        )
