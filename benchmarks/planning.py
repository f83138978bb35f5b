"""How long the plan of 1,000 tables over ten years of daily windows takes.

Prints milliseconds (median of five) for empty and for finished histories, and their ratio to merely
building the windows one by one, in the same run.
"""

import statistics
import time
from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.logs import TableLog
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.plan import plan

ZONE = ZoneInfo("Europe/Berlin")
NOW = datetime(2022, 1, 1, 12, tzinfo=ZONE)
TABLES = 1000


def milliseconds(work: Callable[[], object]) -> float:
    """The median of five."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


def table(n: int) -> TableConfig:
    """One of many tables, nine of ten of which depend on the one before."""
    step = {"step": "load", "sql": "SELECT 1", "target": {"type": "iceberg"}}
    values = {"table": f"t{n:04}", "period": 1440, "default_start": "2012-01-01", "steps": [step]}
    values["depends_on"] = [f"t{n - 1:04}"] if n % 10 else []
    return TableConfig.model_validate(values, context={"zone": ZONE})


def main() -> None:
    """Measure and print."""
    tables = {config.table: config for config in map(table, range(TABLES))}
    grid = tables["t0000"].grid
    done = TableLog(finished=(TimeWindow(grid.origin, grid.get_bound(grid.index(NOW) - 1)),))
    built = milliseconds(lambda: list(map(grid.window, range(3653)))) * TABLES
    for name, logs in (("nothing done", {}), ("one day left", dict.fromkeys(tables, done))):
        planned = milliseconds(lambda logs=logs: plan(tables, logs, NOW))
        ready = milliseconds(lambda logs=logs: next(plan(tables, logs, NOW).ready()))
        print(
            f"{name}: plan {planned:.0f} ms, plan and find what is next {ready:.0f} ms; "
            f"building each window: {built:.0f} ms, {built / ready:.0f} times as long"
        )


if __name__ == "__main__":
    main()
