"""Partition states in Dagster that agree with the log when a step ends early.

Dagster marks a partition as failed if the last run that planned to materialize it ended as FAILURE
without having done so, and a run over five windows plans all five when it is created. So before
such a run fails, the windows that it did not try are planned again by a runless event. Measured on
1.13.27: finished windows are green, the failed one is red, and untouched ones keep their state.

A terminated run leaves its running window DISCARDED in the log, which is pending as before and no
failure. Its partition is taken back as well, regardless of the run's status in Dagster.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from dagster import AssetKey

from logdriven_dagster.errors import LogdrivenError
from logdriven_dagster.model.logs import OpenWindow
from logdriven_dagster.orchestration.assets.partitions import find_failed_partitions
from logdriven_dagster.orchestration.events.records import forget_planned_checks, report_planned
from logdriven_dagster.orchestration.events.reporting import Reporter
from logdriven_dagster.orchestration.events.skipped_tables import downstream
from logdriven_dagster.orchestration.location import Location


@contextmanager
def forget_interrupted_windows(reporter: Reporter) -> Iterator[None]:
    """Take back the running windows if a step is terminated in the middle of them."""
    try:
        yield
    except Exception:
        raise
    except BaseException:
        for planned in reporter.running.values():
            report_planned(reporter.context.instance, *planned, None)
        raise


@contextmanager
def plot_at_end(reporter: Reporter) -> Iterator[None]:
    """Log pictures of the windows when a step ends or fails, but not if it is terminated."""
    try:
        yield
    except Exception:
        reporter.plot_windows()
        raise
    reporter.plot_windows()


@contextmanager
def unmade_checks_forgotten(reporter: Reporter) -> Iterator[None]:
    """Take back the planned checks of windows that an asset's step did not write.

    This includes the assets behind a failed one, whose steps are skipped.
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
def forget_untried_windows(
    reporter: Reporter,
    keys: Sequence[str],
    read_unfinished: Callable[[Sequence[str]], Mapping[str, Iterable[OpenWindow]]],
) -> Iterator[None]:
    """Take back the untried partitions of an asset's step if it ends early.

    This includes the assets behind it, which the failing run will skip. Windows that failed in the
    log stay red. `read_unfinished` reads the unfinished windows of some tables from the run log.
    """
    try:
        yield
    except BaseException:
        context = reporter.context
        assets = [context.asset_key, *downstream(context, [context.asset_key])]
        reported = reporter.tried | _find_failed(reporter.location, assets, read_unfinished)
        for key in assets:
            for partition in keys:
                if (key, partition) not in reported:
                    report_planned(context.instance, key, partition, None)
        raise


def _find_failed(
    location: Location,
    assets: Sequence[AssetKey],
    read_unfinished: Callable[[Sequence[str]], Mapping[str, Iterable[OpenWindow]]],
) -> set[tuple[AssetKey, str]]:
    """Return the partitions of some assets whose windows have failed in the log.

    After a refresh that failed or died before it changed anything, a partition keeps its state.
    """
    tables = [name for name, key in location.keys.items() if key in assets]
    try:
        return find_failed_partitions(location, read_unfinished(tables))
    except LogdrivenError:
        return set()  # an unreadable log has no answer, and is why the step ends
