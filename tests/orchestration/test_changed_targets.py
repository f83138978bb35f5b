"""Changes under finished windows: Dagster shows them on the assets, and when their tables run."""

from typing import Any

import pytest
from dagster import AssetKey, Definitions

from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.orchestration.code_location import build_definitions
from tests.orchestration.world import ALONE, World

STEP = {"step": "one", "sql": "SELECT 1 AS one"}
EFFECT = "one of their rows may be there twice; `logdriven refresh ods.alone"


def alone(**target: Any) -> dict[str, Any]:
    return {**ALONE, "steps": [{**STEP, "target": {"type": "iceberg", **target}}]}


@pytest.fixture
def changed(world: World) -> tuple[World, Definitions]:
    """A day was upserted, and the target overwrites windows now."""
    register(world.write(alone(mode="upsert", key=["one"])).root)
    assert world.materialize("ods.alone", "2022-01-01", None, build_definitions(world.root)).success
    return world.write(alone()), build_definitions(world.root)


def shown(definitions: Definitions) -> str | None:
    spec = definitions.resolve_asset_graph().get(AssetKey(["ods", "alone"]))
    return spec.metadata.get("changed_target")


def test_the_asset_shows_it_until_all_windows_are_written_in_the_new_way(changed):
    world, definitions = changed
    assert EFFECT in shown(definitions)
    assert world.materialize("ods.alone", "2022-01-01", None, definitions).success
    assert shown(build_definitions(world.root)) is None


def test_a_run_warns_of_it_once(changed, capfd):
    world, definitions = changed
    world.materialize("ods.alone", "2022-01-02", "2022-01-03", definitions)
    assert capfd.readouterr().err.count(EFFECT) == 1


def test_the_asset_shows_windows_that_ran_without_a_new_upstream_until_it_has_run(world: World):
    def asset(definitions: Definitions) -> Any:
        return definitions.resolve_asset_graph().get(AssetKey(["ods", "alone"]))

    register(world.write(alone()).root)
    definitions = build_definitions(world.root)
    assert world.materialize("ods.alone", "2022-01-01", None, definitions).success
    new = {**ALONE, "table": "ods.new"}
    world.write(new, {**alone(), "depends_on": ["ods.new"]})
    definitions = build_definitions(world.root)
    text = asset(definitions).metadata["made_without"]
    assert "[2022-01-01, 2022-01-02) ran without ods.new, which has not run yet" in text
    assert world.materialize("ods.new", "2022-01-01", None, definitions).success
    assert "made_without" not in asset(build_definitions(world.root)).metadata
