"""Takeover of another system's progress: its finished windows are recorded in the run log."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.model import offsets
from logdriven_dagster.model.attempts import Claim, Owner, Trigger
from logdriven_dagster.model.ranges import find_uncovered, unite
from logdriven_dagster.model.windows import Along, Slice, TimeWindow, on_clock
from logdriven_dagster.planning.pending import find_watermark
from logdriven_dagster.planning.slices import get_first_low
from logdriven_dagster.plugins.importers.drafts import Translation
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.attempts import takeovers
from logdriven_dagster.runlog.history import logs as history

Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a table in another system; times without a zone are in the project's."""

    table: str
    """The table's name in this project."""
    place: str
    """Location and name of the record in the other system's log."""
    until: datetime | str
    """End of its last success: a time, a key, or offsets as JSON."""
    looked: datetime
    """Time at which that success read its source."""
    undone: tuple[Span, ...] = ()
    """Ranges that failed there and were never completed."""


@dataclass(frozen=True, slots=True)
class TakenOver:
    """Position at which a table continues, confirmed by the plan."""

    table: str
    goes_on: str
    place: str


@dataclass(slots=True)
class Takeover:
    """One run of an import that takes the old log over."""

    project: Project
    owner: Owner
    translation: Translation
    taken: list[TakenOver] = field(default_factory=list)

    def record(self, found: Sequence[Progress], run_log: RunLog) -> None:
        """Record finished windows in one transaction, and verify the result with the plan."""
        with run_log.begin() as conn:
            for progress in found:
                if progress.table in self.project.tables:  # not every draft becomes a table
                    self._take_over(conn, progress)

    def _take_over(self, conn: Connection, progress: Progress) -> None:
        table = self.project.tables[progress.table]
        if takeovers.has_run(conn, progress.table):
            reason = "it has already run here: its log is not changed"
            self.translation.leave(progress.place, progress.table, reason)
            return
        try:
            windows = list(self._windows(table, progress))
        except ValueError as error:
            self.translation.leave(progress.place, progress.table, str(error))
            return
        if not windows:
            return
        reason = f"finished before, according to {progress.place}"
        for window in windows:
            takeovers.take_over(conn, self._claim(table, window, progress), reason)
        goes_on = find_watermark(table, history.read_table_logs(conn, [table])[table.table])
        expected = _get_expected_bound(table, windows)
        if goes_on != expected:
            self.translation.leave(
                progress.place, table.table, f"the plan continues at {goes_on}, not at {expected}"
            )
        self.taken.append(TakenOver(table.table, str(goes_on), progress.place))

    def _windows(self, table: TableConfig, progress: Progress) -> Iterator[TimeWindow]:
        """Yield the finished windows, oldest first. Raises ValueError if none can be taken over."""
        if table.incremental.consumes_batches:
            raise ValueError(
                f"{table.incremental_type} has no position in the log of the source system: "
                "all existing rows are new"
            )
        if table.is_sliced:
            yield _slice(table, str(progress.until))
            return
        if not isinstance(progress.until, datetime):
            raise ValueError(f"{progress.until} is not a time, and the table has windows of time")
        grid = table.grid
        until = self._on_clock(progress.until)
        end = grid.get_bound(grid.index(until))
        if end.timestamp() <= grid.origin.timestamp():
            reason = (
                f"it stopped at {until}, before the end of the first window here: no window "
                "is finished"
            )
            self.translation.note(progress.place, table.table, reason)
            return
        if end.timestamp() < until.timestamp() and not table.incremental.is_snapshot:
            reason = f"it stopped within the window that begins at {end}, which runs completely"
            self.translation.note(progress.place, table.table, reason)
        undone = unite(*([grid.covering(self._window(span))] for span in progress.undone))
        for window in undone:
            reason = f"{window} failed there and never succeeded: it runs here, before all others"
            self.translation.note(progress.place, table.table, reason)
        whole = TimeWindow(grid.origin, end, zone=grid.zone)
        yield from find_uncovered(whole, undone)

    def _window(self, span: Span) -> TimeWindow:
        return TimeWindow(*map(self._on_clock, span))

    def _on_clock(self, instant: datetime) -> datetime:
        return on_clock(instant, self.project.zone)

    def _claim(self, table: TableConfig, window: TimeWindow, progress: Progress) -> Claim:
        return Claim(
            table=table.table,
            window=window,
            period_minutes=table.period.minutes,
            incremental_type=table.incremental_type,
            project=self.project.name,
            trigger=Trigger.TAKEOVER,
            owner=self.owner,
            now=self._on_clock(progress.looked),
            steps=(),
        )


def _get_expected_bound(table: TableConfig, windows: Sequence[TimeWindow]) -> datetime | str | None:
    """Return the bound where the plan must continue: the first end, or the start if it failed."""
    if table.is_sliced:
        return windows[0].range_end
    begins_done = windows[0].start == table.grid.origin
    return windows[0].end if begins_done else table.grid.origin


def _slice(table: TableConfig, high: str) -> Slice:
    low = get_first_low(table)
    if table.along is Along.KEYS:
        if int(high) <= int(low):
            raise ValueError(f"it stopped at key {high}, and default_start is {low}")
        high = str(int(high))
    else:
        ends = offsets.parse(high)
        low = offsets.format_offsets(dict.fromkeys(ends, 0))
        high = offsets.format_offsets(ends)
    return Slice.nth(0, low, high, table.grid.zone, table.along)
