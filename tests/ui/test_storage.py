"""Dagster's storage on PostgreSQL, as dagster-postgres documents it, beside the run log."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from dagster import DagsterInstance
from sqlalchemy.engine import URL

from tests.orchestration.world import EVENTS, World
from tests.patience import PATIENCE
from tests.servers import new_database
from tests.ui.server import DagsterDev, start


@pytest.fixture(scope="module")
def database(server_urls: dict[str, str]) -> Iterator[URL]:
    """One database for the run log and for Dagster."""
    with new_database(server_urls["LOGDRIVEN_TEST_POSTGRES"]) as url:
        yield url


def storage(url: URL) -> dict[str, Any]:
    """What the documentation of dagster-postgres has people write."""
    place = {"hostname": url.host, "port": url.port, "db_name": url.database}
    user = {"username": url.username, "password": url.password or "none"}
    return {"postgres": {"postgres_db": {**user, **place}}}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, database: URL) -> World:
    root = tmp_path_factory.mktemp("storage") / "project"
    root.mkdir()
    world = World(root, DagsterInstance.ephemeral())
    plain = database.set(drivername="postgresql")
    world.settings["run_log"] = plain.render_as_string(hide_password=False)
    return world.write(EVENTS).events()


@pytest.fixture(scope="module")
def dev(shop: World, database: URL) -> Iterator[DagsterDev]:
    home = shop.root.parent / "home"
    server = start(shop.root, home, storage=storage(database))
    yield server
    server.stop()


def test_a_run_is_started_watched_and_shown(dev: DagsterDev, shop: World) -> None:
    home = Path(shop.root.parent / "home")
    with DagsterInstance.from_config(str(home)) as instance:
        run, heard = dev.launch("ods.events", "2022-01-01"), Event()
        instance.watch_event_logs(run, None, lambda *_: heard.set())
        assert dev.ended(run)["status"] == "SUCCESS"
        assert heard.wait(PATIENCE)
    assert dev.states("ods.events") == {"2022-01-01": "MATERIALIZED"}
    assert shop.log("ods.events") == [("20220101", "SUCCESS")]
