"""The work that a catch-up is expected to do, by the log of earlier windows."""

from logdriven_dagster.model.runs import ExpectedWork
from logdriven_dagster.planning.plan import Plan
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.history.costs import read_window_costs

_MOST_WINDOWS = 100
"""The number of pending windows up to which the log is asked."""


def expect_work(run_log: RunLog, plan: Plan) -> ExpectedWork | None:
    """Return the expected work for all pending windows of a plan.

    Returns None if no window is pending, or too many are, or a window of a table that has never
    succeeded.
    """
    pending = {name: table.pending for name, table in plan.tables.items() if table.pending}
    if not 0 < sum(pending.values()) <= _MOST_WINDOWS:
        return None
    costs = run_log.ask(lambda conn: read_window_costs(conn, list(pending)))
    if costs.keys() != pending.keys():
        return None
    return ExpectedWork(
        rows=sum(windows * costs[name].read for name, windows in pending.items()),
        seconds=sum(windows * costs[name].seconds for name, windows in pending.items()),
    )
