"""Runs in processes loaded before they are needed, with Dagster's storage on PostgreSQL."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pytest
from dagster import DagsterInstance
from sqlalchemy.engine import URL

from logdriven_dagster.execution.owners import process_of
from logdriven_dagster.model.attempts import Owner
from logdriven_dagster.orchestration.launcher import PROCESS_TAG, WarmRunLauncher
from tests.orchestration.world import ALONE, EVENTS, World
from tests.patience import PATIENCE, within
from tests.servers import new_database
from tests.ui.server import ON_SPARK, DagsterDev, start, wait_for

LAUNCHER = {"module": WarmRunLauncher.__module__, "class": WarmRunLauncher.__name__}
STUCK: dict[str, Any] = {**ALONE, "table": "ods.stuck"}
SPARKY: dict[str, Any] = {**ALONE, "table": "ods.sparky", "tags": ON_SPARK}


@pytest.fixture(scope="module")
def database(server_urls: dict[str, str]) -> Iterator[URL]:
    """One database for the run log and for Dagster."""
    with new_database(server_urls["LOGDRIVEN_TEST_POSTGRES"]) as url:
        yield url


def storage(url: URL) -> dict[str, Any]:
    """Settings as the documentation of dagster-postgres has them."""
    place = {"hostname": url.host, "port": url.port, "db_name": url.database}
    user = {"username": url.username, "password": url.password or "none"}
    return {"postgres": {"postgres_db": {**user, **place}}}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, database: URL) -> World:
    root = tmp_path_factory.mktemp("launcher") / "project"
    root.mkdir()
    world = World(root, DagsterInstance.ephemeral())
    plain = database.set(drivername="postgresql")
    world.settings["run_log"] = plain.render_as_string(hide_password=False)
    return world.write(EVENTS, SPARKY, STUCK).events()


@pytest.fixture(scope="module")
def warm(shop: World, database: URL, spark_processes: None) -> Iterator[DagsterDev]:
    home = shop.root.parent / "home"
    dev = start(shop.root, home, run_launcher=LAUNCHER, storage=storage(database))
    yield dev
    dev.stop()


def spares(dev: DagsterDev) -> list[psutil.Process]:
    """Processes that wait for a run: they were told none, so they have no JVM."""
    return [
        each for each in psutil.Process(dev.process.pid).children(recursive=True) if waits(each)
    ]


def waits(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):  # it may end while it is looked at
        return (
            process.status() != psutil.STATUS_ZOMBIE
            and any("run_worker" in word for word in process.cmdline())
            and not process.children()
        )
    return False


def tag(run: dict[str, Any]) -> str | None:
    return {each["key"]: each["value"] for each in run["tags"]}.get(PROCESS_TAG)


def process(dev: DagsterDev, run_id: str) -> psutil.Process:
    owner = Owner.parse(wait_for(lambda: tag(dev.look(run_id))))
    assert owner is not None
    found = process_of(owner)
    assert found is not None
    return found


@pytest.mark.usefixtures("long")
def test_a_run_is_started_watched_and_shown(warm: DagsterDev, shop: World) -> None:
    home = Path(shop.root.parent / "home")
    with DagsterInstance.from_config(str(home)) as instance:
        run, heard = warm.launch("ods.events", "2022-01-01"), Event()
        instance.watch_event_logs(run, None, lambda *_: heard.set())
        assert warm.ended(run)["status"] == "SUCCESS"
        assert heard.wait(PATIENCE)
    assert warm.states("ods.events") == {"2022-01-01": "MATERIALIZED"}
    assert shop.log("ods.events") == [("20220101", "SUCCESS")]


@pytest.mark.usefixtures("long")
def test_after_the_first_run_each_has_a_process_that_waited_for_it(warm: DagsterDev) -> None:
    first = warm.launch("ods.events", "2022-01-02")
    worker = process(warm, first)
    assert warm.ended(first)["status"] == "SUCCESS"
    (spare,) = wait_for(lambda: [each for each in spares(warm) if each != worker])
    second = warm.launch("ods.sparky", "2022-01-01")
    assert process(warm, second) == spare
    assert warm.ended(second)["status"] == "SUCCESS"
    assert wait_for(lambda: [each for each in spares(warm) if each != spare])


@pytest.mark.usefixtures("long")
def test_termination_reaches_the_process(warm: DagsterDev, shop: World) -> None:
    run = warm.launch("ods.stuck", "2022-01-01")
    wait_for(lambda: shop.log("ods.stuck") == [("20220101", "RUNNING")])
    with within(60):
        warm.ask(f'mutation {{ terminateRun(runId: "{run}") {{ __typename }} }}')
        assert warm.ended(run)["status"] == "CANCELED"
    assert shop.log("ods.stuck") == [("20220101", "DISCARDED")]


@pytest.mark.usefixtures("long")
def test_a_run_whose_process_is_killed_fails_at_once(warm: DagsterDev, shop: World) -> None:
    run = warm.launch("ods.stuck", "2022-01-01")
    wait_for(lambda: shop.log("ods.stuck")[-1] == ("20220101", "RUNNING"))
    with within(60):
        process(warm, run).send_signal(signal.SIGKILL)
        ended = warm.ended(run)
    assert ended["status"] == "FAILURE"
    assert "ended with exit code -9" in str(ended["eventConnection"])
