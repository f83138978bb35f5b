"""Events that runs could not report to this Dagster: they died, or its storage was full.

A window is finished in the run log first and reported to Dagster shortly after. Events between the
two are found when the run has ended badly: its attempts are in the log, its events are not in
Dagster. They are reported as events of that run, so no event is reported twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from dagster import (
    AssetKey,
    DagsterEventType,
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    RunsFilter,
)

_BADLY = [DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]
_AT_ONCE = 100


@dataclass
class BrokenRuns:
    """Runs that ended badly, and their reports before that."""

    instance: DagsterInstance
    runs: dict[str, DagsterRun] = field(default_factory=dict)
    until: str | None = None
    """The time of the last end that was seen, by Dagster's clock."""
    _reported: dict[str, set[tuple[AssetKey, str | None]]] = field(default_factory=dict)

    @classmethod
    def list_since(cls, instance: DagsterInstance, instant: str | None) -> "BrokenRuns":
        """Return the next runs that ended after a timestamp; the first ones if it is None."""
        now = datetime.now(timezone.utc)  # a clock that was set back is not waited for
        after = None if instant is None else min(datetime.fromisoformat(instant), now)
        filters = RunsFilter(statuses=_BADLY, updated_after=after)
        records = instance.get_run_records(filters, _AT_ONCE, "update_timestamp", ascending=True)
        ends = [record.update_timestamp.isoformat() for record in records]
        runs = {record.dagster_run.run_id: record.dagster_run for record in records}
        return cls(instance, runs, max(ends, default=instant))

    @property
    def ids(self) -> Sequence[str]:
        return list(self.runs)

    def has_reported(self, run_id: str, key: AssetKey, partition: str) -> bool:
        """Return True if a run has reported the materialization of a partition."""
        if run_id not in self._reported:
            events = self.instance.all_logs(run_id, DagsterEventType.ASSET_MATERIALIZATION)
            self._reported[run_id] = {
                (made.asset_key, made.partition)
                for entry in events
                if (made := entry.asset_materialization) is not None
            }
        return (key, partition) in self._reported[run_id]
