"""`dagster dev` on a small project, asked over GraphQL and used through a browser."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml
from playwright.sync_api import Page

from tests.patience import PATIENCE

_STATES = """query States($path: [String!]!) {
  assetNodes(assetKeys: [{path: $path}]) {
    assetPartitionStatuses { ... on TimePartitionStatuses { ranges { status startKey endKey } } }
  }
}"""
_RUNS = """query Runs {
  runsOrError { ... on Runs { results { runId status assetSelection { path } tags { key } } } }
}"""
_RUN = """query Run($id: ID!) {
  runOrError(runId: $id) { ... on Run { status tags { key value } eventConnection { events {
    __typename ... on MessageEvent { timestamp message }
  } } } }
}"""
_PLACE = """query Place {
  repositoriesOrError { ... on RepositoryConnection { nodes { name location { name } } } }
}"""
_LAUNCH = """mutation Launch($params: ExecutionParams!) {
  launchPipelineExecution(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
  }
}"""
_RETRY = """mutation Retry($params: ReexecutionParams!) {
  launchRunReexecution(reexecutionParams: $params) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
  }
}"""
_LAUNCH_BACKFILL = """mutation LaunchBackfill($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}"""
_BACKFILL = """query Backfill($id: String!) {
  partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status runs(limit: 100) {
    runId status
  } } }
}"""
_PARTLY_ON_SPARK = Path(__file__).with_name("location.py")
ON_SPARK = {"engine": "spark"}
"""Tags of a table whose windows run on Spark; those of other tables run on the null engine."""
ENDED = ("SUCCESS", "FAILURE", "CANCELED")


@dataclass
class DagsterDev:
    """A running web server and daemon, and the process that holds them."""

    url: str
    process: subprocess.Popen[bytes]

    def ask(self, query: str, **variables: Any) -> Any:
        """The data that a GraphQL query answers with."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/graphql", body, headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)["data"]

    def states(self, table: str) -> dict[str, str]:
        """First partition of each range of equal state → `state` or `state to last partition`."""
        nodes = self.ask(_STATES, path=table.split("."))["assetNodes"]
        ranges = nodes[0]["assetPartitionStatuses"]["ranges"]
        return {
            item["startKey"]: item["status"]
            + (f" to {item['endKey']}" if item["endKey"] != item["startKey"] else "")
            for item in ranges
        }

    def runs(self, table: str) -> list[dict[str, Any]]:
        """All runs of a table, whoever started or recorded them, newest first."""
        runs: list[dict[str, Any]] = self.ask(_RUNS)["runsOrError"]["results"]
        return [run for run in runs if run["assetSelection"] == [{"path": table.split(".")}]]

    def run(self, table: str, *, after: int = 0) -> dict[str, Any] | None:
        """The newest run of a table that the browser started, if there are more than `after`."""
        runs = [run for run in self.runs(table) if {"key": "dagster/from_ui"} in run["tags"]]
        return runs[0] if len(runs) > after else None

    def launch(self, table: str, partition: str) -> str:
        """Launch a table's partition, as the browser does on a click; the run's id."""
        (place,) = self.ask(_PLACE)["repositoriesOrError"]["nodes"]
        selector = {
            "repositoryName": place["name"],
            "repositoryLocationName": place["location"]["name"],
            "pipelineName": "__ASSET_JOB",
            "assetSelection": [{"path": table.split(".")}],
        }
        params = {
            "selector": selector,
            "mode": "default",
            "runConfigData": "{}",
            "executionMetadata": {"tags": [{"key": "dagster/partition", "value": partition}]},
        }
        launched = self.ask(_LAUNCH, params=params)["launchPipelineExecution"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return str(launched["run"]["runId"])

    def retry(self, run_id: str) -> str:
        """Execute again what failed in a run; the id of the new run."""
        params = {"parentRunId": run_id, "strategy": "FROM_FAILURE"}
        launched = self.ask(_RETRY, params=params)["launchRunReexecution"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return str(launched["run"]["runId"])

    def backfill(self, **ranges: tuple[str, str]) -> str:
        """Launch a backfill of tables (`ods__events`), each from a partition to another; its id."""
        of_assets = [
            {
                "assetKey": {"path": table.split("__")},
                "partitions": {"range": {"start": start, "end": end}},
            }
            for table, (start, end) in ranges.items()
        ]
        params = {"partitionsByAssets": of_assets, "fromFailure": False}
        launched = self.ask(_LAUNCH_BACKFILL, params=params)["launchPartitionBackfill"]
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        return str(launched["backfillId"])

    def backfilled(self, backfill_id: str) -> dict[str, Any]:
        """The status and the runs of a backfill."""
        found: dict[str, Any] = self.ask(_BACKFILL, id=backfill_id)["partitionBackfillOrError"]
        return found

    def look(self, run_id: str) -> dict[str, Any]:
        """The status, the tags and the events of a run."""
        run: dict[str, Any] = self.ask(_RUN, id=run_id)["runOrError"]
        return run

    def ended(self, run_id: str) -> dict[str, Any]:
        """What a run looks like at its end."""

        def look() -> dict[str, Any] | None:
            return run if (run := self.look(run_id))["status"] in ENDED else None

        run: dict[str, Any] = wait_for(look)
        return run

    def stop(self) -> None:
        """End everything that was started: code servers live in process groups of their own."""
        server = psutil.Process(self.process.pid)
        everything = [server, *server.children(recursive=True)]
        server.terminate()
        _, left = psutil.wait_procs(everything, timeout=5)
        for process in left:
            process.kill()
        self.process.wait(10)


def start(
    project: Path, home: Path, code_location: Path = _PARTLY_ON_SPARK, **settings: Any
) -> DagsterDev:
    """Start `dagster dev` with these settings of its instance and wait until it answers.

    `code_location` is a Python file; by default the one by which the project needs no Spark.
    """
    home.mkdir()
    quiet = {"telemetry": {"enabled": False}, "nux": {"enabled": False}}
    (home / "dagster.yaml").write_text(yaml.safe_dump(quiet | settings))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "DAGSTER_HOME": str(home),
        "LOGDRIVEN_PROJECT": str(project),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [Path(sys.executable).with_name("dagster"), "dev", "-h", "127.0.0.1", "-p", str(port)]
    with (home / "dev.log").open("wb") as output:
        process = subprocess.Popen(
            [*command, "-f", code_location],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    dev = DagsterDev(f"http://127.0.0.1:{port}", process)
    wait_for(lambda: _answers(dev))
    return dev


def launch(page: Page, dev: DagsterDev, table: str, partitions: str) -> None:
    """Open a table, choose partitions as a user would type them, and launch."""
    page.goto(f"{dev.url}/assets/{table.replace('.', '/')}")
    page.get_by_role("button", name="Materialize…").click()
    page.get_by_text("Show all partitions").click()
    field = page.locator(".dialog input[type=text], [role=dialog] input[type=text]").first
    field.fill(partitions)
    field.press("Enter")
    page.get_by_role("button", name="Launch").last.click()
    page.get_by_text("Launch runs to materialize").wait_for(state="hidden")


def wait_for(condition: Callable[[], Any]) -> Any:
    """What the condition gives once it is true; AssertionError if it never is."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if result := condition():
            return result
        time.sleep(0.3)
    raise AssertionError(f"not within {PATIENCE} seconds")


def _answers(dev: DagsterDev) -> bool:
    if dev.process.poll() is not None:
        raise AssertionError("dagster dev ended by itself")
    try:
        return "results" in dev.ask(_RUNS)["runsOrError"]
    except OSError:
        return False
