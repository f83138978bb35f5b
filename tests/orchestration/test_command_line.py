"""Dagster's own commands work on any project folder that LOGDRIVEN_PROJECT names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from dagster import DagsterInstance

from tests.orchestration.world import DAILY, EVENTS, World
from tests.patience import PATIENCE

MODULE = ["-m", "logdriven_dagster.definitions"]


@pytest.fixture
def dagster(world: World, tmp_path: Path):
    """Run a command of Dagster against the world's project and instance."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    environment = os.environ | {
        "DAGSTER_HOME": str(home),
        "LOGDRIVEN_PROJECT": str(world.root),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = Path(sys.executable).with_name("dagster")
        return subprocess.run(
            [program, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    with DagsterInstance.from_config(str(home)) as instance:
        world.instance = instance
        yield run


@pytest.mark.usefixtures("slow")
def test_definitions_validate(world: World, dagster) -> None:
    world.write(EVENTS, DAILY)
    result = dagster("definitions", "validate", *MODULE)
    assert result.returncode == 0, result.stderr
    assert "Validation successful" in result.stderr + result.stdout


ON_NULL_ENGINE = """
import os
from logdriven_dagster import build_definitions
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.testing.null_engine import NullEngine, null_engine

def stage(run, step):
    if "[2022-01-02" in str(run.window):
        raise TerminalStepError("check small finds 4 rows")
    return 4

engine = null_engine(NullEngine(stage=stage))
engine.__enter__()
defs = build_definitions(os.environ["LOGDRIVEN_PROJECT"])
"""


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("command", ["job execute", "asset materialize"])
def test_the_cause_of_a_failure_is_the_last_line(
    world: World, dagster, tmp_path: Path, command: str
) -> None:
    world.write({**EVENTS, "checks": [], "end": "2022-01-03"})
    (tmp_path / "location.py").write_text(ON_NULL_ENGINE)
    what = {
        "job execute": ["-j", "catch_up"],
        "asset materialize": ["--select", "ods/events", "--partition-range"],
    }
    days = ["2022-01-01...2022-01-02"] if command == "asset materialize" else []
    words = [*command.split(), "-f", str(tmp_path / "location.py"), *what[command], *days]
    result = dagster(*words)
    assert result.returncode == 1, result.stderr
    last = result.stderr.rstrip().splitlines()[-1]
    assert last == (
        "ods.events [2022-01-02, 2022-01-03): step load failed: check small finds 4 rows"
    )
    assert world.log("ods.events") == [("20220101", "SUCCESS"), ("20220102", "FAILURE")]


@pytest.mark.usefixtures("slow")
def test_the_cause_of_a_refusal_is_the_last_line(world: World, dagster) -> None:
    world.write(EVENTS)
    words = ["--select", "ods/events", "--partition", "2022-01-05"]
    result = dagster("asset", "materialize", *MODULE, *words)
    assert result.returncode == 1, result.stderr
    assert "run [2022-01-01, 2022-01-02) first" in result.stderr.rstrip().splitlines()[-1]


@pytest.mark.usefixtures("long")
@pytest.mark.usefixtures("spark_processes")
def test_job_execute_runs_the_catch_up(world: World, dagster) -> None:
    world.write(EVENTS).events(days=2, bad_day=2)
    config = world.root / "run.yaml"
    config.write_text("ops: {catch_up: {config: {now: 2022-01-03 00:00}}}")
    result = dagster("job", "execute", *MODULE, "-j", "catch_up", "-c", str(config))
    assert result.returncode == 1, result.stderr
    assert "check positive" in result.stderr
    assert world.colours("ods.events") == {"materialized": ["2022-01-01"], "failed": ["2022-01-02"]}


@pytest.mark.usefixtures("long")
@pytest.mark.usefixtures("spark_processes")
def test_asset_materialize_runs_a_partition(world: World, dagster) -> None:
    world.write(EVENTS).events()
    selected = ["--select", "ods/events", "--partition"]
    result = dagster("asset", "materialize", *MODULE, *selected, "2022-01-01")
    assert result.returncode == 0, result.stderr
    assert world.log("ods.events") == [("20220101", "SUCCESS")]
    assert world.colours("ods.events") == {"materialized": ["2022-01-01"]}
    refused = dagster("asset", "materialize", *MODULE, *selected, "2022-01-05")
    assert refused.returncode == 1
    assert "run [2022-01-02, 2022-01-03) first" in refused.stderr
    assert world.colours("ods.events") == {"materialized": ["2022-01-01"]}
