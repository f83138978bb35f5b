"""One Dagster asset per table: a definition from its configuration, and one thin body for all."""

from collections.abc import Iterator, Sequence
from typing import Any

from dagster import (
    AssetDep,
    AssetExecutionContext,
    AssetsDefinition,
    AssetSpec,
    BackfillPolicy,
    DagsterInvalidDefinitionError,
    Failure,
    MaterializeResult,
    Output,
    multi_asset,
)

from logdriven_dagster.config import Project
from logdriven_dagster.config.models.tables import Dependency, TableConfig
from logdriven_dagster.errors import AlreadyDoneError, AlreadyRunningError, LogdrivenError
from logdriven_dagster.execution.arguments import RunArguments, retry_version_of
from logdriven_dagster.execution.events import WindowEvent, WindowRefused
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.model.attempts import OnRunning
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.orchestration.assets.checks import check_specs
from logdriven_dagster.orchestration.assets.keys import asset_key
from logdriven_dagster.orchestration.assets.metadata import kinds, table_metadata
from logdriven_dagster.orchestration.assets.partitions import (
    Partitions,
    SlicePartitions,
    partition_mapping,
    table_partitions,
)
from logdriven_dagster.orchestration.clock import data_clock
from logdriven_dagster.orchestration.dagster_internals import (
    SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION,
)
from logdriven_dagster.orchestration.events.endings import (
    interrupted_windows_forgotten,
    unmade_checks_forgotten,
    untried_windows_forgotten,
)
from logdriven_dagster.orchestration.events.reporting import (
    Reporter,
    errors_as_failures,
)
from logdriven_dagster.orchestration.events.skipped_tables import op_name, run_skipped_tables
from logdriven_dagster.orchestration.jobs.catch_up import RETRY_VERSION_TAG, run_tags
from logdriven_dagster.orchestration.resources import RUN_LOG, SPARK

IO_MANAGER = "logdriven"
"""The key of the IO manager through which hand-written assets read and write tables."""

_NO_AUTOMATIC_EVENT = {SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True}
"""Output metadata that keeps Dagster from adding a materialization of its own to those that were
logged per window; without any result it would skip the assets downstream."""


def build_assets(project: Project) -> list[AssetsDefinition]:
    """The assets of all tables, in running order."""
    return [_asset(project, table) for table in project.tables.values()]


def external_assets(project: Project) -> list[AssetSpec]:
    """Upstreams that are not ours: shown in the graph, never run."""
    names = {
        dependency.table
        for table in project.tables.values()
        for dependency in table.depends_on
        if not dependency.managed
    }
    return [
        AssetSpec(
            asset_key(name),
            group_name=name.rpartition(".")[0].replace(".", "_") or "default",
            description="Not managed here; counts as complete.",
        )
        for name in sorted(names)
    ]


def _asset(project: Project, table: TableConfig) -> AssetsDefinition:
    partitions = table_partitions(table)
    checks = check_specs(project, table, asset_key(table.table), partitions.definition)

    @multi_asset(
        name=op_name(table),
        specs=[_spec(project, table, partitions)],
        check_specs=checks,
        partitions_def=partitions.definition,
        backfill_policy=BackfillPolicy.single_run(),
        required_resource_keys={RUN_LOG, SPARK},
        op_tags=run_tags(table),
    )
    def materialize(
        context: AssetExecutionContext,
    ) -> Iterator[MaterializeResult[Any] | Output[None]]:
        _materialize(context, project, table)
        yield MaterializeResult(metadata=_NO_AUTOMATIC_EVENT)
        # What the checks found was logged window by window; this only says that they were made.
        yield from (Output(None, check.get_python_identifier()) for check in checks)

    return materialize


def _spec(project: Project, table: TableConfig, partitions: Partitions) -> AssetSpec:
    tags = {k: v for k, v in table.tags.items() if _is_valid(tags={k: v})}
    refused = {f"tag {k}": v for k, v in table.tags.items() if k not in tags}
    spec = AssetSpec(
        asset_key(table.table),
        deps=[_dep(project, dependency, partitions) for dependency in table.depends_on],
        description=table.description,
        group_name=table.layer,
        owners=[owner for owner in table.owners if _is_valid(owners=[owner])],
        tags=tags,
        kinds=kinds(project, table),
        metadata=table_metadata(project, table) | refused,
    )
    return spec.with_io_manager_key(IO_MANAGER)


def _dep(project: Project, dependency: Dependency, downstream: Partitions) -> AssetDep:
    key = asset_key(dependency.table)
    if not dependency.managed:
        return AssetDep(key)
    upstream = table_partitions(project.tables[dependency.table])
    return AssetDep(key, partition_mapping=partition_mapping(upstream, downstream, dependency))


def _is_valid(**fields: Any) -> bool:
    """Whether Dagster takes the tags or owners of an asset."""
    try:
        AssetSpec("any", **fields)
    except DagsterInvalidDefinitionError:
        return False
    return True


def _materialize(
    context: AssetExecutionContext,
    project: Project,
    table: TableConfig,
) -> None:
    """Make the windows of this run's partitions done, oldest first; raise Failure for a red run."""
    reporter, keys = Reporter(context, project), list(context.partition_keys)
    with (
        errors_as_failures(),
        unmade_checks_forgotten(reporter),
        untried_windows_forgotten(reporter, keys),
        interrupted_windows_forgotten(reporter),
    ):
        runner: Runner = context.resources.run_log.open_runner(
            project, context.run, context.resources.spark
        )
        now = data_clock(context.run, project)
        asked = context.run.tags.get(RETRY_VERSION_TAG)
        arguments = RunArguments(retry_version=retry_version_of(asked, RETRY_VERSION_TAG))

        def run(each: TableConfig, own_reporter: Reporter) -> None:
            windows = _windows(runner, each, keys)
            for window, events in runner.refreshes(each.table, windows, now, arguments):
                _follow(events, each, window, own_reporter)

        with runner.outbox.gathered():
            try:
                run(table, reporter)
            except (LogdrivenError, Failure):
                run_skipped_tables(reporter, run, [context.asset_key])
                raise
            run_skipped_tables(reporter, run)


def _windows(runner: Runner, table: TableConfig, keys: Sequence[str]) -> Sequence[TimeWindow]:
    partitions = table_partitions(table)
    if isinstance(partitions, SlicePartitions):
        return runner.slices(table.table, keys)
    return partitions.windows(keys)


def _follow(
    events: Iterator[WindowEvent], table: TableConfig, window: TimeWindow, reporter: Reporter
) -> None:
    try:
        reporter.follow(events)
    except (AlreadyDoneError, AlreadyRunningError) as refusal:
        if table.on_running is OnRunning.FAIL:
            raise
        # Somebody else does what was asked for: nothing is wrong, and nothing is ours.
        reporter.report(WindowRefused(table.table, window, refusal))
    reporter.raise_failures()
