"""One Dagster asset per table: a definition from its configuration, and one thin body for all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any, TypeAlias

from dagster import (
    AssetDep,
    AssetExecutionContext,
    AssetKey,
    AssetsDefinition,
    AssetSpec,
    BackfillPolicy,
    Failure,
    MaterializeResult,
    Output,
    multi_asset,
)
from dagster.components.resolved.core_models import OpSpec

from logdriven_dagster.config.models.dependencies import Dependency
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.errors import AlreadyDoneError, AlreadyRunningError, LogdrivenError
from logdriven_dagster.execution.arguments import RunArguments, retry_version_of
from logdriven_dagster.execution.events import WindowEvent, WindowRefused
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.model.attempts import OnRunning
from logdriven_dagster.model.logs import OpenWindow
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.orchestration.assets.checks import check_specs
from logdriven_dagster.orchestration.assets.partitions import (
    Partitions,
    SlicePartitions,
    partition_mapping,
    table_partitions,
)
from logdriven_dagster.orchestration.assets.upstream_assets import UpstreamAssets, asset_key
from logdriven_dagster.orchestration.clock import data_clock
from logdriven_dagster.orchestration.dagster_internals import (
    SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION,
)
from logdriven_dagster.orchestration.events.backfills import behind_earlier_runs
from logdriven_dagster.orchestration.events.endings import (
    forget_interrupted_windows,
    forget_untried_windows,
    plot_at_end,
    unmade_checks_forgotten,
)
from logdriven_dagster.orchestration.events.reporting import (
    Reporter,
    errors_as_failures,
)
from logdriven_dagster.orchestration.events.retries import find_finished_before
from logdriven_dagster.orchestration.events.skipped_tables import run_skipped_tables
from logdriven_dagster.orchestration.jobs.run_tags import RETRY_VERSION_TAG, run_tags
from logdriven_dagster.orchestration.jobs.runners import open_runner_of_run
from logdriven_dagster.orchestration.location import Location

_NO_AUTOMATIC_EVENT = {SYSTEM_METADATA_KEY_SOURCE_ASSET_OBSERVATION: True}
"""Output metadata that keeps Dagster from adding a materialization of its own to those that were
logged per window; without any result it would skip the assets downstream."""

_IO_MANAGER_KEY = "dagster/io_manager_key"
"""Set by `AssetSpec.with_io_manager_key`, which would make another copy of each table's spec."""

_ONE_RUN = BackfillPolicy.single_run()
_SIGNATURE = Signature([Parameter("context", Parameter.POSITIONAL_OR_KEYWORD)])
Results: TypeAlias = Iterator[MaterializeResult[Any] | Output[None]]
Execute: TypeAlias = Callable[[AssetExecutionContext, TableConfig, Location], Results]
"""The body of a table's op: it processes the run's partitions of the table."""


def build_assets(
    location: Location, specs: Mapping[str, AssetSpec], execute: Execute, op: OpSpec
) -> list[AssetsDefinition]:
    """Build the assets of the shown tables, in running order."""
    return [_asset(location, table, spec, execute, op) for table, spec in specs.items()]


def list_inputs(
    location: Location, specs: Mapping[str, AssetSpec]
) -> dict[str, tuple[AssetKey, ...]]:
    """Return the upstream assets of each shown table, as its asset declares them."""
    found = {}
    for name, spec in specs.items():
        table = location.project.tables[name]
        keys = [dep.asset_key for dep in spec.deps]
        keys += [location.key(dependency.table) for dependency in table.table_dependencies]
        keys += [asset_key(dependency) for dependency in table.asset_dependencies]
        found[name] = tuple(dict.fromkeys(keys))
    return found


def _asset(
    location: Location, name: str, spec: AssetSpec, execute: Execute, op: OpSpec
) -> AssetsDefinition:
    project, table = location.project, location.project.tables[name]
    partitions = table_partitions(table, location)

    @multi_asset(
        name=location.op(name),
        specs=[_with_upstreams(location, table, spec, partitions)],
        check_specs=check_specs(project, table, spec.key, partitions.definition),
        partitions_def=partitions.definition,
        backfill_policy=op.backfill_policy or _ONE_RUN,
        required_resource_keys={location.spark},
        op_tags={**run_tags(table), **(op.tags or {})},
        pool=op.pool,
    )
    @_set_signature
    def materialize(context: AssetExecutionContext) -> Results:
        yield from execute(context, table, location)

    return materialize


def _set_signature(body: Callable[[AssetExecutionContext], Results]) -> Any:
    """Set a body's signature in advance: Dagster would inspect it a dozen times for each table."""
    untyped: Any = body
    untyped.__annotations__ = {}
    untyped.__signature__ = _SIGNATURE
    return untyped


def _with_upstreams(
    location: Location, table: TableConfig, spec: AssetSpec, partitions: Partitions
) -> AssetSpec:
    known = {dep.asset_key for dep in spec.deps}
    tables = [_dep(location, dependency, partitions) for dependency in table.table_dependencies]
    ours = [*tables, *(AssetDep(asset_key(each)) for each in table.asset_dependencies)]
    deps = [*spec.deps, *(dep for dep in ours if dep.asset_key not in known)]
    metadata = {**spec.metadata, _IO_MANAGER_KEY: location.io_manager}
    version = spec.code_version or str(location.project.effect_version(table.table))
    return spec.replace_attributes(deps=deps, metadata=metadata, code_version=version)


def _dep(location: Location, dependency: Dependency, downstream: Partitions) -> AssetDep:
    key = location.key(dependency.table)
    if not dependency.managed:
        return AssetDep(key)
    upstream = table_partitions(location.project.tables[dependency.table], location)
    return AssetDep(key, partition_mapping=partition_mapping(upstream, downstream, dependency))


def run_table(context: AssetExecutionContext, table: TableConfig, location: Location) -> Results:
    """Process the windows of this run's partitions, oldest first. Raises Failure for a red run."""
    _run(context, table, location)
    yield MaterializeResult(metadata=_NO_AUTOMATIC_EVENT)
    # The results of checks were logged window by window; this only reports that they ran.
    partitions = table_partitions(table, location).definition
    for check in check_specs(location.project, table, context.asset_key, partitions):
        yield Output(None, check.get_python_identifier())


def _run(context: AssetExecutionContext, table: TableConfig, location: Location) -> None:
    reporter, keys = Reporter(context, location), list(context.partition_keys)

    def read_unfinished(tables: Sequence[str]) -> dict[str, tuple[OpenWindow, ...]]:
        plan = open_runner_of_run(context, location).plan(
            data_clock(context.run, location.project), tables
        )
        return {name: table.log.open for name, table in plan.tables.items()}

    with (
        errors_as_failures(),
        unmade_checks_forgotten(reporter),
        forget_untried_windows(reporter, keys, read_unfinished),
        forget_interrupted_windows(reporter),
        plot_at_end(reporter),
    ):
        runner = open_runner_of_run(context, location)
        UpstreamAssets(location.project).note(context, runner)
        now = data_clock(context.run, location.project)
        asked = context.run.tags.get(RETRY_VERSION_TAG)
        arguments = RunArguments(retry_version=retry_version_of(asked, RETRY_VERSION_TAG))

        def run(each: TableConfig, own_reporter: Reporter) -> None:
            done = find_finished_before(context, runner.run_log, each)
            left = [
                window
                for window in _windows(location, runner, each, keys)
                if window.key not in done
            ]

            def run_what_is_left() -> None:
                for window, events in runner.refreshes(each.table, left, now, arguments):
                    del left[: left.index(window)]
                    _follow(events, each, window, own_reporter)

            behind_earlier_runs(context, run_what_is_left)

        with runner.outbox.gather():
            try:
                run(table, reporter)
            except (LogdrivenError, Failure):
                run_skipped_tables(reporter, run, [context.asset_key])
                raise
            run_skipped_tables(reporter, run)


def _windows(
    location: Location, runner: Runner, table: TableConfig, keys: Sequence[str]
) -> Sequence[TimeWindow]:
    partitions = table_partitions(table, location)
    if isinstance(partitions, SlicePartitions):
        return runner.slices(table.table, keys)
    return runner.whole_windows(table.table, partitions.windows(keys))


def _follow(
    events: Iterator[WindowEvent], table: TableConfig, window: TimeWindow, reporter: Reporter
) -> None:
    try:
        reporter.follow(events)
    except (AlreadyDoneError, AlreadyRunningError) as refusal:
        if table.on_running is OnRunning.FAIL:
            raise
        # Another process runs the requested windows: this is no error, and no result of this run.
        reporter.report(WindowRefused(table.table, window, refusal))
    reporter.raise_failures()
