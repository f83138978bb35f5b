"""A target that is changed over existing rows: Dagster shows it before and when its table runs."""

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
