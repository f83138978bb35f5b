"""Keeping Dagster's partition states equal to the log when a step ends early.

Dagster takes a partition as failed if the last run that planned to materialize it ended as FAILURE
without having done so, and a run over five windows plans all five when it is created. So before
such a run fails, the windows that it did not try are planned once more by no run at all, Dagster's
own notion of a runless event. Measured on 1.13.27: finished windows are green, the failed one is
red, and untouched ones are what they were before.

A terminated run ends as CANCELED, which Dagster takes for "nothing happened" to its partitions. The
log says DISCARDED of the window that it was in, so that one is planned by a failed run of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from dagster import AssetKey, DagsterInstance, DagsterRun, DagsterRunStatus
from dagster._core.storage.tags import PARTITION_NAME_TAG
from dagster._core.utils import make_new_run_id

from logdriven_dagster.config import Project
from logdriven_dagster.errors import LogdrivenError
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.orchestration.clock import data_clock
from logdriven_dagster.orchestration.partitions import table_partitions
from logdriven_dagster.orchestration.reporting import (
    Reporter,
    StepContext,
    asset_key,
    report_planned,
)

INTERRUPTED_TAG = "logdriven/interrupted_run"
"""On the record of a failed window: the run that was terminated in the middle of it."""


@contextmanager
def interrupted_window_shown(reporter: Reporter) -> Iterator[None]:
    """Around a step: should it be terminated in the middle of windows, show those as failed."""
    try:
        yield
    except Exception:
        raise
    except BaseException:
        for planned in reporter.running.values():
            _report_interrupted(reporter.context, *planned)
        raise


def _report_interrupted(context: StepContext, key: AssetKey, partition: str) -> None:
    text = f"Run {context.run.run_id} was terminated in the middle of this partition's window."
    tags = {INTERRUPTED_TAG: context.run.run_id}
    name = context.run.job_name
    report_failed(context.instance, key, partition, job_name=name, tags=tags, text=text)


def report_failed(
    instance: DagsterInstance,
    key: AssetKey,
    partition: str,
    *,
    job_name: str,
    tags: Mapping[str, str],
    text: str,
) -> None:
    """Show a partition as failed by the record of a run that meant to materialize it."""
    record = DagsterRun(
        job_name=job_name,
        run_id=make_new_run_id(),
        status=DagsterRunStatus.FAILURE,
        asset_selection=frozenset([key]),
        tags={**tags, PARTITION_NAME_TAG: partition},
    )
    instance.add_run(record)
    report_planned(instance, key, partition, record)
    instance.report_engine_event(text, record)


@contextmanager
def untried_windows_forgotten(reporter: Reporter, keys: Sequence[str]) -> Iterator[None]:
    """Around an asset's step over some partitions: should it end early, take back the others.

    That goes for the assets behind it too, which the failing run will skip. What the log holds as
    failed stays red.
    """
    try:
        yield
    except BaseException:
        context = reporter.context
        assets = [context.asset_key, *_selected_downstream(context)]
        told = reporter.tried | _failed_before(context, reporter.project, assets)
        for key in assets:
            for partition in keys:
                if (key, partition) not in told:
                    report_planned(context.instance, key, partition, None)
        raise


def _failed_before(
    context: StepContext, project: Project, assets: Sequence[AssetKey]
) -> set[tuple[AssetKey, str]]:
    """The partitions of some assets whose latest attempts are FAILURE in the log."""
    tables = [name for name in project.tables if asset_key(name) in assets]
    run_log, spark = context.resources.run_log, context.resources.spark
    try:
        runner = run_log.open_runner(project, context.run, spark)
        plan = runner.plan(data_clock(context.run, project), tables)
    except LogdrivenError:
        return set()  # an unreadable log says nothing, and is why the step ends
    return {
        (asset_key(name), table_partitions(table.table).key(item.window))
        for name, table in plan.tables.items()
        for item in table.log.open
        if item.status is not Status.RUNNING
    }


def _selected_downstream(context: StepContext) -> list[AssetKey]:
    """The partitioned assets of this run that depend on this one, however far behind it."""
    layer = context.job_def.asset_layer
    found: set[AssetKey] = set()
    front = [context.asset_key]
    while front:
        children = set(layer.asset_graph.get(front.pop()).child_keys) & layer.selected_asset_keys
        front += children - found
        found |= children
    return [key for key in found if layer.asset_graph.get(key).partitions_def is not None]
