"""A project with an ephemeral Dagster instance and a real run log in a temporary folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import DagsterInstance

from tests.orchestration.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    root = tmp_path / "project"
    root.mkdir()
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield World(root, instance)
