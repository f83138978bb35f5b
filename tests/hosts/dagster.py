"""Dagster on a host: its daemon, its web server, and a backfill as its pages start it."""

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.hosts.machines import DISK, ROOT, Host
from tests.hosts.projects import SECRETS
from tests.hosts.services import DATABASE_PORT, await_port
from tests.patience import PATIENCE

_PORT = 3000
_MODULE = "logdriven_dagster.definitions"
_BACKFILL = """mutation Backfill($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}"""
_STATUS = """query Status($id: String!) {
  partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } }
}"""
_ENDED = {"COMPLETED", "COMPLETED_SUCCESS", "COMPLETED_FAILED", "FAILED", "CANCELED"}


class Dagster:
    """What one host runs of Dagster; its storage is on another one."""

    def __init__(self, host: Host, storage: Host, project: Path) -> None:
        self._host = host
        self._variables = {
            **SECRETS,
            "DAGSTER_HOME": str(DISK / "dagster"),
            "DAGSTER_POSTGRES_URL": f"postgresql://postgres@{storage.name}:{DATABASE_PORT}/dagster",
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "LOGDRIVEN_PROJECT": str(project),
        }
        home = host.disk / "dagster"
        home.mkdir(exist_ok=True)
        shutil.copy(ROOT / "deploy" / "dagster.yaml", home)
        served = {
            "load_from": [{"python_module": {"module_name": _MODULE, "location_name": "hosts"}}]
        }
        (home / "workspace.yaml").write_text(yaml.safe_dump(served))

    def start(self) -> None:
        """Start daemon and web server, as `deploy/` does."""
        workspace = ["--workspace", DISK / "dagster" / "workspace.yaml"]
        web = ["dagster-webserver", "--host", "0.0.0.0", "--port", str(_PORT), *workspace]
        self._host.start(*web, log="webserver", **self._variables)
        self._host.start("dagster-daemon", "run", *workspace, log="daemon", **self._variables)
        await_port(self._host, self._host, _PORT)

    def execute(self, job: str) -> str:
        """Run a job by Dagster's command line, in a process of this host."""
        return self._host.run(
            "dagster", "job", "execute", "-m", _MODULE, "-j", job, timeout=1200, **self._variables
        )

    def backfill(self, table: str, partitions: Sequence[str]) -> str:
        """Run partitions of a table as the pages do; how the backfill ended."""
        params = {
            "assetSelection": [{"path": table.split(".")}],
            "partitionNames": list(partitions),
            "tags": [{"key": "dagster/from_ui", "value": "true"}],
        }
        answer = self._ask(_BACKFILL, params=params)["launchPartitionBackfill"]
        assert answer["__typename"] == "LaunchBackfillSuccess", answer
        deadline = time.monotonic() + 2 * PATIENCE
        while time.monotonic() < deadline:
            status = self._ask(_STATUS, id=answer["backfillId"])["partitionBackfillOrError"][
                "status"
            ]
            if status in _ENDED:
                return str(status)
            time.sleep(2)
        raise RuntimeError("the backfill does not end")

    def _ask(self, query: str, **variables: Any) -> Any:
        ask = Path(__file__).with_name("ask.py")
        return json.loads(self._host.run("python", ask, str(_PORT), query, json.dumps(variables)))
