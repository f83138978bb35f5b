"""External assets that tables wait for: copies their materializations into the run log.

The run log alone decides which windows run next, also for the command line, which does not use
Dagster. So each run and each tick of a sensor first records the materializations since the last
check.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property, partial
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from dagster import (
    AssetExecutionContext,
    AssetKey,
    DagsterEventType,
    DagsterInstance,
    EventLogRecord,
    OpExecutionContext,
    PartitionsDefinition,
    RepositoryDefinition,
    SensorEvaluationContext,
    TimeWindowPartitionsDefinition,
)

from logdriven_dagster.config.models.dependencies import AssetDependency
from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.model.periods import Grid
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.orchestration.assets.partitions import start_of
from logdriven_dagster.runlog.attempts.materialized import Materialized, Seen, note

_Context: TypeAlias = SensorEvaluationContext | AssetExecutionContext | OpExecutionContext

logger = logging.getLogger(__name__)


def asset_key(dependency: AssetDependency) -> AssetKey:
    """Return the key of an asset that a table waits for."""
    return AssetKey(dependency.asset.split("/"))


@dataclass(frozen=True)
class UpstreamAssets:
    """The assets that the tables of a project wait for."""

    project: Project
    _newest: dict[AssetKey, int | None] = field(default_factory=dict)
    """The number of each asset's newest materialization at the last check."""

    def note(self, context: _Context, runner: Runner) -> None:
        """Record materializations that were added or removed since the last check.

        An in-memory Dagster instance has an incomplete history, so records of other instances are
        kept.
        """
        if not self._awaited:
            return
        instance = context.instance
        keys = [*self._awaited]
        records = {r.asset_entry.asset_key: r for r in instance.get_asset_records(keys)}
        now = datetime.now(timezone.utc)
        for key, dependency in self._awaited.items():
            record = records.get(key)
            newest = record.asset_entry.last_materialization_record if record else None
            number = newest.storage_id if newest else None
            if key in self._newest and self._newest[key] == number:
                continue
            how = _Partitions(dependency, self.project.zone, _definition(context, key))
            found = list(_iter_materialized(instance, key, newest, how)) if newest else []
            seen = Seen(dependency.upstream, self.project.name, runner.owner, now)
            is_all = not instance.is_ephemeral
            runner.run_log.write(partial(note, seen=seen, found=found, is_all=is_all))
            self._newest[key] = number

    @cached_property
    def _awaited(self) -> Mapping[AssetKey, AssetDependency]:
        """The dependency on each asset: on its partitions, if any table waits for those."""
        tables = self.project.tables.values()
        found = [dependency for table in tables for dependency in table.asset_dependencies]
        found.sort(key=lambda dependency: dependency.is_input)
        return {asset_key(dependency): dependency for dependency in found}


@dataclass(frozen=True, slots=True)
class _Partitions:
    """The interpretation of an asset's partition keys."""

    dependency: AssetDependency
    zone: ZoneInfo
    """The project's time zone."""
    definition: PartitionsDefinition[str] | None
    """The definition in this code location; None for an asset of another one."""

    def window(self, key: str) -> TimeWindow:
        """Return the window of a partition.

        Raises UsageError if its time or its length is unknown.
        """
        if isinstance(self.definition, TimeWindowPartitionsDefinition):
            theirs = self.definition.time_window_for_partition_key(key)
            start, end = theirs.start.timestamp(), theirs.end.timestamp()
        elif self.definition is not None:
            raise UsageError(f"the partition {key!r} is not a time")
        elif self.dependency.period is None:
            problem = "the length of its partitions is unknown: it is in another code location"
            raise UsageError(f"{problem}; add `period`, such as `period: 1 hour`, to `depends_on`")
        else:
            first = start_of(key, self.dependency.timezone or self.zone)
            start, end = Grid(first, self.dependency.period).window(0).span
        return TimeWindow.from_seconds(start, end, self.zone)

    @property
    def nowhen(self) -> TimeWindow:
        """The window of partitions whose time is unknown: they exist, but overlap no window."""
        return TimeWindow.from_seconds(0, 1, self.zone)


def _iter_materialized(
    instance: DagsterInstance, key: AssetKey, newest: EventLogRecord, how: _Partitions
) -> Iterator[Materialized]:
    """Yield the materialized partitions of an asset, each once."""
    if newest.partition_key is None:
        whole = TimeWindow.from_seconds(0, int(newest.timestamp), how.zone)
        yield Materialized(whole, newest.storage_id)
        return
    kind = DagsterEventType.ASSET_MATERIALIZATION
    numbers: Mapping[str, int] = instance.get_latest_storage_id_by_partition(key, kind)
    problems = set()
    for partition, number in numbers.items():
        try:
            window = how.window(partition)
        except (UsageError, ValueError) as error:
            window = how.nowhen
            problems.add(str(error))
        yield Materialized(window, number)
    for problem in sorted(problems) if how.dependency.is_input else ():
        logger.warning("asset %s: %s; no window waits for it", how.dependency.asset, problem)


def _definition(context: _Context, key: AssetKey) -> PartitionsDefinition[str] | None:
    """Return the partitions of an asset, as far as this code location defines them."""
    repository = _repository(context)
    if repository is None:
        graph = None if isinstance(context, SensorEvaluationContext) else _graph_of_run(context)
        return graph.get(key).partitions_def if graph and graph.has(key) else None
    if source := repository.source_assets_by_key.get(key):
        return source.partitions_def
    assets = repository.assets_defs_by_key.get(key)
    return assets.specs_by_key[key].partitions_def if assets else None


def _repository(context: _Context) -> RepositoryDefinition | None:
    """Return the code location; None for work that a process runs by itself, as tests do."""
    try:
        return context.repository_def
    except Exception:  # noqa: BLE001 - a private error of Dagster means that there is none
        return None


def _graph_of_run(context: AssetExecutionContext | OpExecutionContext) -> Any:
    return context.job_def.asset_layer.asset_graph
