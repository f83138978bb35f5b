"""A project with an ephemeral Dagster instance and a real run log in a temporary folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterInstance

from tests.engine.conftest import spark
from tests.orchestration.world import World

__all__ = ["spark"]


@pytest.fixture
def world(tmp_path: Path, spark: Any) -> Iterator[World]:
    # A process has one JVM: that of `spark` knows the drivers of all databases.
    root = tmp_path / "project"
    root.mkdir()
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield World(root, instance)
