"""Upserts in an order in which older windows meet rows of newer ones: `python -m … FOLDER`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from logdriven_dagster.config import load_project
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.model.windows import TimeWindow
from tests.builders import at

BOUNDS = ("2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05")
AGAIN = ("ods.long", "ods.several")


def run(root: Path, spark: Callable[[], Any] | None = None) -> None:
    """Load all tables, then a window in the middle again; of some the first and the last, too."""
    runner, now = open_runner(load_project(root), spark=spark), at(BOUNDS[-1])
    list(runner.catch_up(now))
    for table in runner.project.tables:
        for day in (1, 0, 3) if table in AGAIN else (1,):
            window = TimeWindow(at(BOUNDS[day]), at(BOUNDS[day + 1]))
            list(runner.refresh(table, window, now))


if __name__ == "__main__":
    run(Path(sys.argv[1]))
