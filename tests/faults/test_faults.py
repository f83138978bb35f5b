"""Runners hurt at every named point; `make faults N=200` is the long one.

The points share a scenario, which is hurt again and again on its way to the end: starting Spark is
what costs time here.
"""

import os
import signal
import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from logdriven_dagster.execution.opening import open_runner
from scripts.servers import MissingServerError
from tests.faults.driver import Driver, driving
from tests.faults.network import wire_to
from tests.faults.peers import URL_VARIABLE, new_peer, private_server
from tests.faults.projects import NOW, make_scenario
from tests.patience import PATIENCE

FREEZE = ("freeze", "between verify and switch", 2)
OFTEN = [("kill", "published", 2), FREEZE]
FAULTS = [
    ("full disk", "staged", 2),
    ("kill", "claimed", 2),
    ("kill", "fenced", 1),
    ("kill", "persisted", 2),
    ("kill", "between verify and switch", 2),
    ("kill", "published", 2),
    FREEZE,
]
Faults = list[tuple[str, str, int]]

pytestmark = pytest.mark.usefixtures("spark_processes")


@pytest.mark.usefixtures("long")
def test_a_kill_and_a_freeze_lose_and_double_nothing(tmp_path):
    driver = hurt_in_turn(tmp_path, OFTEN, days=3)
    assert driver.report.resumed_steps >= 1


@pytest.mark.usefixtures("long")
def test_hurt_at_the_points_of_a_windows_life_nothing_is_lost_or_doubled_y13_y15_k18(tmp_path):
    driver = hurt_in_turn(tmp_path, FAULTS, days=7)
    assert driver.report.resumed_steps >= 2


def hurt_in_turn(folder: Path, faults: Faults, days: int) -> Driver:
    """Return the driver of a scenario that survived these faults, one after the other."""
    with driving(make_scenario("lake", folder, days=days), seed=1) as driver:
        for fault in faults:
            driver.hurt(*fault)
        driver.finish()
    assert driver.report.violations == []
    assert driver.report.faults == {f"{fault}, {point}": 1 for fault, point, _ in faults}
    assert driver.report.slowest_takeover <= 2 + 1.5  # the lease, and one look
    assert (driver.report.zombies, driver.report.zombies_refused) == (1, 1)
    return driver


@pytest.mark.usefixtures("long")
def test_a_query_that_changes_between_faults_is_restated(tmp_path):
    with driving(make_scenario("lake", tmp_path, days=4), seed=1) as driver:
        driver.hurt("kill", "between verify and switch", 7)
        driver.change_query()  # some windows are finished, one is staged by the old query
        driver.hurt("kill", "persisted", 3)
        driver.hurt("kill", "published", 3)
        driver.finish()
        driver.change_query()  # all are finished
        driver.hurt("kill", "staged", 2)
        driver.hurt(*FREEZE)
        driver.finish()
    assert driver.report.violations == []
    assert driver.report.faults.total() == 5


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("lake", "in a transaction of the log"),
        ("lake", "in a transaction of the catalog"),
        ("database", "before a commit"),
    ],
)
def test_a_runner_frozen_inside_a_transaction_of_sqlite_loses_nothing(tmp_path, name, point):
    with driving(make_scenario(name, tmp_path, days=3), seed=1) as driver:
        driver.hurt("freeze", point, 2)
        driver.finish()
    assert driver.report.violations == []
    assert driver.report.faults == {f"freeze, {point}": 1}


@pytest.mark.usefixtures("long")
def test_postgres_restarted_in_the_middle_of_a_catch_up(tmp_path, restartable_postgres):
    url, restart = restartable_postgres
    scenario = make_scenario("database", tmp_path, days=6, server=url)
    runner = open_runner(scenario.project)
    with driving(scenario, seed=1) as driver:
        running = driver.start()
        while not any(table.log.finished for table in runner.plan(NOW).tables.values()):
            assert running.poll() is None
            time.sleep(0.1)
        restart()
        running.communicate(timeout=PATIENCE)
        driver.finish()
    assert driver.report.violations == []


@pytest.fixture(params=["postgresql", "mariadb"])
def peer(request, monkeypatch):
    """A private server for run log, catalog and target."""
    monkeypatch.setenv(URL_VARIABLE, "")
    try:
        with private_server(request.param) as root:
            yield new_peer(root, "faults")
    except MissingServerError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("answer", ["rolled back", "committed, and nobody was told"])
def test_a_target_that_is_killed_in_the_middle_of_a_publication(tmp_path, peer, answer):
    variable = f"${{env:{URL_VARIABLE}}}"
    scenario = make_scenario("database", tmp_path, days=3, target=variable)
    with driving(scenario, seed=1, peer=peer) as driver:
        with wire_to(peer.url.port) as wire:
            url = peer.through(wire.port)
            running = driver.start("freeze", "before a commit", 3, url=url)
            assert os.WIFSTOPPED(os.waitpid(running.pid, os.WUNTRACED)[1])
            if answer == "rolled back":
                peer.kill()
                os.kill(running.pid, signal.SIGCONT)
            else:
                before = publications(peer)
                wire.deafen()
                os.kill(running.pid, signal.SIGCONT)
                while publications(peer) == before:
                    time.sleep(0.05)
                peer.kill()
            running.communicate(timeout=PATIENCE)
        driver.finish()
    assert running.returncode == 0
    assert driver.report.violations == []


def publications(peer):
    """How many windows are published, as the target's own transactions say."""
    engine = sa.create_engine(peer.url, poolclass=NullPool)
    with engine.connect() as conn:
        count = "SELECT count(*) FROM logdriven_commit WHERE staging <> ''"
        return conn.execute(sa.text(count)).scalar()


@pytest.mark.usefixtures("long")
def test_a_server_that_goes_and_a_runner_frozen_in_its_transaction_lose_nothing(tmp_path, peer):
    scenario = make_scenario("lake", tmp_path, days=5, server=f"${{env:{URL_VARIABLE}}}")
    with driving(scenario, seed=1, peer=peer) as driver:
        driver.hurt("freeze", "in a transaction of the catalog", 2)
        driver.hurt_server("network cut", seconds=5)
        driver.hurt_server("server killed", seconds=4)
        driver.finish()
    assert driver.report.violations == []
    assert (driver.report.zombies, driver.report.zombies_refused) == (1, 1)
