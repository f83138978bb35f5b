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
