"""U: windows with rules of data quality, one by one and in one pass.

In one session and in turns: the same windows, rules and rows, with `batch_size` 1 and all of them.
What both find must be the same. `python -m benchmarks.probes.rules SOURCE FOLDER DAYS ROUNDS`
prints JSON.
"""

import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contestants.logdriven import Variant, write_project
from benchmarks.data import midnight
from benchmarks.tasks import Task

_RULES = {
    "id": ["order_id"],
    "min_pass": 1,
    "columns": {
        "country": [{"rule": "none_of", "values": ["??"]}],
        "quantity": [{"rule": "not_null", "level": "warn"}],
        "amount": ["not_null", {"rule": "in_range", "min": 0}],
        "order_id": ["not_null"],
    },
}
_WAYS = {"one_by_one": 1, "together": "all"}


def main(source: Path, folder: Path, days: int, rounds: int) -> dict[str, Any]:
    """Seconds of all windows for each way, and their ratio round by round."""
    from logdriven_dagster.engine import spark_session

    spark: Any = None
    seconds: dict[str, list[float]] = {way: [] for way in _WAYS}
    for number in range(rounds + 1):
        found = []
        for way in sorted(_WAYS, reverse=bool(number % 2)):
            task = Task("map", source, folder / way / str(number), 0, days)
            project = _project(task, _WAYS[way])
            spark = spark or spark_session(project)
            took, log = _ran(project, spark, days)
            found.append(log)
            if number:  # the first round compiles
                seconds[way].append(round(took, 2))
        if found[0] != found[1]:
            raise AssertionError("rules have found something else in windows that ran together")
    spark.stop()
    pairs = zip(seconds["together"], seconds["one_by_one"], strict=True)
    ratios = [round(together / alone, 3) for together, alone in pairs]
    return {
        "title": f"Data quality rules, {days} windows in one session",
        "text": f"One by one {median(seconds['one_by_one']):.1f} s, in one pass "
        f"{median(seconds['together']):.1f} s (medians): {median(ratios):.2f} of it.",
        "ratio": ratios,
        **{f"{way}_s": values for way, values in seconds.items()},
    }


def _project(task: Task, size: int | str) -> Any:
    from logdriven_dagster.config import load_project

    table = (("batch_size", size),)
    write_project(task, Variant(table=table, step=(("quality", _RULES),)))
    return load_project(task.state)


def _ran(project: Any, spark: Any, days: int) -> tuple[float, list[Any]]:
    """How long all windows took, and what the log says of rows and rules."""
    from logdriven_dagster.execution.events import WindowSetBack, WindowSucceeded
    from logdriven_dagster.execution.opening import open_runner

    began = time.perf_counter()
    events = list(open_runner(project, spark=lambda: spark).catch_up(midnight(days)))
    took = time.perf_counter() - began
    assert not any(isinstance(event, WindowSetBack) for event in events)
    done = [event.steps[0] for event in events if isinstance(event, WindowSucceeded)]
    assert len(done) == days
    return took, [(step.counts, step.quality.checked, step.quality.results) for step in done]


if __name__ == "__main__":
    given = sys.argv[1:]
    print(json.dumps(main(Path(given[0]), Path(given[1]), int(given[2]), int(given[3]))))
