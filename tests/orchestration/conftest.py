"""A project with an ephemeral Dagster instance and a real run log in a temporary folder.

Its windows run on the null engine, or on real Spark in a test that asks for `spark` as well.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from logdriven_dagster.config.models.steps import CheckConfig, StepConfig
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import WindowRun
from logdriven_dagster.testing.null_engine import NullEngine, null_engine
from tests.builders import at
from tests.dagster_instances import local_instance
from tests.orchestration.world import World


def values_of(file: Path, run: WindowRun) -> list[int]:
    """Return the values of the events of a window."""
    lines = [line.split(",") for line in file.read_text().splitlines()[1:]]
    return [int(v) for time, v in lines if run.window.start <= at(time) < run.window.end]


@pytest.fixture
def world(
    tmp_path: Path, request: pytest.FixtureRequest, instance_template: Path
) -> Iterator[World]:
    root = tmp_path / "project"
    root.mkdir()
    events = root / "events.csv"

    def stage(run: WindowRun, step: StepConfig) -> int:
        return len(values_of(events, run)) if step.source else 1

    def check(run: WindowRun, check: CheckConfig) -> None:
        if bad := [value for value in values_of(events, run) if value < 0]:
            raise TerminalStepError(f"check {check.check} finds {len(bad)} rows")

    with ExitStack() as opened:
        if "spark" in request.fixturenames:
            # A process has one JVM: that of `spark` knows the drivers of all databases.
            request.getfixturevalue("spark")
        else:
            opened.enter_context(null_engine(NullEngine(stage=stage, check=check)))
        instance = opened.enter_context(local_instance(tmp_path, instance_template))
        yield World(root, instance)
