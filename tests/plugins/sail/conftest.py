"""Sail and Spark side by side, over the same files."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.engine.spark.modes import mode_of
from logdriven_dagster.engine.spark.settings import session_settings
from tests.plugins.sail.engines import Sail, Spark
from tests.plugins.sail.tables import Example, characters, pairs


@pytest.fixture(autouse=True)
def engines(spark_processes: None) -> None:
    """Let every test of this folder start Sail, and Spark next to it."""


@pytest.fixture(scope="session")
def sail_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sail")


@pytest.fixture(scope="session")
def sail(sail_folder: Path) -> Iterator[Sail]:
    started = Sail.started(sail_folder)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def oracle(spark: Any, sail: Sail) -> Iterator[Spark]:
    mode = mode_of(spark)
    session = mode.new_session(spark)
    mode.configure(session, session_settings(load_project(sail.folder)))
    yield Spark(session)
    mode.release(session)


@pytest.fixture(scope="session")
def tables(sail_folder: Path) -> Mapping[str, Example]:
    return {"pairs": pairs(sail_folder), "characters": characters(sail_folder)}
