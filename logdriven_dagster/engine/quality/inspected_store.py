"""Store of a step with quality rules, which writes rejected rows to a second target."""

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
    """A store that separates good and rejected rows by the rules; see `Store`."""

    keeper: Store
    rejects: Store | None
    inspector: Inspector
    finished: "Callable[[DataFrame], DataFrame]"
    """Transformation of rows between the rules and the writer."""
    finished_rejects: "Callable[[DataFrame], DataFrame]"

    @property
    def takes_stretches(self) -> bool:
        """True if both targets take several windows at once."""
        both = [self.keeper] if self.rejects is None else [self.keeper, self.rejects]
        return all(each.takes_stretches for each in both)

    def stage(self, frame: "DataFrame", runs: Sequence[WindowRun]) -> tuple[StagedRows, ...]:
        """Write good and rejected rows separately; the result includes the quality reports."""
        with self.inspector.inspect(frame, runs) as inspected:
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
        """Return the staged rows that satisfy the rules."""
        return self.keeper.staged_frame(staged)

    def holds(self, staged: StagedRows) -> bool:
        """Return whether all staged rows still exist, good and rejected ones."""
        if not self.keeper.holds(staged):
            return False
        return self.rejects is None or (
            staged.rejected is not None and self.rejects.holds(staged.rejected)
        )

    def publish(
        self, staged: Sequence[StagedRows], verify: Callable[[], None]
    ) -> tuple[Published, ...]:
        """Publish the rejected rows first, because no table depends on them.

        After a crash in between, both publications are repeated.
        """
        if self.rejects is not None and (rejected := _list_rejected(staged)):
            self.rejects.publish(rejected, verify)
        return self.keeper.publish(staged, verify)

    def fence(self, runs: Sequence[WindowRun]) -> None:
        """Fence off older attempts from the target and from the target of rejected rows."""
        self.keeper.fence(runs)
        if self.rejects is not None:
            self.rejects.fence(runs)

    def discard(self, staged: Sequence[StagedRows]) -> None:
        """Remove the staged good and rejected rows."""
        self.keeper.discard(staged)
        if self.rejects is not None and (rejected := _list_rejected(staged)):
            self.rejects.discard(rejected)

    def read(self, window: TimeWindow | None) -> "DataFrame":
        """Return the published rows that satisfy the rules."""
        return self.keeper.read(window)


def _as_read(staged: Sequence[StagedRows], kept: StagedRows) -> tuple[StagedRows, ...]:
    """Return rows with the counts of the query that read the source, not of their own write.

    With several windows, that query also has the rows that each window read. A single window is
    never considered to have few rows (see `StagedRows.were_few`), since the queries of its rules
    follow.
    """
    if len(staged) > 1:
        return tuple(replace(rows, source_rows=None, query=kept.query) for rows in staged)
    return tuple(replace(rows, source_rows=kept.source_rows, query=None) for rows in staged)


def _list_rejected(staged: Sequence[StagedRows]) -> list[StagedRows]:
    return [rows.rejected for rows in staged if rows.rejected is not None]
