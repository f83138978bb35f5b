"""A target that takes only the rows that keep their rules, and a second one for the others."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.steps import (
    FileTarget,
    IcebergTarget,
    JdbcTarget,
    StepConfig,
    Target,
)
from logdriven_dagster.engine.quality.inspector import Inspected, Inspector
from logdriven_dagster.engine.storage.staging import StagedRows, Stamp, Store
from logdriven_dagster.model.runs import Published
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REJECTED = "__rejected"


def rejected_target(table: str, step: StepConfig) -> tuple[str, Target] | None:
    """Where rows with errors go, and the table's name that it goes by; None for nowhere.

    It is of the same kind, window by window; beside topics it is a folder of Parquet files below
    the warehouse. Source: BDRE, good and bad files apart.
    """
    target = step.target
    if target is None or step.quality is None or not step.quality.keep_rejected:
        return None
    table = f"{table}{REJECTED}"
    mode = "overwrite" if target.mode == "overwrite" else "overwrite_window"
    plain = {"mode": mode, "window_column": None}
    match target:
        case IcebergTarget():
            named = (target.name or table.removesuffix(REJECTED)) + REJECTED
            return table, target.model_copy(update={**plain, "key": (), "name": named})
        case FileTarget():
            path = f"{target.path}{REJECTED}" if target.path else None
            return table, target.model_copy(update={**plain, "path": path})
        case JdbcTarget():
            named = target.table + REJECTED
            update = {**plain, "key": (), "pre_sql": (), "table": named}
            return table, target.model_copy(update=update)
        case _:
            return table, FileTarget.model_validate({"type": "parquet", "mode": mode})


@dataclass(frozen=True)
class InspectedStore:
    """The store of a step with rules; see `Store`."""

    keeper: Store
    rejects: Store | None
    inspector: Inspector
    finished: "Callable[[DataFrame], DataFrame]"
    """What comes between the rules and the writer."""
    finished_rejects: "Callable[[DataFrame], DataFrame]"

    def stage(self, frame: "DataFrame", stamp: Stamp) -> StagedRows:
        """Write the good rows, and the bad ones apart; the rows' report comes with them."""
        with self.inspector.inspected(frame, stamp) as inspected:
            staged = self.keeper.stage(self.finished(inspected.good), stamp)
            try:
                quality = inspected.report(staged.files)
                rejected = self._stage_rejected(inspected, stamp)
            except BaseException:
                self.keeper.discard(staged)
                raise
        if inspected.source_rows is not None:  # the source was read before, by a write of its own
            staged = replace(staged, source_rows=inspected.source_rows, most_rows=None)
        return replace(staged, quality=quality, rejected=rejected)

    def _stage_rejected(self, inspected: Inspected, stamp: Stamp) -> StagedRows | None:
        if self.rejects is None:
            return None
        return self.rejects.stage(self.finished_rejects(inspected.rejected), stamp)

    def staged_frame(self, staged: StagedRows) -> "DataFrame":
        """The good rows."""
        return self.keeper.staged_frame(staged)

    def holds(self, staged: StagedRows) -> bool:
        """Whether all that was staged is there, bad rows as well as good ones."""
        if not self.keeper.holds(staged):
            return False
        return self.rejects is None or (
            staged.rejected is not None and self.rejects.holds(staged.rejected)
        )

    def publish(self, staged: StagedRows, verify: Callable[[], None]) -> Published:
        """First the bad rows, which nobody waits for; a crash between them repeats both."""
        if self.rejects is not None and staged.rejected is not None:
            self.rejects.publish(staged.rejected, verify)
        return self.keeper.publish(staged, verify)

    def fence(self, stamp: Stamp) -> None:
        """Shut older attempts out of both."""
        self.keeper.fence(stamp)
        if self.rejects is not None:
            self.rejects.fence(stamp)

    def discard(self, staged: StagedRows) -> None:
        """Remove both."""
        self.keeper.discard(staged)
        if self.rejects is not None and staged.rejected is not None:
            self.rejects.discard(staged.rejected)

    def read(self, window: TimeWindow | None) -> "DataFrame":
        """The good rows that are published."""
        return self.keeper.read(window)
