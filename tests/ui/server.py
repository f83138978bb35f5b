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

    def run(self, table: str, *, after: int = 0) -> dict[str, Any] | None:
        """The newest run of a table that the browser started, if there are more than `after`."""
        runs = [
            run
            for run in self.ask(_RUNS)["runsOrError"]["results"]
            if run["assetSelection"] == [{"path": table.split(".")}]
            and {"key": "dagster/from_ui"} in run["tags"]
        ]
        return runs[0] if len(runs) > after else None

    def stop(self) -> None:
        """End everything that was started: code servers live in process groups of their own."""
        server = psutil.Process(self.process.pid)
        everything = [server, *server.children(recursive=True)]
        server.terminate()
        _, left = psutil.wait_procs(everything, timeout=5)
        for process in left:
            process.kill()
        self.process.wait(10)


def start(project: Path, home: Path) -> DagsterDev:
    """Start `dagster dev` and wait until it answers."""
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\nnux: {enabled: false}\n")
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
            [*command, "-m", "logdriven_dagster.definitions"],
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
