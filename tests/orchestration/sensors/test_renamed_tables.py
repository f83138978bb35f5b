"""Partitions of a renamed table: Dagster shows them on the asset of the new name."""

from dagster import AssetKey

from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.orchestration.code_location import build_definitions
from tests.builders import at
from tests.orchestration.ticks import tick
from tests.orchestration.world import ALONE, World

NEW = {**ALONE, "table": "ods.new", "renamed_from": "ods.alone"}


def rename(world: World) -> None:
    (world.root / "tables/ods.alone.yaml").unlink()
    world.write(NEW)


def test_windows_of_the_earlier_name_are_shown_once_under_the_new_one(world: World):
    register(world.write(ALONE).root)
    definitions = build_definitions(world.root)
    assert world.materialize("ods.alone", "2022-01-01", "2022-01-02", definitions).success
    cursor = tick(world, None, definitions)
    registered = register(world.root)
    runner = open_runner(registered.project, run_log=registered.run_log)
    list(runner.catch_up(at("2022-01-04")))  # elsewhere, and not mirrored before the rename

    rename(world)
    definitions = build_definitions(world.root)
    for _ in range(2):
        cursor = tick(world, cursor, definitions)
        green = ["2022-01-01", "2022-01-02", "2022-01-03"]
        assert world.colours("ods.new", definitions) == {"materialized": green}
    records = world.instance.fetch_materializations(AssetKey(["ods", "new"]), limit=10).records
    assert len(records) == 3
    assert world.materialize("ods.new", "2022-01-04", None, definitions).success
    tick(world, cursor, definitions)
    records = world.instance.fetch_materializations(AssetKey(["ods", "new"]), limit=10).records
    assert len(records) == 4
    assert world.log("ods.alone") == []


def test_a_new_instance_shows_them_as_well(world: World):
    registered = register(world.write(ALONE).root)
    runner = open_runner(registered.project, run_log=registered.run_log)
    list(runner.catch_up(at("2022-01-03")))
    rename(world)
    registered = register(world.root)
    runner = open_runner(registered.project, run_log=registered.run_log)
    list(runner.catch_up(at("2022-01-04")))
    definitions = build_definitions(world.root)
    cursor = tick(world, None, definitions)
    green = ["2022-01-01", "2022-01-02", "2022-01-03"]
    assert world.colours("ods.new", definitions) == {"materialized": green}
    tick(world, cursor, definitions)
    records = world.instance.fetch_materializations(AssetKey(["ods", "new"]), limit=10).records
    assert len(records) == 3


def test_a_long_history_is_shown_over_several_ticks(world: World, monkeypatch):
    registered = register(world.write(ALONE).root)
    runner = open_runner(registered.project, run_log=registered.run_log)
    list(runner.catch_up(at("2022-01-06")))
    rename(world)
    definitions = build_definitions(world.root)
    monkeypatch.setattr("logdriven_dagster.orchestration.sensors.mirror._AT_ONCE", 2)
    cursor, shown = None, []
    for _ in range(4):
        cursor = tick(world, cursor, definitions)
        shown.append(len(world.colours("ods.new", definitions).get("materialized", ())))
    assert shown == [2, 4, 5, 5]


def test_dynamic_partitions_are_those_of_the_new_name(world: World):
    deliveries = {**ALONE, "depends_on": ["ods.alone"], "incremental_type": "upstream"}
    deliveries.pop("default_start", None)
    world.write(ALONE, {**deliveries, "table": "dwd.old"})
    registered = register(world.root)
    runner = open_runner(registered.project, run_log=registered.run_log)
    list(runner.catch_up(at("2022-01-03")))
    definitions = build_definitions(world.root)
    cursor = tick(world, None, definitions)
    before = world.colours("dwd.old", definitions)["materialized"]
    assert len(before) == 2
    old = definitions.resolve_asset_graph().get(AssetKey(["dwd", "old"])).partitions_def.name
    assert len(world.instance.get_dynamic_partitions(old)) >= 2

    (world.root / "tables/dwd.old.yaml").unlink()
    world.write({**deliveries, "table": "dwd.new", "renamed_from": "dwd.old"})
    definitions = build_definitions(world.root)
    cursor = tick(world, cursor, definitions)
    assert world.colours("dwd.new", definitions)["materialized"] == before
    assert world.instance.get_dynamic_partitions(old) == []
    list(open_runner(register(world.root).project).catch_up(at("2022-01-04")))
    tick(world, cursor, definitions)
    assert len(world.colours("dwd.new", definitions)["materialized"]) == 3
