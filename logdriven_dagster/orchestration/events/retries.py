"""Re-execution from failure: windows that the failed run has finished do not run again.

Dagster gives the new run all partitions of the old one, and a requested partition is a refresh if
it is finished. A re-execution *from failure* means only the rest.
"""

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.orchestration.dagster_internals import StepContext
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.history.windows import build_window
from logdriven_dagster.runlog.observed.mirror import list_begun_in

_PARENT = "dagster/parent_run_id"
_FROM_FAILURE = ("dagster/is_resume_retry", "dagster/is_asset_resume_retry")


def find_finished_before(context: StepContext, run_log: RunLog, table: TableConfig) -> set[str]:
    """Return the windows of a table that the runs behind this re-execution have finished."""
    runs = _list_failed_runs(context)
    rows = run_log.ask(lambda conn: list_begun_in(conn, runs)) if runs else []
    mine = [row for row in rows if row["job_name"] == table.table]
    done = [row for row in mine if row["status"] == Status.SUCCESS.value]
    return {build_window(table, row).key for row in done}


def _list_failed_runs(context: StepContext) -> list[str]:
    """Return the run that failed, and its own parent, and so on."""
    found: list[str] = []
    tags = context.run.tags
    while any(tags.get(name) == "true" for name in _FROM_FAILURE) and (parent := tags.get(_PARENT)):
        found.append(parent)
        run = context.instance.get_run_by_id(parent)
        tags = run.tags if run else {}
    return found
