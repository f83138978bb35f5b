"""What docs/dagster.md does with `dg`, from an empty folder on, as it stands there."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

import pytest
import requests

from logdriven_dagster.config.scaffolding.new_project import scaffold

PAGE = Path(__file__).resolve().parents[3] / "docs" / "dagster.md"
README = PAGE.parents[1] / "README.md"
BIN = Path(sys.executable).parent


def commands() -> list[list[str]]:
    """The page's first commands, one list of words each; what installs has been done before."""
    block = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    lines = [line.removeprefix("$ ").replace("'", "") for line in block.splitlines()]
    return [line.split() for line in lines if not line.startswith("pip ")]


@dataclass
class Shell:
    """A shell in an empty folder, and what each command has printed."""

    folder: Path
    printed: dict[str, str] = field(default_factory=dict)
    exported: dict[str, str] = field(default_factory=dict)

    @property
    def shop(self) -> Path:
        return self.folder / "src" / "lake" / "defs" / "shop"

    @property
    def first(self) -> date:
        """The day that the scaffolded table begins with: three days before it was made."""
        file = self.shop / "tables" / "visits" / "defs.yaml"
        (start,) = re.findall(r"default_start: [\"']?([\d-]+)", file.read_text())
        return date.fromisoformat(start)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "PYTHONPATH": str(self.folder / "src"),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            **self.exported,
        }

    def run(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stdout + done.stderr


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory, spark_processes: None, long: None) -> Shell:
    """All commands of the page but the last, which serves the UI."""
    made = Shell(tmp_path_factory.mktemp("dg"))
    *all_but_last, last = commands()
    assert last == ["dg", "dev"]
    for words in all_but_last:
        match words:
            case ["cd", name]:
                made.folder /= name
            case ["export", variable]:
                name, value = variable.split("=")
                made.exported[name] = value.replace("$PWD", str(made.folder))
            case ["mkdir", variable]:
                Path(made.exported[variable.removeprefix("$")]).mkdir()
            case _:
                asked = [
                    str(made.first) if re.fullmatch(r"[\d-]+", word) else word for word in words
                ]
                made.printed[" ".join(words[:3])] = made.run(*asked)
    return made


def files(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and ".logdriven" not in path.parts
    }


def test_readme_shows_some_of_them() -> None:
    shown = re.findall(r"^\$ (dg .*)$", README.read_text(), re.MULTILINE)
    assert shown
    assert {*shown} <= {" ".join(words) for words in commands()}


def test_scaffold_writes_what_init_writes(shell: Shell, tmp_path: Path) -> None:
    scaffold(tmp_path / "shop", shell.first)
    own = {"defs.yaml", "tables/visits/defs.yaml"}
    assert files(shell.shop) - own == files(tmp_path / "shop")
    assert "project: ." in (shell.shop / "defs.yaml").read_text()


def test_check_finds_nothing_wrong(shell: Shell) -> None:
    assert "All component YAML validated successfully" in shell.printed["dg check yaml"]
    assert "loaded successfully" in shell.printed["dg check defs"]


def test_list_shows_tables_jobs_and_sensors(shell: Shell) -> None:
    listed = json.loads(shell.run("dg", "list", "defs", "--json"))
    assert {"ods/orders", "ods/visits"} <= {asset["asset_key"] for asset in listed["assets"]}
    assert "catch_up" in {job["name"] for job in listed["jobs"]}
    assert {"catch_up_sensor", "run_log_mirror"} <= {each["name"] for each in listed["sensors"]}


def test_list_components_knows_both_types(shell: Shell) -> None:
    listed = json.loads(shell.run("dg", "list", "components", "--json"))
    ours = {f"logdriven_dagster.{n}" for n in ("LogdrivenProjectComponent", "TableComponent")}
    assert ours <= {each["key"] for each in listed["items"]}


def test_what_was_launched_is_in_the_run_log(shell: Shell) -> None:
    status = json.loads(shell.run("logdriven", "status", "--project", str(shell.shop), "--json"))
    (visits,) = [each for each in status["tables"] if each["table"] == "ods.visits"]
    assert visits["watermark"].startswith(str(shell.first + timedelta(days=1)))


def test_a_later_window_is_refused(shell: Shell) -> None:
    later = str(shell.first + timedelta(days=2))
    told = shell.run("dg", "launch", "--assets", "ods/visits", "--partition", later, code=1)
    assert f"waits for [{shell.first + timedelta(days=1)}" in told


def test_dev_shows_the_tables(shell: Shell) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["dg", "dev", "--port", str(port)]
    with subprocess.Popen(
        words, cwd=shell.folder, env=shell.environment, start_new_session=True
    ) as served:
        try:
            assert "ods/visits" in _assets(port)
        finally:
            os.killpg(served.pid, signal.SIGKILL)  # workers of xdist have others ignored


def _assets(port: int) -> set[str]:
    query = {"query": "{ assetNodes { assetKey { path } } }"}
    until = time.monotonic() + 240
    while True:
        try:
            answer = requests.post(f"http://127.0.0.1:{port}/graphql", json=query, timeout=60)
            if nodes := answer.json()["data"]["assetNodes"]:
                return {"/".join(node["assetKey"]["path"]) for node in nodes}
        except (requests.RequestException, ValueError, KeyError, TypeError):
            pass
        assert time.monotonic() < until, "no assets are shown"
        time.sleep(1)


def test_a_mistake_in_a_table_is_reported_with_file_and_line(shell: Shell) -> None:
    path = shell.shop / "tables" / "visits" / "defs.yaml"
    text = path.read_text()
    path.write_text(text.replace("type: iceberg", "type: icebag"))
    try:
        assert "tables/visits/defs.yaml" in shell.run("dg", "check", "yaml", code=1)
        told = shell.run("dg", "check", "defs", "--no-check-yaml", code=1)
        assert "tables/visits/defs.yaml:11" in told
        assert "icebag" in told
    finally:
        path.write_text(text)


def test_a_table_outside_of_a_project_is_not_written(shell: Shell) -> None:
    words = ("dg", "scaffold", "defs", "logdriven_dagster.TableComponent", "visits")
    told = shell.run(*words, code=1)
    assert "below `tables/` of a project, such as shop/tables/visits" in told
    assert "Traceback" not in told
    assert not (shell.shop.parent / "visits").exists()
