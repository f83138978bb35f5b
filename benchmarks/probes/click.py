"""J: from a click on Launch in Dagster's web interface to a materialized window.

`dagster dev` runs beside a warm Spark Connect server. What the browser sends on a click is sent to
it, one small window after the other, and its event log tells when the window was materialized and
when its run had ended. `python -m benchmarks.probes.click SOURCE FOLDER DAYS ROUNDS` prints JSON.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contestants.logdriven import TABLE, Variant, write_project
from benchmarks.settings import own_environment, own_python
from benchmarks.tasks import Task
from tests.ui.server import DagsterDev, start

_CLICKS = 6
_WARM_UP = 1
"""Clicks at the beginning that are not counted: the server compiles."""
_PAUSE_SECONDS = 10
"""Until the next click: a person looks at what came of it."""
_INSTANCES: dict[str, dict[str, Any]] = {
    "Dagster's defaults": {},
    "WarmRunLauncher, queue looked at every second": {
        "run_launcher": {
            "module": "logdriven_dagster.orchestration.launcher",
            "class": "WarmRunLauncher",
        },
        "run_coordinator": {
            "module": "dagster.core.run_coordinator",
            "class": "QueuedRunCoordinator",
            "config": {"dequeue_interval_seconds": 1},
        },
    },
}
"""What `dagster.yaml` says, as in docs/spark.md."""
_KEYS = (
    """query Keys($path: [String!]!) { assetNodes(assetKeys: [{path: $path}]) { partitionKeys } }"""
)


def main(source: Path, folder: Path, days: int, rounds: int) -> dict[str, Any]:
    """Milliseconds from the click to the start of the step, to the window, and to the end."""
    task = Task("map", source, folder / "project", 0, days)
    write_project(task, Variant(spark=(("remote", "auto"),)))
    clicks = min(days // len(_INSTANCES), _WARM_UP + rounds * _CLICKS)
    found: dict[str, list[list[int]]] = {}
    _spark(task.state, "start")
    try:
        for n, (name, settings) in enumerate(_INSTANCES.items()):
            dev = start(task.state, folder / f"home-{n}", **settings)
            try:
                times = _clicks(dev, n * clicks, clicks)[_WARM_UP:]
            finally:
                dev.stop()
            found[name] = [list(each) for each in zip(*times, strict=True)]
    finally:
        _spark(task.state, "stop")
    rows = [
        [name, *(f"{median(each) / 1000:.1f}" for each in times)] for name, times in found.items()
    ]
    *_, (_, materialized, _) = found.values()
    return {
        "title": "From a click in Dagster's web interface to a materialized window, warm server",
        "text": f"Seconds after the click, medians of {clicks - _WARM_UP} clicks.",
        "table": {
            "head": ["Dagster instance", "step begins", "materialized", "run ended"],
            "rows": rows,
        },
        "materialized_ms": materialized,
        "milliseconds": found,
    }


def _spark(project: Path, word: str) -> None:
    command = [str(Path(own_python()).with_name("logdriven")), "spark", word]
    environment = own_environment()
    subprocess.run(
        [*command, "--project", str(project)], env=environment, stdout=sys.stderr, check=True
    )


def _clicks(dev: DagsterDev, first: int, number: int) -> list[tuple[int, ...]]:
    (asset,) = dev.ask(_KEYS, path=TABLE.split("."))["assetNodes"]
    return [_click(dev, key) for key in asset["partitionKeys"][first : first + number]]


def _click(dev: DagsterDev, key: str) -> tuple[int, ...]:
    clicked = 1000 * time.time()
    run = dev.ended(dev.launch(TABLE, key))
    time.sleep(_PAUSE_SECONDS)
    if run["status"] != "SUCCESS":
        raise RuntimeError(f"the run of {key} ended as {run['status']}")
    when = {
        each["__typename"]: float(each["timestamp"]) for each in run["eventConnection"]["events"]
    }
    kinds = ("ExecutionStepStartEvent", "MaterializationEvent", "RunSuccessEvent")
    return tuple(round(when[kind] - clicked) for kind in kinds)


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:5]))))
