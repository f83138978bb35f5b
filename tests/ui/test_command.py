"""`logdriven ui`: what ran by the command line is there as soon as a person looks."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import TypeAlias

import pytest
from dagster import DagsterInstance
from playwright.sync_api import Page, expect

from tests.orchestration.world import ALONE, DAILY, EVENTS, World
from tests.patience import PATIENCE
from tests.ui.server import DagsterDev, wait_for

Picture: TypeAlias = Callable[[str], None]
MEASURES = (
    "seconds",
    "lag_seconds",
    "source_count",
    "target_count",
    "dagster/partition_row_count",
    "dagster/row_count",
)
ADDRESS = re.compile(r"world is at (http://127\.0\.0\.1:\d+) \(Ctrl-C ends it\)")


def logdriven(world: World, *words: str) -> list[str]:
    return [sys.executable, "-m", "logdriven_dagster.cli", *words, "--project", str(world.root)]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark_processes: None) -> World:
    """A project that the command line has run, with a bad day."""
    root = tmp_path_factory.mktemp("command") / "project"
    root.mkdir()
    world = World(root, DagsterInstance.ephemeral())
    ends = {"end": "2022-01-06"}
    lately = f"{datetime.now(timezone.utc) - timedelta(days=6):%Y-%m-%d}"  # as Dagster draws it
    (step,) = ALONE["steps"]
    rows = {**step, "sql": "SELECT explode(sequence(1, dayofweek(:data_range_start))) AS n"}
    recent = {**ALONE, "table": "ods.recent", "default_start": lately, "steps": [rows]}
    world.write({**EVENTS, **ends, "preview": 3}, {**DAILY, **ends}, recent).events(bad_day=4)
    command = logdriven(world, "run")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1
    return world


@pytest.fixture(scope="module")
def dev(shop: World) -> Iterator[DagsterDev]:
    """The command, and the address that it prints last."""
    names = ("DAGSTER_HOME", "LOGDRIVEN_PROJECT")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    process = subprocess.Popen(
        logdriven(shop, "ui"),
        env=environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=(shop.root / "ui.log").open("wb"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    log = shop.root / "ui.log"
    found = wait_for(lambda: process.poll() is not None or ADDRESS.search(log.read_text()))
    assert isinstance(found, re.Match), log.read_text()
    server = DagsterDev(found[1], process)
    yield server
    if process.poll() is None:
        server.stop()


@pytest.mark.usefixtures("long")
def test_what_ran_before_is_there_with_its_columns_and_rows(
    dev: DagsterDev, page: Page, picture: Picture
) -> None:
    shown = {"2022-01-01": "MATERIALIZED to 2022-01-03", "2022-01-04": "FAILED"}
    wait_for(lambda: dev.states("ods.events") == shown and dev.states("dwd.daily"))
    page.goto(f"{dev.url}/assets/ods/events")
    # The rows of the table stand above, those of the newest window among the metadata.
    for shown in ("Row count", "12", "dagster/partition_row_count", "at", "timestamp"):
        place = page.get_by_text(shown, exact=True).first
        expect(place).to_be_visible(timeout=1000 * PATIENCE)
    picture("table")


@pytest.mark.usefixtures("long")
def test_plots_show_measures_by_partition_and_nothing_else(
    dev: DagsterDev, page: Page, picture: Picture
) -> None:
    page.goto(f"{dev.url}/assets/ods/recent")
    page.get_by_text("Plots", exact=True).click()
    for measure in MEASURES:
        heading = page.get_by_text(measure, exact=True)
        expect(heading).to_be_visible(timeout=1000 * PATIENCE)
    expect(page.locator("canvas")).to_have_count(len(MEASURES))
    page.get_by_text("When graphing values by partition").scroll_into_view_if_needed()
    picture("plots")


@pytest.mark.usefixtures("long")
def test_a_window_has_its_history_and_some_sample_rows(
    dev: DagsterDev, page: Page, picture: Picture
) -> None:
    page.goto(f"{dev.url}/assets/ods/events?view=partitions&partition=2022-01-03")
    preview = page.get_by_text("2022-01-03 12:00:00", exact=True)
    for shown in ("load 4 → 4", "logdriven log ods.events --window 2022-01-03 --full"):
        expect(page.get_by_text(shown)).to_be_visible(timeout=1000 * PATIENCE)
    expect(preview).to_have_count(1)
    expect(page.get_by_text("2022-01-03 18:00:00")).to_have_count(0)
    expect(page.get_by_text("Finished: 4 rows read, 4 written")).to_be_visible()
    expect(page.get_by_text("owner", exact=True)).to_have_count(0)
    picture("window")


@pytest.mark.usefixtures("long")
def test_the_location_has_the_projects_name_and_the_sensor_is_shown(
    dev: DagsterDev, page: Page
) -> None:
    page.goto(f"{dev.url}/assets/ods/events")
    for shown in ("world", "catch_up_sensor"):
        expect(page.get_by_text(shown).first).to_be_visible(timeout=1000 * PATIENCE)
    expect(page.get_by_text("No automations found")).to_have_count(0)


@pytest.mark.usefixtures("long")
def test_a_failed_window_leads_to_its_error(dev: DagsterDev, page: Page, picture: Picture) -> None:
    (failed,) = dev.ask("{ runsOrError { ... on Runs { results { runId } } } }")["runsOrError"][
        "results"
    ]
    page.goto(f"{dev.url}/runs/{failed['runId']}")
    told = page.get_by_text("check positive").first
    expect(told).to_be_visible(timeout=1000 * PATIENCE)
    for ghost in ("Failed to start", "Unable to build execution plan"):
        expect(page.get_by_text(ghost)).to_have_count(0)
    page.get_by_text("[Show Markdown]").click()
    expect(page.get_by_text("load FAILURE: check positive: 4 violations")).to_be_visible()
    picture("failure")


@pytest.mark.usefixtures("long")
def test_the_address_is_the_last_thing_and_an_interrupt_ends_everything(
    dev: DagsterDev, shop: World
) -> None:
    told = (shop.root / "ui.log").read_text()
    assert ADDRESS.fullmatch(told.splitlines()[-1]), told
    dev.process.send_signal(signal.SIGINT)
    dev.process.wait(PATIENCE)
