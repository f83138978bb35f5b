"""Runs in processes that were loaded before they were needed."""

import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psutil
import pytest
from dagster import DagsterInstance

from logdriven_dagster.execution.owners import process_of
from logdriven_dagster.model.attempts import Owner
from logdriven_dagster.orchestration.launcher import PROCESS_TAG, WarmRunLauncher
from tests.orchestration.world import ALONE, World
from tests.patience import within
from tests.ui.server import DagsterDev, start, wait_for

LAUNCHER = {"module": WarmRunLauncher.__module__, "class": WarmRunLauncher.__name__}
STUCK: dict[str, Any] = {
    "table": "ods.stuck",
    "steps": [{"step": "load", "python": "stuck.py:load", "target": {"type": "parquet"}}],
}
STUCK_STEP = "import time\n\n\ndef load(spark):\n    time.sleep(600)\n"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("launcher") / "project"
    root.mkdir()
    world = World(root, DagsterInstance.ephemeral()).write(ALONE, STUCK)
    (root / "tables" / "stuck.py").write_text(STUCK_STEP)
    return world


@pytest.fixture(scope="module")
def warm(shop: World) -> Iterator[DagsterDev]:
    dev = start(shop.root, shop.root.parent / "home", run_launcher=LAUNCHER)
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


def test_after_the_first_run_each_has_a_process_that_waited_for_it(warm: DagsterDev) -> None:
    assert warm.ended(warm.launch("ods.alone", "2022-01-01"))["status"] == "SUCCESS"
    (spare,) = wait_for(lambda: spares(warm))
    second = warm.launch("ods.alone", "2022-01-02")
    assert process(warm, second) == spare
    assert warm.ended(second)["status"] == "SUCCESS"
    assert wait_for(lambda: [each for each in spares(warm) if each != spare])


def test_termination_reaches_the_process(warm: DagsterDev, shop: World) -> None:
    run = warm.launch("ods.stuck", "2022-01-01")
    wait_for(lambda: shop.log("ods.stuck") == [("20220101", "RUNNING")])
    with within(60):
        warm.ask(f'mutation {{ terminateRun(runId: "{run}") {{ __typename }} }}')
        assert warm.ended(run)["status"] == "CANCELED"
    assert shop.log("ods.stuck") == [("20220101", "DISCARDED")]


def test_a_run_whose_process_is_killed_fails_at_once(warm: DagsterDev, shop: World) -> None:
    run = warm.launch("ods.stuck", "2022-01-01")
    wait_for(lambda: shop.log("ods.stuck")[-1] == ("20220101", "RUNNING"))
    with within(60):
        process(warm, run).send_signal(signal.SIGKILL)
        ended = warm.ended(run)
    assert ended["status"] == "FAILURE"
    assert "ended with exit code -9" in str(ended["eventConnection"])
