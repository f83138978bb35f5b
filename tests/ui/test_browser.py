"""What a person does in Dagster's user interface, done by a browser."""

import pytest
from playwright.sync_api import Page, expect

from tests.needs import rarely
from tests.orchestration.world import World
from tests.patience import PATIENCE, within
from tests.ui.server import ENDED, DagsterDev, launch, wait_for


def ended_run(dev: DagsterDev, table: str, *, after: int = 0) -> dict:
    def ended() -> dict | None:
        run = dev.run(table, after=after)
        return run if run and run["status"] in ENDED else None

    return wait_for(ended)


@pytest.mark.usefixtures("long")
def test_the_graph_shows_the_layers_and_their_tables(dev: DagsterDev, page: Page) -> None:
    page.goto(f"{dev.url}/asset-groups")
    for group in ("ods", "dwd"):
        expect(page.get_by_text(group, exact=True).first).to_be_visible(timeout=1000 * PATIENCE)
    page.goto(f"{dev.url}/assets/dwd/daily?view=lineage")
    expect(page.get_by_text("events").first).to_be_visible(timeout=1000 * PATIENCE)


@pytest.mark.usefixtures("long")
def test_a_backfilled_range_stops_at_the_window_that_fails(dev: DagsterDev, page: Page) -> None:
    launch(page, dev, "ods.broken", "[2022-01-01...2022-01-05]")
    assert ended_run(dev, "ods.broken")["status"] == "FAILURE"

    def shows_all_three() -> bool:
        # Dagster's summary of partitions may be behind its events; the page asks for it once.
        page.goto(f"{dev.url}/assets/ods/broken?view=partitions")
        expect(page.get_by_text("Failed (")).to_be_visible(timeout=1000 * PATIENCE)
        return all(page.get_by_text(t).is_visible() for t in ("Materialized (2)", "Failed (1)"))

    wait_for(shows_all_three)
    assert dev.states("ods.broken") == {
        "2022-01-01": "MATERIALIZED to 2022-01-02",
        "2022-01-03": "FAILED",
    }


@pytest.mark.usefixtures("long")
def test_a_backfill_of_thirty_days_finishes(dev: DagsterDev, page: Page) -> None:
    launch(page, dev, "ods.month", "[2022-01-01...2022-01-30]")
    assert ended_run(dev, "ods.month")["status"] == "SUCCESS"
    assert dev.states("ods.month") == {"2022-01-01": "MATERIALIZED to 2022-01-30"}


@pytest.mark.usefixtures("long")
def test_a_cancelled_backfill_of_thirty_days_keeps_its_finished_days(
    dev: DagsterDev, page: Page, ui_world: World
) -> None:
    launch(page, dev, "ods.halting", "[2022-01-01...2022-01-30]")
    run = wait_for(lambda: dev.run("ods.halting"))
    wait_for(lambda: ui_world.log("ods.halting")[10:] == [("20220111", "RUNNING")])
    page.goto(f"{dev.url}/runs/{run['runId']}")
    page.get_by_role("button", name="Terminate").click()
    page.get_by_role("button", name="Terminate 1 run").click()
    assert ended_run(dev, "ods.halting")["status"] == "CANCELED"
    assert ui_world.log("ods.halting")[10:] == [("20220111", "DISCARDED")]
    assert dev.states("ods.halting") == {"2022-01-01": "MATERIALIZED to 2022-01-10"}


@pytest.mark.parametrize("table", ["ods.events", *rarely("ods.files")])
def test_a_partition_materializes_and_a_later_one_is_refused(
    dev: DagsterDev, page: Page, table: str
) -> None:
    launch(page, dev, table, "2022-01-01")
    assert ended_run(dev, table)["status"] == "SUCCESS"
    assert dev.states(table) == {"2022-01-01": "MATERIALIZED"}
    launch(page, dev, table, "2022-01-05")
    refused = ended_run(dev, table, after=1)
    assert refused["status"] == "FAILURE"
    assert dev.states(table) == {"2022-01-01": "MATERIALIZED"}
    page.goto(f"{dev.url}/runs/{refused['runId']}")
    told = page.get_by_text("run [2022-01-02, 2022-01-03) first").first
    expect(told).to_be_visible(timeout=1000 * PATIENCE)
    page.goto(f"{dev.url}/assets/{table.replace('.', '/')}?view=checks")
    expect(page.get_by_text("Succeeded").first).to_be_visible(timeout=1000 * PATIENCE)
    expect(page.get_by_text("Execution failed")).to_have_count(0)


@pytest.mark.usefixtures("long")
def test_terminating_stops_spark_within_seconds(
    dev: DagsterDev, page: Page, ui_world: World
) -> None:
    launch(page, dev, "ods.slow", "2022-01-01")
    run = wait_for(lambda: dev.run("ods.slow"))
    wait_for(lambda: ui_world.log("ods.slow") == [("20220101", "RUNNING")])
    page.goto(f"{dev.url}/runs/{run['runId']}")
    page.get_by_role("button", name="Terminate").click()
    page.get_by_role("button", name="Terminate 1 run").click()
    with within(10):
        wait_for(lambda: ui_world.log("ods.slow") == [("20220101", "DISCARDED")])
    assert ended_run(dev, "ods.slow")["status"] == "CANCELED"
    assert dev.states("ods.slow") == {}
    assert len(dev.runs("ods.slow")) == 1
