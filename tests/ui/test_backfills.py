"""Backfills, kills and re-executions in a real Dagster: every partition shows what the log says."""

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from dagster import DagsterInstance
from playwright.sync_api import Page, expect

from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.execution.owners import process_of
from logdriven_dagster.model.attempts import Owner
from logdriven_dagster.runlog.history import logs
from tests.orchestration.world import DAILY, EVENTS, World
from tests.patience import PATIENCE
from tests.ui.server import DagsterDev, start, wait_for

pytestmark = pytest.mark.usefixtures("long", "spark_processes")
END = {"end": "2022-01-06"}
HALVES: dict[str, Any] = {
    **EVENTS,
    **END,
    "table": "ods.halves",
    "period": 720,
    "checks": [{"check": "small", "sql": "SELECT * FROM load WHERE value = 3"}],
}
EACH: dict[str, Any] = {**EVENTS, **END, "table": "each.events"}
STUCK: dict[str, Any] = {
    **END,
    "steps": [{"step": "load", "python": "stuck.py:load", "target": {"type": "parquet"}}],
}
STUCK_STEP = """
import time
from pathlib import Path


def load(spark, window, variables):
    while window.start.day == variables["day"] and Path(__file__).with_name("stuck").exists():
        time.sleep(0.1)
    return spark.range(4)
"""
CANCEL = "mutation C($id: String!) { cancelPartitionBackfill(backfillId: $id) { __typename } }"
LOCATION = """
from dagster import BackfillPolicy, Definitions
from dagster.components.resolved.core_models import OpSpec
from logdriven_dagster import build_definitions

one_by_one = OpSpec(backfill_policy=BackfillPolicy.multi_run())
defs = Definitions.merge(
    build_definitions({root!r}, tables=["ods.*", "dwd.*"]),
    build_definitions({root!r}, tables=["each.*"], prefix="each", executor=None, op=one_by_one),
)
"""


def behind(table: str, upstream: str) -> dict[str, Any]:
    (step,) = DAILY["steps"]
    sql = f"SELECT sum(value) AS total FROM {upstream}"
    return {
        **DAILY,
        **END,
        "table": table,
        "depends_on": [upstream],
        "steps": [{**step, "sql": sql}],
    }


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("backfills") / "project"
    root.mkdir()
    world = World(root, DagsterInstance.ephemeral())
    chains = (HALVES, behind("dwd.days", "ods.halves"), EACH, behind("each.days", "each.events"))
    cancelled = {**STUCK, "table": "ods.cancelled", "variables": {"day": 1}}
    killed = {**STUCK, "table": "ods.killed", "variables": {"day": 2}}
    world.write(*chains, cancelled, killed).events()
    (root / "tables" / "stuck.py").write_text(STUCK_STEP)
    (root / "tables" / "stuck").touch()
    (root.parent / "location.py").write_text(LOCATION.format(root=str(root)))
    return world


@pytest.fixture(scope="module")
def dev(shop: World) -> Iterator[DagsterDev]:
    folder = shop.root.parent
    server = start(shop.root, folder / "home", folder / "location.py")
    yield server
    server.stop()


@dataclass
class Launched:
    """What all began together, since Dagster looks at its backfills twice a minute only."""

    chain: str
    one_by_one: str
    cancelled: str
    killed: str


@pytest.fixture(scope="module")
def launched(dev: DagsterDev) -> Launched:
    first, last = "2022-01-01", "2022-01-04"
    return Launched(
        chain=dev.backfill(
            ods__halves=(f"{first}-00:00", f"{last}-12:00"), dwd__days=(first, last)
        ),
        one_by_one=dev.backfill(
            each__events=(first, "2022-01-02"), each__days=(first, "2022-01-02")
        ),
        cancelled=dev.backfill(ods__cancelled=(first, last)),
        killed=dev.backfill(ods__killed=(first, last)),
    )


def attempts(shop: World, table: str) -> list[dict[str, Any]]:
    """The rows of a table's attempts, newest first."""
    return open_runner(shop.project).run_log.ask(lambda conn: logs.list_attempts(conn, table))


def ended(dev: DagsterDev, backfill: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found = dev.backfilled(backfill)
        working = ("REQUESTED", "CANCELING", "FAILING")
        return None if found["status"] in working else found

    found: dict[str, Any] = wait_for(look)
    return found


def test_cancelled_in_the_middle_nothing_is_red(
    dev: DagsterDev, launched: Launched, shop: World
) -> None:
    wait_for(lambda: shop.log("ods.cancelled") == [("20220101", "RUNNING")])
    dev.ask(CANCEL, id=launched.cancelled)
    found = ended(dev, launched.cancelled)
    assert (found["status"], [run["status"] for run in found["runs"]]) == ("CANCELED", ["CANCELED"])
    assert shop.log("ods.cancelled") == [("20220101", "DISCARDED")]
    assert dev.states("ods.cancelled") == {}


def test_a_killed_run_is_red_where_it_was_and_goes_on_from_there(
    dev: DagsterDev, launched: Launched, shop: World
) -> None:
    wait_for(lambda: shop.log("ods.killed")[1:] == [("20220102", "RUNNING")])
    owner = Owner.parse(attempts(shop, "ods.killed")[0]["owner"])
    process = process_of(owner) if owner else None
    assert process is not None
    process.send_signal(signal.SIGKILL)
    (run,) = dev.backfilled(launched.killed)["runs"]
    assert dev.ended(run["runId"])["status"] == "FAILURE"
    # The mirror takes back what the run never began; Dagster's code server, if faster, does not.
    assert dev.states("ods.killed") in (
        {"2022-01-01": "MATERIALIZED", "2022-01-02": "FAILED"},
        {"2022-01-01": "MATERIALIZED", "2022-01-02": "FAILED to 2022-01-04"},
    )
    (shop.root / "tables" / "stuck").unlink()
    assert dev.ended(dev.retry(run["runId"]))["status"] == "SUCCESS"
    done = [day for day, status in shop.log("ods.killed") if status == "SUCCESS"]
    assert done == ["20220101", "20220102", "20220103", "20220104"]
    assert dev.states("ods.killed") == {"2022-01-01": "MATERIALIZED to 2022-01-04"}


def test_runs_of_one_backfill_follow_each_other(
    dev: DagsterDev, launched: Launched, shop: World
) -> None:
    found = ended(dev, launched.one_by_one)
    assert found["status"] == "COMPLETED_SUCCESS"
    assert [run["status"] for run in found["runs"]] == ["SUCCESS", "SUCCESS"]
    for table in ("each.events", "each.days"):
        assert shop.log(table) == [("20220101", "SUCCESS"), ("20220102", "SUCCESS")]
        assert dev.states(table) == {"2022-01-01": "MATERIALIZED to 2022-01-02"}


def test_behind_a_failed_half_the_days_that_are_whole_run(
    dev: DagsterDev,
    launched: Launched,
    shop: World,
    page: Page,
    picture: Callable[[str], None],
) -> None:
    assert ended(dev, launched.chain)["status"] == "COMPLETED_FAILED"
    assert dev.states("ods.halves") == {
        "2022-01-01-00:00": "MATERIALIZED to 2022-01-02-12:00",
        "2022-01-03-00:00": "FAILED",
    }
    assert dev.states("dwd.days") == {"2022-01-01": "MATERIALIZED to 2022-01-02"}
    assert shop.log("dwd.days") == [("20220101", "SUCCESS"), ("20220102", "SUCCESS")]
    page.goto(f"{dev.url}/runs/b/{launched.chain}")
    for shown in ("ods / halves", "dwd / days"):
        expect(page.get_by_text(shown).first).to_be_visible(timeout=1000 * PATIENCE)
    picture("backfill")
