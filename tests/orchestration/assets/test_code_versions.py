"""Dagster shows exactly the partitions as stale whose windows older versions of a table made."""

from typing import Any

import pytest
from dagster import AssetKey, Definitions
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.orchestration.code_location import build_definitions
from tests.builders import at, day
from tests.orchestration.ticks import tick
from tests.orchestration.world import ALONE, World

DAYS = ("2022-01-01", "2022-01-02")


def alone(sql: str = "SELECT 1 AS one", **fields: Any) -> dict[str, Any]:
    step = {"step": "one", "sql": sql, "target": {"type": "iceberg"}}
    return {**ALONE, "steps": [step], **fields}


def below() -> dict[str, Any]:
    step = {"step": "one", "sql": "SELECT * FROM ods.alone", "target": {"type": "iceberg"}}
    return {**ALONE, "table": "dws.below", "depends_on": ["ods.alone"], "steps": [step]}


def stale(world: World, table: str, definitions: Definitions) -> dict[str, list[str]]:
    """The stale partitions of a table as Dagster shows them, each with the reasons."""
    graph = definitions.resolve_asset_graph()
    context = LoadingContextForTest(world.instance)
    resolver = CachingStaleStatusResolver(world.instance, graph, context)
    key = AssetKey(table.split("."))
    found = {each: resolver.get_stale_causes(key, each) for each in DAYS}
    return {each: [cause.reason for cause in causes] for each, causes in found.items() if causes}


@pytest.fixture
def made(world: World) -> World:
    """Two days of two tables, which ran in Dagster."""
    register(world.write(alone(), below()).root)
    definitions = build_definitions(world.root)
    for each in DAYS:
        assert world.materialize("ods.alone dws.below", each, None, definitions).success
    return world


def test_no_partition_is_stale_while_nothing_has_changed(made: World):
    definitions = build_definitions(made.root)
    assert stale(made, "ods.alone", definitions) == stale(made, "dws.below", definitions) == {}


def test_a_changed_query_makes_every_partition_stale_until_it_runs_again(made: World):
    made.write(alone("SELECT 2 AS one"))
    definitions = build_definitions(made.root)
    new = ["has a new code version"]
    assert stale(made, "ods.alone", definitions) == dict.fromkeys(DAYS, new)
    assert made.materialize("ods.alone", DAYS[0], None, definitions).success
    assert stale(made, "ods.alone", build_definitions(made.root)) == {DAYS[1]: new}


def test_a_cosmetic_change_makes_no_partition_stale(made: World):
    made.write(alone("select 1 as one -- the only row", description="One row a day."))
    assert stale(made, "ods.alone", build_definitions(made.root)) == {}
    register(made.root)
    assert stale(made, "ods.alone", build_definitions(made.root)) == {}


def test_windows_that_ran_outside_have_the_version_that_made_them(made: World):
    made.write(alone("SELECT 2 AS one"))
    register(made.root)
    definitions = build_definitions(made.root)
    runner = open_runner(register(made.root).project)
    (window,) = runner.windows("ods.alone", day(1))
    assert list(runner.refresh_windows("ods.alone", [window], at("2022-01-11")))
    tick(made, definitions=definitions)
    assert stale(made, "ods.alone", definitions) == {DAYS[1]: ["has a new code version"]}


def test_the_asset_and_the_partition_name_the_versions(made: World):
    made.write(alone("SELECT 2 AS one"))
    register(made.root)
    definitions = build_definitions(made.root)
    spec = definitions.resolve_asset_graph().get(AssetKey(["ods", "alone"]))
    assert spec.code_version == "2"
    text = "2 of 2 windows by version 1 (2: changed column one)"
    assert spec.metadata["old_windows"].startswith(text)
    event = made.instance.get_latest_materialization_event(AssetKey(["ods", "alone"]))
    assert event is not None
    assert event.asset_materialization is not None
    assert event.asset_materialization.metadata["table_version"].value == "1"
