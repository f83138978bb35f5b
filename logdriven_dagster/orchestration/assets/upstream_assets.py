"""Assets that tables wait for and that are not ours: what Dagster shows of them gets into the log.

The run log alone decides what runs next, also for the command line, which knows no Dagster. So each
run and each tick of a sensor first notes there what has been materialized since the last look.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from typing import Any, TypeAlias

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

from logdriven_dagster.config import Project
from logdriven_dagster.config.models.dependencies import AssetDependency
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.model.periods import Grid
from logdriven_dagster.model.windows import TimeWindow, in_zone
from logdriven_dagster.orchestration.assets.partitions import start_of
from logdriven_dagster.runlog.attempts.materialized import Materialized, Seen, note

_Context: TypeAlias = SensorEvaluationContext | AssetExecutionContext | OpExecutionContext

logger = logging.getLogger(__name__)


def asset_key(dependency: AssetDependency) -> AssetKey:
    """The key of an asset that a table waits for."""
    return AssetKey(dependency.asset.split("/"))


@dataclass(frozen=True)
class UpstreamAssets:
    """The assets that the tables of a project wait for."""

    project: Project
    _newest: dict[AssetKey, int | None] = field(default_factory=dict)
    """Key → the number of what was its newest materialization at the last look."""

    def note(self, context: _Context, runner: Runner) -> None:
        """Note what was materialized since the last look, or is so no more.

        An instance of Dagster that lives in memory has not seen all: what others saw stays.
        """
        if not self._awaited:
            return
        instance = context.instance
        keys = [*self._awaited]
        records = {r.asset_entry.asset_key: r for r in instance.get_asset_records(keys)}
        now = datetime.now(self.project.zone)
        for key, (dependency, table) in self._awaited.items():
            record = records.get(key)
            newest = record.asset_entry.last_materialization_record if record else None
            number = newest.storage_id if newest else None
            if key in self._newest and self._newest[key] == number:
                continue
            how = _Partitions(dependency, table, _definition(context, key))
            found = list(_materialized(instance, key, newest, how)) if newest else []
            seen = Seen(dependency.upstream, self.project.name, runner.owner, now)
            is_all = not instance.is_ephemeral
            runner.run_log.write(partial(note, seen=seen, found=found, is_all=is_all))
            self._newest[key] = number

    @cached_property
    def _awaited(self) -> Mapping[AssetKey, tuple[AssetDependency, TableConfig]]:
        return {
            asset_key(dependency): (dependency, table)
            for table in self.project.tables.values()
            for dependency in table.asset_dependencies
        }


@dataclass(frozen=True, slots=True)
class _Partitions:
    """How the keys of an asset's partitions are read."""

    dependency: AssetDependency
    table: TableConfig
    definition: PartitionsDefinition[str] | None
    """What the code location knows; None for an asset of another one."""

    def window(self, key: str) -> TimeWindow:
        """The window of a partition; UsageError for a key that names no time."""
        zone = self.table.grid.zone
        if isinstance(self.definition, TimeWindowPartitionsDefinition):
            theirs = self.definition.time_window_for_partition_key(key)
            bounds: Any = (theirs.start, theirs.end)
        elif self.definition is None:
            start = start_of(key, self.dependency.timezone or zone)
            window = Grid(start, self.dependency.period or self.table.period).window(0)
            bounds = (window.start, window.end)
        else:
            raise UsageError(f"{key!r} is a partition that names no time")
        start, end = (in_zone(moment.timestamp(), zone) for moment in bounds)
        return TimeWindow(start, end)


def _materialized(
    instance: DagsterInstance, key: AssetKey, newest: EventLogRecord, how: _Partitions
) -> Iterator[Materialized]:
    """The partitions of an asset that are materialized, each once."""
    if newest.partition_key is None:
        zone = how.table.grid.zone
        yield Materialized(
            TimeWindow(in_zone(0, zone), in_zone(int(newest.timestamp), zone)), newest.storage_id
        )
        return
    kind = DagsterEventType.ASSET_MATERIALIZATION
    numbers: Mapping[str, int] = instance.get_latest_storage_id_by_partition(key, kind)
    for partition, number in numbers.items():
        try:
            yield Materialized(how.window(partition), number)
        except (UsageError, ValueError) as error:
            logger.warning("asset %s: %s; nothing waits for it", how.dependency.asset, error)


def _definition(context: _Context, key: AssetKey) -> PartitionsDefinition[str] | None:
    """How an asset is partitioned, as far as this code location knows it."""
    repository = _repository(context)
    if repository is None:
        graph = None if isinstance(context, SensorEvaluationContext) else _graph_of_run(context)
        return graph.get(key).partitions_def if graph and graph.has(key) else None
    if source := repository.source_assets_by_key.get(key):
        return source.partitions_def
    assets = repository.assets_defs_by_key.get(key)
    return assets.specs_by_key[key].partitions_def if assets else None


def _repository(context: _Context) -> RepositoryDefinition | None:
    """The code location; None for what a process runs by itself, as tests do."""
    try:
        return context.repository_def
    except Exception:  # noqa: BLE001 - a private error of Dagster says that there is none
        return None


def _graph_of_run(context: AssetExecutionContext | OpExecutionContext) -> Any:
    return context.job_def.asset_layer.asset_graph
