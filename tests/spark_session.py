"""One Spark session for all tests of a process: classic, over Connect, or on another server."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import yaml

from logdriven_dagster.config import load_project
from logdriven_dagster.config.project import REMOTE_VARIABLE
from logdriven_dagster.engine import spark_session
from logdriven_dagster.engine.spark.server import lifecycle as connect_server
from logdriven_dagster.engine.spark.settings import launch_settings
from tests.engine.foreign import foreign_server
from tests.lake import Lake

# The first compiler alone starts fastest, and tests end before the second one pays off.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CONNECTIONS = {
    "lite": {"url": "sqlite:///lite.db"},
    "postgres": {"url": "postgresql://u@localhost/x"},
    "maria": {"url": "mysql://u@localhost/x"},
}


FOR_DRIVERS = ("spark.driver.extraClassPath", "spark.driver.extraJavaOptions")

MODE = os.environ.get("LOGDRIVEN_TEST_SPARK", "classic")
"""`connect` has every test of Spark use the project's server of Spark Connect; `foreign` has it use
one that knows nothing of the project, as those of other people."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, lake: Lake) -> Iterator[Any]:
    root = tmp_path_factory.mktemp("spark")
    config = {"spark.driver.extraJavaOptions": JAVA, "spark.driver.memory": "1g", **lake.spark}
    remote = "auto" if MODE == "connect" else "classic"
    settings = {
        "project": "lab",
        "spark": {"master": "local[2]", "remote": remote, "config": config},
        "connections": CONNECTIONS,
    }
    (root / "logdriven.yaml").write_text(yaml.safe_dump(settings))
    project = load_project(root)
    if MODE == "connect":
        connect_server.start(project, lambda _: None)
    with ExitStack() as stack:
        if MODE == "foreign":
            known = launch_settings(project)
            drivers = {name: known[name] for name in FOR_DRIVERS}
            url = stack.enter_context(foreign_server(root, drivers))
            stack.enter_context(pytest.MonkeyPatch.context()).setenv(REMOTE_VARIABLE, url)
        session = spark_session(project)
        yield session
        session.stop()
    connect_server.stop(project, lambda _: None)


@pytest.fixture(autouse=True)
def session_as_before(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves its time zone in the session that all tests share."""
    yield
    if "spark" in request.fixturenames:
        session = request.getfixturevalue("spark")
        assert session.conf.get("spark.sql.session.timeZone") == "UTC"
