"""`dg` in a project of its own: scaffold, check, list and launch, as people type them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from logdriven_dagster.config.scaffolding.new_project import scaffold

PYPROJECT = """\
[project]
name = "lake"
version = "0.1.0"

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "lake"
"""
DEFINITIONS = """\
from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
YESTERDAY = (datetime.now(timezone.utc) - timedelta(days=1)).date()


@dataclass
class Lake:
    """A project of `dg`, as `create-dagster` lays it out, and its shell."""

    root: Path

    @property
    def shop(self) -> Path:
        return self.root / "src" / "lake" / "defs" / "shop"

    def dg(self, *words: str, code: int = 0) -> str:
        environment = {
            **os.environ,
            "DAGSTER_HOME": str(self.root / "home"),
            "PYTHONPATH": str(self.root / "src"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        program = str(Path(sys.executable).parent / "dg")
        done = subprocess.run(
            [program, *words],
            cwd=self.root,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stdout + done.stderr


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The project, with what `dg scaffold defs` writes of a project and a table of ours."""
    made = Lake(tmp_path_factory.mktemp("dg"))
    (made.root / "home").mkdir()
    (made.root / "home" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    (made.root / "pyproject.toml").write_text(PYPROJECT)
    package = made.root / "src" / "lake"
    (package / "defs").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "defs" / "__init__.py").touch()
    (package / "definitions.py").write_text(DEFINITIONS)
    made.dg("scaffold", "defs", "logdriven_dagster.LogdrivenProjectComponent", "shop")
    made.dg("scaffold", "defs", "logdriven_dagster.TableComponent", "shop/tables/visits")
    return made


def files(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and ".logdriven" not in path.parts
    }


def test_scaffold_writes_what_init_writes(lake: Lake, tmp_path: Path) -> None:
    scaffold(tmp_path / "shop", YESTERDAY)
    own = {"defs.yaml", "tables/visits/defs.yaml"}
    assert files(lake.shop) - own == files(tmp_path / "shop")
    assert "project: ." in (lake.shop / "defs.yaml").read_text()


def test_check_finds_nothing_wrong(lake: Lake) -> None:
    assert "All component YAML validated successfully" in lake.dg("check", "yaml")
    assert "loaded successfully" in lake.dg("check", "defs")


def test_list_shows_tables_jobs_and_sensors(lake: Lake) -> None:
    listed = json.loads(lake.dg("list", "defs", "--json"))
    assert {"ods/orders", "ods/customers", "ods/visits"} <= {
        a["asset_key"] for a in listed["assets"]
    }
    assert "catch_up" in {job["name"] for job in listed["jobs"]}
    assert {"catch_up_sensor", "run_log_mirror"} <= {each["name"] for each in listed["sensors"]}


def test_list_components_knows_both_types(lake: Lake) -> None:
    listed = lake.dg("list", "components", "--json")
    names = {each["key"] for each in json.loads(listed)["items"]}
    ours = {f"logdriven_dagster.{n}" for n in ("LogdrivenProjectComponent", "TableComponent")}
    assert ours <= names


def test_launch_runs_a_window(lake: Lake) -> None:
    lake.dg("launch", "--assets", "ods/visits", "--partition", str(YESTERDAY), code=1)
    days = [str(YESTERDAY - timedelta(days=n)) for n in (2, 1, 0)]
    for day in days:
        lake.dg("launch", "--assets", "ods/visits", "--partition", day)


def broken(path: Path, change: Callable[[str], str]) -> str:
    text = path.read_text()
    path.write_text(change(text))
    return text


def test_a_mistake_in_a_table_is_told_with_file_and_line(lake: Lake) -> None:
    path = lake.shop / "tables" / "visits" / "defs.yaml"
    text = broken(path, lambda text: text.replace("type: iceberg", "type: icebag"))
    try:
        assert "tables/visits/defs.yaml" in lake.dg("check", "yaml", code=1)
        told = lake.dg("check", "defs", "--no-check-yaml", code=1)
        assert "tables/visits/defs.yaml:11" in told
        assert "icebag" in told
    finally:
        path.write_text(text)


def test_a_table_outside_of_a_project_is_not_written(lake: Lake) -> None:
    told = lake.dg("scaffold", "defs", "logdriven_dagster.TableComponent", "visits", code=1)
    assert "below `tables/` of a project, such as shop/tables/visits" in told
    assert "Traceback" not in told
    assert not (lake.shop.parent / "visits").exists()
