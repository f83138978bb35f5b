"""The check `latest_refresh` of each table: failed refreshes, and the published results.

A partition whose refresh failed stays materialized, since the earlier result is still published.
The check fails meanwhile, blocks nothing, and passes once the windows have run again. It is
evaluated only when its result changes, so nothing is written if no refresh fails.
"""

from collections.abc import Collection, Iterator, Sequence

from dagster import (
    AssetCheckEvaluation,
    AssetCheckKey,
    AssetCheckSeverity,
    AssetCheckSpec,
    AssetKey,
    DagsterInstance,
)

from logdriven_dagster.config.models.rules import LATEST_REFRESH
from logdriven_dagster.config.secrets import redact
from logdriven_dagster.execution.notifications import wording
from logdriven_dagster.orchestration.dagster_internals import AssetCheckExecutionRecordStatus
from logdriven_dagster.orchestration.location import Location
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.history.refresh_failures import RefreshFailure, refresh_failures

_EVALUATED = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}
_MOST_NAMED = 5


def refresh_check_spec(key: AssetKey) -> AssetCheckSpec:
    """Return the specification of a table's check."""
    description = "Every failed refresh has been repeated."
    return AssetCheckSpec(LATEST_REFRESH, asset=key, description=description)


def refresh_evaluations(
    instance: DagsterInstance, location: Location, run_log: RunLog, tables: Collection[str]
) -> Iterator[AssetCheckEvaluation]:
    """Evaluate the check for the tables whose result has changed."""
    project = location.project
    shown = [project.tables[name] for name in sorted(tables) if name in location.keys]
    if not shown:
        return
    failures = run_log.ask(lambda conn: refresh_failures(conn, shown))
    for table in shown:
        found, key = failures.get(table.table, []), location.key(table.table)
        job_ids = ", ".join(str(each.job_id) for each in found)
        if job_ids == _read_reported_failures(instance, key):
            continue
        yield AssetCheckEvaluation(
            key,
            LATEST_REFRESH,
            not found,
            {"job_ids": job_ids},
            severity=AssetCheckSeverity.WARN,
            description=_description(location, found),
            blocking=False,
        )


def _read_reported_failures(instance: DagsterInstance, key: AssetKey) -> str:
    """Return the attempts in the newest evaluation; empty if it passed, or there is none."""
    records = instance.event_log_storage.get_asset_check_execution_history(
        AssetCheckKey(key, LATEST_REFRESH), limit=1, status=_EVALUATED
    )
    newest = records[0].evaluation if records else None
    return str(newest.metadata["job_ids"].value) if newest else ""


def _description(location: Location, found: Sequence[RefreshFailure]) -> str:
    if not found:
        return "All windows whose refresh failed have run again."
    lines = [_sentence(location, each) for each in found[:_MOST_NAMED]]
    if (more := len(found) - _MOST_NAMED) > 0:
        lines.append(f"and {more:,} more; `logdriven status` shows all of them")
    return "\n\n".join(lines)


def _sentence(location: Location, failure: RefreshFailure) -> str:
    error = f": {failure.error}" if failure.error else ""
    published = f"of job {failure.published_by}"
    if failure.published_at is not None:
        published += f" at {wording.clock(failure.published_at, location.project.zone)}"
    text = f"{failure.window}: its refresh, job {failure.job_id}, failed{error}"
    return redact(
        f"{text}; the result {published} is unchanged. "
        "Materialize the partitions of the window again, in one run, to repeat it."
    )
