"""What `max_parallel` gains: four independent tables, one slot against several, in one run.

`python -m benchmarks.side_by_side [ROUNDS]` prints the seconds of each contestant and, since the
machine's load changes, the ratios of contestants of the same round.
"""

import statistics
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from logdriven_dagster.config import load_project
from logdriven_dagster.engine import spark_session
from logdriven_dagster.execution.events import WindowSucceeded
from logdriven_dagster.execution.opening import open_runner

TABLES = 4
SLOTS = (1, 2, 4)
SIZES = {"small": (1_000, 6), "larger": (2_000_000, 3)}
"""Rows and windows of each table."""
NOW = datetime(2022, 2, 1, tzinfo=ZoneInfo("UTC"))
PROJECT = """
project: side_by_side
spark: {master: "local[2]", config: {spark.driver.memory: 2g}}
"""
TABLE = """
table: ods.{name}
period: 1 day
default_start: 2022-01-01
end: 2022-01-{end:02}
steps:
  - step: make
    sql: >-
      SELECT id, sha2(CAST(id AS STRING), 256) AS digest, id % 97 AS part
      FROM range(0, {rows}, 1, 2)
    target: {{type: iceberg}}
"""


def seconds(spark: Any, rows: int, windows: int, slots: int) -> float:
    """How long a new project's catch-up takes; Spark runs already."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "tables").mkdir()
        (root / "logdriven.yaml").write_text(PROJECT)
        for n in range(TABLES):
            text = TABLE.format(name=f"t{n}", rows=rows, end=windows + 1)
            (root / f"tables/t{n}.yaml").write_text(text)
        runner = open_runner(load_project(root), spark=lambda: spark)
        began = time.monotonic()
        events = list(runner.catch_up(NOW, max_parallel=slots))
        took = time.monotonic() - began
    done = [event for event in events if isinstance(event, WindowSucceeded)]
    assert len(done) == TABLES * windows, events
    assert {step.counts.target for event in done for step in event.steps} == {rows}
    return took


def main(rounds: int) -> None:
    """Print a table."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "logdriven.yaml").write_text(PROJECT)
        spark = spark_session(load_project(Path(folder)))
    for size, (rows, windows) in SIZES.items():
        for slots in SLOTS:  # warms the JVM up
            seconds(spark, rows, 1, slots)
        took: dict[int, list[float]] = {slots: [] for slots in SLOTS}
        for _ in range(rounds):
            for slots in SLOTS:
                took[slots].append(seconds(spark, rows, windows, slots))
        for slots in SLOTS:
            ratios = [one / many for one, many in zip(took[1], took[slots], strict=True)]
            each = statistics.median(took[slots]) / (TABLES * windows)
            spread = f"{min(ratios):.2f}–{max(ratios):.2f}"
            print(
                f"{size:7} max_parallel {slots}: {statistics.median(took[slots]):6.2f} s, "
                f"{each:.3f} s a window, {statistics.median(ratios):.2f} × as fast ({spread})",
                flush=True,
            )
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
