"""Keeping Dagster's partition states equal to the log when a step ends early.

Dagster takes a partition as failed if the last run that planned to materialize it ended as FAILURE
without having done so, and a run over five windows plans all five when it is created. So before
such a run fails, the windows that it did not try are planned once more by no run at all, Dagster's
own notion of a runless event. Measured on 1.13.27: finished windows are green, the failed one is
red, and untouched ones are what they were before.

A terminated run leaves the window that it was in DISCARDED in the log, which is pending as before
and no failure: however that run ends in Dagster, it did not mean that window.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from dagster import AssetKey

from logdriven_dagster.errors import LogdrivenError
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.logs import OpenWindow
from logdriven_dagster.orchestration.assets.partitions import table_partitions
from logdriven_dagster.orchestration.clock import data_clock
from logdriven_dagster.orchestration.dagster_internals import StepContext
from logdriven_dagster.orchestration.events.records import forget_planned_checks, report_planned
from logdriven_dagster.orchestration.events.reporting import Reporter
from logdriven_dagster.orchestration.events.skipped_tables import downstream
from logdriven_dagster.orchestration.location import Location


@contextmanager
def interrupted_windows_forgotten(reporter: Reporter) -> Iterator[None]:
    """Around a step: should it be terminated in the middle of windows, take those back."""
    try:
        yield
    except Exception:
        raise
    except BaseException:
        for planned in reporter.running.values():
            report_planned(reporter.context.instance, *planned, None)
        raise


@contextmanager
def unmade_checks_forgotten(reporter: Reporter) -> Iterator[None]:
    """Around an asset's step: checks of windows that were not written count as not planned.

    That goes for the assets behind a failed one, too, whose steps are skipped.
    """
    context = reporter.context
    behind: set[AssetKey] = set()
    try:
        yield
    except BaseException:
        behind = downstream(context, [context.asset_key])
        raise
    finally:
        for key in {context.asset_key, *behind}:
            if context.job_def.asset_layer.asset_graph.get(key).check_keys:
                forget_planned_checks(context.instance, context.run, key)


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
        assets = [context.asset_key, *downstream(context, [context.asset_key])]
        reported = reporter.tried | _failed_before(context, reporter.location, assets)
        for key in assets:
            for partition in keys:
                if (key, partition) not in reported:
                    report_planned(context.instance, key, partition, None)
        raise


def _failed_before(
    context: StepContext, location: Location, assets: Sequence[AssetKey]
) -> set[tuple[AssetKey, str]]:
    """The partitions of some assets whose windows have failed in the log.

    Behind a refresh that failed or died before it changed anything a partition is what it was.
    """
    tables = [name for name, key in location.keys.items() if key in assets]
    try:
        runner = location.open_runner(context)
        plan = runner.plan(data_clock(context.run, location.project), tables)
    except LogdrivenError:
        return set()  # an unreadable log says nothing, and is why the step ends
    return failed_partitions(location, {name: t.log.open for name, t in plan.tables.items()})


def failed_partitions(
    location: Location, opened: Mapping[str, Iterable[OpenWindow]]
) -> set[tuple[AssetKey, str]]:
    """The partitions of failed windows; a failed refresh that changed nothing is none of them.

    `opened` has the unfinished windows of each table, as the run log gives them.
    """
    return {
        (
            location.key(name),
            table_partitions(location.project.tables[name], location).key(item.window),
        )
        for name, items in opened.items()
        for item in items
        if item.status is Status.FAILURE and not item.stands
    }
