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
from tests.ui.server import DagsterDev, start, wait_for

_CLICKS = 6
_WARM_UP = 1
"""Clicks at the beginning that are not counted: the server compiles."""
_PLACE = """query Place {
  repositoriesOrError { ... on RepositoryConnection { nodes { name location { name } } } }
}"""
_KEYS = (
    """query Keys($path: [String!]!) { assetNodes(assetKeys: [{path: $path}]) { partitionKeys } }"""
)
_LAUNCH = """mutation Launch($params: ExecutionParams!) {
  launchPipelineExecution(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
  }
}"""
_EVENTS = """query Events($id: ID!) {
  runOrError(runId: $id) { ... on Run { status eventConnection { events {
    __typename ... on MessageEvent { timestamp }
  } } } }
}"""
_ENDED = ("SUCCESS", "FAILURE", "CANCELED")


def main(source: Path, folder: Path, days: int, rounds: int) -> dict[str, Any]:
    """Milliseconds from the click to the start of the process, to the window, and to the end."""
    task = Task("map", source, folder / "project", 0, days)
    write_project(task, Variant(spark=(("remote", "auto"),)))
    _spark(task.state, "start")
    try:
        dev = start(task.state, folder / "home")
        try:
            times = _clicks(dev, min(days, _WARM_UP + rounds * _CLICKS))[_WARM_UP:]
        finally:
            dev.stop()
    finally:
        _spark(task.state, "stop")
    begun, made, ended = (list(each) for each in zip(*times, strict=True))
    return {
        "title": "From a click in Dagster's web interface to a materialized window, warm server",
        "text": f"{len(times)} clicks, medians: the run's process begins its step after "
        f"{median(begun) / 1000:.1f} s, the window is materialized after "
        f"{median(made) / 1000:.1f} s, the run has ended after {median(ended) / 1000:.1f} s.",
        "begun_ms": begun,
        "materialized_ms": made,
        "ended_ms": ended,
    }


def _spark(project: Path, word: str) -> None:
    command = [str(Path(own_python()).with_name("logdriven")), "spark", word]
    environment = own_environment()
    subprocess.run(
        [*command, "--project", str(project)], env=environment, stdout=sys.stderr, check=True
    )


def _clicks(dev: DagsterDev, number: int) -> list[tuple[int, int, int]]:
    (place,) = dev.ask(_PLACE)["repositoriesOrError"]["nodes"]
    selector = {
        "repositoryName": place["name"],
        "repositoryLocationName": place["location"]["name"],
        "pipelineName": "__ASSET_JOB",
        "assetSelection": [{"path": TABLE.split(".")}],
    }
    (asset,) = dev.ask(_KEYS, path=TABLE.split("."))["assetNodes"]
    return [_click(dev, selector, key) for key in asset["partitionKeys"][:number]]


def _click(dev: DagsterDev, selector: dict[str, Any], key: str) -> tuple[int, int, int]:
    tags = [{"key": "dagster/partition", "value": key}]
    params = {
        "selector": selector,
        "mode": "default",
        "runConfigData": "{}",
        "executionMetadata": {"tags": tags},
    }
    clicked = 1000 * time.time()
    launched = dev.ask(_LAUNCH, params=params)["launchPipelineExecution"]
    if launched["__typename"] != "LaunchRunSuccess":
        raise RuntimeError(f"Dagster refused the launch: {launched}")
    run = wait_for(lambda: _ended(dev, launched["run"]["runId"]), 120)
    if run["status"] != "SUCCESS":
        raise RuntimeError(f"the run of {key} ended as {run['status']}")
    when = {
        each["__typename"]: float(each["timestamp"]) for each in run["eventConnection"]["events"]
    }
    kinds = ("ExecutionStepStartEvent", "MaterializationEvent", "RunSuccessEvent")
    begun, made, ended = (round(when[kind] - clicked) for kind in kinds)
    return begun, made, ended


def _ended(dev: DagsterDev, run_id: str) -> dict[str, Any] | None:
    run: dict[str, Any] = dev.ask(_EVENTS, id=run_id)["runOrError"]
    return run if run["status"] in _ENDED else None


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), Path(sys.argv[2]), *map(int, sys.argv[3:5]))))
