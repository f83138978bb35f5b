"""Windows that can still run behind a table that failed in the same run.

Dagster skips every step behind a failed one, even if some windows had succeeded (`_update` of
`ActiveExecution`). In the log the downstream tables wait for single windows only. So the step that
fails, and each later one before a table that will be skipped, runs those of its windows that can
run.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from dagster import AssetKey, DagsterEventType, Failure

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.errors import LogdrivenError
from logdriven_dagster.orchestration.dagster_internals import StepContext
from logdriven_dagster.orchestration.events.reporting import Reporter

Run: TypeAlias = Callable[[TableConfig, Reporter], None]
"""Runs this run's partitions of a table; raises at the first that is refused or fails."""


def downstream(context: StepContext, keys: Iterable[AssetKey]) -> set[AssetKey]:
    """Return the partitioned assets of this run that depend on some others, at any distance."""
    layer = context.job_def.asset_layer
    found: set[AssetKey] = set()
    front = list(keys)
    while front:
        children = set(layer.asset_graph.get(front.pop()).child_keys) & layer.selected_asset_keys
        front += children - found
        found |= children
    return {key for key in found if layer.asset_graph.get(key).partitions_def is not None}


def run_skipped_tables(reporter: Reporter, run: Run, failed: Iterable[AssetKey] = ()) -> None:
    """Run the tables behind this step that Dagster is going to skip; `failed` are new failures.

    A refusal or failure ends only the table concerned.
    """
    context = reporter.context
    behind = downstream(context, [context.asset_key])
    if not behind:
        return
    skipped = behind & downstream(context, {*failed, *_find_failed_steps(reporter)})
    for name, key in reporter.location.keys.items():
        if key in skipped:
            own_reporter = Reporter(
                context,
                reporter.location,
                tried=reporter.tried,
                running=reporter.running,
                unplotted=reporter.unplotted,
            )
            try:
                run(reporter.project.tables[name], own_reporter)
            except (LogdrivenError, Failure) as error:
                text = error.description if isinstance(error, Failure) else str(error)
                context.log.warning(
                    "%s, downstream of a failed table: %s", name, redact(text or "")
                )


def _find_failed_steps(reporter: Reporter) -> list[AssetKey]:
    """Return the tables whose steps have failed in this run."""
    context = reporter.context
    records = context.instance.get_records_for_run(
        context.run.run_id, of_type=DagsterEventType.STEP_FAILURE
    ).records
    steps = {record.event_log_entry.step_key for record in records}
    location = reporter.location
    return [key for table, key in location.keys.items() if location.op(table) in steps]
