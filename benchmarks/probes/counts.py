"""H: what counting costs, as a share of the write that is counted.

The same windows staged with and without source and target counts, in one session and in alternating
order. `python -m benchmarks.probes.counts SOURCE FOLDER DAYS ROUNDS` prints JSON.
"""

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contestants.logdriven import Variant, write_project
from benchmarks.probes.stopwatch import Stopwatch
from benchmarks.tasks import Task

_ENGINE = "logdriven_dagster.engine"
PARTS = {
    "write": f"{_ENGINE}.spark.actions:Action.run",
    "source": f"{_ENGINE}.spark.actions:query_counts",
    "target": f"{_ENGINE}.targets.staged_files:_files_in",
}
"""What → the function whose time it is."""


def main(source: Path, folder: Path, days: int, rounds: int) -> dict[str, Any]:
    """Shares in percent: of the timers, and of the two ways as wholes."""
    watch = Stopwatch()
    for name, place in PARTS.items():
        watch.time(name, place)
    from logdriven_dagster.config import load_project
    from logdriven_dagster.engine import Engine, spark_session
    from logdriven_dagster.engine.spark import actions
    from logdriven_dagster.engine.spark.actions import QueryCounts
    from logdriven_dagster.model.runs import WindowRun

    task = Task("map", source, folder, 0, days)
    write_project(task, Variant())
    project = load_project(folder)
    engine = Engine(project, spark_session(project))
    table = project.table("bench.orders")
    counting = actions.query_counts
    shares: dict[str, list[float]] = {"source": [], "target": []}
    wholes: dict[str, list[float]] = {"with": [], "without": []}
    for number in range((rounds + 1) * days):
        window = table.grid.window(number % days)
        for way in sorted(wholes, reverse=bool(number % 2)):
            actions.query_counts = counting if way == "with" else lambda *_: QueryCounts(None, None)
            run = WindowRun(number * 2 + (way == "with") + 1, table.table, window, 1, {}, {})
            watch.taken()
            with engine.open_session([run]) as session:
                began = time.perf_counter()
                session.stage(table.steps[0])
                took = time.perf_counter() - began
                seconds, _ = watch.taken()
                session.discard()
            if number < days:
                continue  # the first round compiles
            wholes[way].append(1000 * took)
            if way == "with":
                for name, values in shares.items():
                    values.append(100 * seconds.get(name, 0.0) / seconds["write"])
    engine.spark.stop()
    apart = [a - b for a, b in zip(wholes["with"], wholes["without"], strict=True)]
    return {
        "title": f"Cost of counting, {days} windows written {rounds} times with and without",
        "text": f"Source counts {median(shares['source']):.1f} % of the write, target counts "
        f"{median(shares['target']):.1f} %; staging {median(wholes['with']):.0f} ms with source "
        f"counts, {median(wholes['without']):.0f} ms without, {median(apart):+.0f} ms in pairs.",
        "source_counts_percent": [round(value, 2) for value in shares["source"]],
        "target_counts_percent": [round(value, 2) for value in shares["target"]],
        "with_ms": [round(value) for value in wholes["with"]],
        "without_ms": [round(value) for value in wholes["without"]],
    }


if __name__ == "__main__":
    given = sys.argv[1:]
    print(json.dumps(main(Path(given[0]), Path(given[1]), int(given[2]), int(given[3]))))
