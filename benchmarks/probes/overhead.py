"""G: what a window costs beside its Spark write, and where that goes.

In one session, window by window and in alternating order: a bare Spark write of the window, and
ours by a catch-up. `python -m benchmarks.probes.overhead SOURCE FOLDER DAYS ROUNDS` prints JSON.
"""

import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contestants.logdriven import Variant, write_project
from benchmarks.data import midnight
from benchmarks.probes.stopwatch import Stopwatch
from benchmarks.tasks import Task

_WARM_UP = 5
"""Windows at the beginning, which compile and are not counted."""

_EXECUTION, _ENGINE = "logdriven_dagster.execution", "logdriven_dagster.engine"
PARTS = {
    "plan the next window": (
        f"{_EXECUTION}.catching_up.queue:CatchUpQueue.next_ready",
        f"{_EXECUTION}.catching_up.queue:CatchUpQueue.record_event",
    ),
    "run log: reads": ("logdriven_dagster.runlog.store:RunLog.ask",),
    "run log: writes (claim, staged, finish)": ("logdriven_dagster.runlog.store:RunLog.write",),
    "lineage": (f"{_EXECUTION}.listeners.lineage:LineageRecorder._record",),
    "lease: thread begins and ends": (f"{_EXECUTION}.window.leases:HeldLease.keep",),
    "lease: verified before publication": (f"{_EXECUTION}.window.leases:HeldLease.verify",),
    "session of the window": (f"{_ENGINE}.window.engine:fresh_session",),
    "open the source": (f"{_ENGINE}.window.step_results:read_source",),
    "names of the source's files": (f"{_ENGINE}.sources.files.readers:FilesReader.file_names",),
    "view and analysis of the query": (f"{_ENGINE}.queries.views:Views.query",),
    "one file or several": (f"{_ENGINE}.window.session:in_few_files",),
    "Spark's write": (f"{_ENGINE}.spark.actions:Action.run",),
    "source and target counts from Spark's metrics": (f"{_ENGINE}.spark.actions:query_counts",),
    "footers": (f"{_ENGINE}.targets.staged_files:_files_in",),
    "staged rows as a view": (
        f"{_ENGINE}.targets.files.table:WindowFiles.staged_frame",
        f"{_ENGINE}.queries.views:Views.register",
    ),
    "publish": (f"{_ENGINE}.window.session:WindowSession.publish",),
    "rest of staging": (f"{_ENGINE}.window.session:WindowSession.stage",),
    "everything else": ("benchmarks.probes.overhead:_ours",),
}
"""What → the functions whose time it is, without what they spend in others of these."""


def main(source: Path, folder: Path, days: int) -> dict[str, Any]:
    """Median milliseconds of both, their difference, and its parts."""
    watch = Stopwatch()
    for name, places in PARTS.items():
        for place in places:
            # `python -m` knows this module under another name.
            watch.time(name, place.replace(__spec__.name, "__main__") if __spec__ else place)
    from logdriven_dagster.config import load_project
    from logdriven_dagster.engine import spark_session
    from logdriven_dagster.execution.opening import open_runner

    task = Task("map", source, folder, 0, days)
    write_project(task, Variant())
    project = load_project(folder)
    spark = spark_session(project)
    spark.read.parquet(str(source)).createOrReplaceTempView("orders")
    runner = open_runner(project, spark=lambda: spark)
    events = runner.catch_up(midnight(days), ["bench.orders"])
    watch.count_calls()
    bare, ours, parts = [], [], defaultdict[str, list[float]](list)
    calls: defaultdict[str, list[int]] = defaultdict(list)
    for day in range(days):
        works = {"bare": lambda day=day: _bare(spark, task, day), "ours": lambda: _ours(events)}
        took = {}
        for name in sorted(works, reverse=bool(day % 2)):
            watch.taken()
            began = time.perf_counter()
            works[name]()
            took[name] = 1000 * (time.perf_counter() - began)
            if name == "ours":
                seconds, called = watch.taken()
        if day >= _WARM_UP:
            bare.append(took["bare"])
            ours.append(took["ours"])
            for name in PARTS:
                parts[name].append(1000 * seconds.get(name, 0.0))
                calls[name].append(called[name])
    spark.stop()
    difference = [one - other for one, other in zip(ours, bare, strict=True)]
    return {
        "title": f"Cost of a single window, {days} small windows in one session",
        "text": f"Bare write {median(bare):.0f} ms, ours {median(ours):.0f} ms (medians); the "
        f"first tenth {_tenth(ours, 0):.0f} ms, the last {_tenth(ours, -1):.0f} ms.",
        "bare_ms": _rounded(bare),
        "ours_ms": _rounded(ours),
        "overhead_ms": _rounded(difference),
        "parts": {name: round(median(values), 2) for name, values in parts.items()},
        "calls": {name: round(median(values)) for name, values in calls.items()},
    }


def _tenth(values: list[float], which: int) -> float:
    """The median of the first or last tenth: whether the cost grows with the history."""
    size = max(1, len(values) // 10)
    return median(values[:size] if which == 0 else values[-size:])


def _rounded(values: list[float]) -> list[float]:
    return [round(value, 1) for value in values]


def _bare(spark: Any, task: Task, day: int) -> None:
    start, end = (f"TIMESTAMP '{midnight(n):%Y-%m-%d %H:%M:%S}'" for n in (day, day + 1))
    query = task.query("orders", f"ordered_at >= {start} AND ordered_at < {end}")
    spark.sql(query).coalesce(1).write.parquet(str(task.state / "bare" / str(day)))


def _ours(events: Any) -> Any:
    """Go on to the end of one window, which is returned."""
    from logdriven_dagster.execution.events import WindowSucceeded

    while not isinstance(event := next(events), WindowSucceeded):
        assert type(event).__name__ == "WindowStarted", event
    return event


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))))
