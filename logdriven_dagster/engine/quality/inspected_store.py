"""The store of a step with rules: good rows go to its target, the others to a second one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from logdriven_dagster.engine.quality.inspector import Inspected, Inspector
from logdriven_dagster.engine.targets.store import StagedRows, Store
from logdriven_dagster.model.runs import Published, WindowRun
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class InspectedStore:
    """A store that divides the rows by the rules; see `Store`."""

    keeper: Store
    rejects: Store | None
    inspector: Inspector
    finished: "Callable[[DataFrame], DataFrame]"
    """What comes between the rules and the writer."""
    finished_rejects: "Callable[[DataFrame], DataFrame]"

    @property
    def takes_stretches(self) -> bool:
        """Whether both targets take several windows at once."""
        both = [self.keeper] if self.rejects is None else [self.keeper, self.rejects]
        return all(each.takes_stretches for each in both)

    def stage(self, frame: "DataFrame", runs: Sequence[WindowRun]) -> tuple[StagedRows, ...]:
        """Write the good rows, and the bad ones apart; the rows' reports come with them."""
        with self.inspector.inspected(frame, runs) as inspected:
            staged = self.keeper.stage(self.finished(inspected.good), runs)
            try:
                reports = inspected.reports(staged, self.inspector.opened)
                rejected = self._stage_rejected(inspected, runs)
            except BaseException:
                self.keeper.discard(staged)
                raise
        if inspected.kept is not None:
            staged = _as_read(staged, inspected.kept)
        return tuple(
            replace(rows, quality=report, rejected=bad)
            for rows, report, bad in zip(staged, reports, rejected, strict=True)
        )

    def _stage_rejected(
        self, inspected: Inspected, runs: Sequence[WindowRun]
    ) -> Sequence[StagedRows | None]:
        if self.rejects is None:
            return [None] * len(runs)
        return self.rejects.stage(self.finished_rejects(inspected.rejected), runs)

    def staged_frame(self, staged: Sequence[StagedRows]) -> "DataFrame":
        """Return the staged rows that keep the rules."""
        return self.keeper.staged_frame(staged)

    def holds(self, staged: StagedRows) -> bool:
        """Whether all that was staged is there, bad rows as well as good ones."""
        if not self.keeper.holds(staged):
            return False
        return self.rejects is None or (
            staged.rejected is not None and self.rejects.holds(staged.rejected)
        )

    def publish(
        self, staged: Sequence[StagedRows], verify: Callable[[], None]
    ) -> tuple[Published, ...]:
        """Publish the bad rows first, which nobody waits for; a crash in between repeats both."""
        if self.rejects is not None and (rejected := _rejected(staged)):
            self.rejects.publish(rejected, verify)
        return self.keeper.publish(staged, verify)

    def fence(self, runs: Sequence[WindowRun]) -> None:
        """Shut older attempts out of the target and of the rejected rows' target."""
        self.keeper.fence(runs)
        if self.rejects is not None:
            self.rejects.fence(runs)

    def discard(self, staged: Sequence[StagedRows]) -> None:
        """Remove the staged good rows and the staged bad rows."""
        self.keeper.discard(staged)
        if self.rejects is not None and (rejected := _rejected(staged)):
            self.rejects.discard(rejected)

    def read(self, window: TimeWindow | None) -> "DataFrame":
        """Return the published rows that keep the rules."""
        return self.keeper.read(window)


def _as_read(staged: Sequence[StagedRows], kept: StagedRows) -> tuple[StagedRows, ...]:
    """Return rows with the counts of the query that read the source, and not of their own write.

    What each of several windows has read is found in that query. The rows of a window by itself
    count as many, since the queries of its rules follow.
    """
    if len(staged) > 1:
        return tuple(replace(rows, source_rows=None, query=kept.query) for rows in staged)
    return tuple(replace(rows, source_rows=kept.source_rows, query=None) for rows in staged)


def _rejected(staged: Sequence[StagedRows]) -> list[StagedRows]:
    return [rows.rejected for rows in staged if rows.rejected is not None]
