"""Tables along keys are assets whose partitions appear one after the other."""

import sqlite3
from typing import Any

import pytest
from dagster import AssetKey, DagsterInstance, Definitions

from tests.orchestration.ticks import tick
from tests.orchestration.world import SETTINGS, World, failure_of

ORDERS: dict[str, Any] = {
    "table": "ods.orders",
    "incremental_type": "auto_inc_id",
    "window_size": 10,
    "steps": [
        {
            "step": "load",
            "source": {
                "type": "jdbc",
                "connection": "shop",
                "table": "orders",
                "key_column": "id",
            },
            "target": {"type": "iceberg"},
        }
    ],
}
DAILY: dict[str, Any] = {
    "table": "dws.daily",
    "depends_on": ["ods.orders"],
    "steps": [
        {
            "step": "count",
            "sql": "SELECT count(*) AS n FROM ods.orders",
            "target": {"type": "parquet"},
        }
    ],
}
NOW = "2022-01-02 12:00"


@pytest.fixture
def shop(world: World) -> World:
    connections = {"shop": {"url": "sqlite:///shop.db"}}
    world.settings = {**SETTINGS, "connections": connections}
    place(world.write(ORDERS, DAILY), 1, 10, 11, 25)
    return world


def place(world: World, *ids: int) -> None:
    with sqlite3.connect(world.root / "shop.db") as conn:
        conn.execute("CREATE TABLE IF NOT EXISTS orders (id BIGINT PRIMARY KEY)")
        conn.executemany("INSERT INTO orders VALUES (?)", [(n,) for n in ids])


def keys(world: World, table: str = "ods.orders") -> list[str]:
    return list(world.instance.get_dynamic_partitions(f"slices of {table}"))


def test_lineage_between_slices_and_windows_of_time_is_valid(shop: World) -> None:
    Definitions.validate_loadable(shop.definitions)
    graph = shop.definitions.resolve_asset_graph()
    assert graph.get(AssetKey(["dws", "daily"])).parent_keys == {AssetKey(["ods", "orders"])}


def test_lineage_of_every_kind_in_both_directions_is_valid(shop: World) -> None:
    connections = {**shop.settings["connections"], "broker": {"kafka": {"bootstrap.servers": "b"}}}
    shop.settings["connections"] = connections
    step = {"step": "load", "target": {"type": "iceberg"}}
    lines = {**step, "source": {"type": "csv", "path": "in"}}
    views = {**step, "source": {"type": "kafka", "connection": "broker", "topic": "t"}}
    copy = {**step, "sql": "SELECT 1 AS one"}
    days, orders = "dws.daily", "ods.orders"
    shop.write(
        {"table": "ods.lines", "incremental_type": "files", "steps": [lines]},
        {"table": "ods.views", "incremental_type": "kafka_offset", "steps": [views]},
        batches("dwd.of_slices", copy, orders, "ods.lines", "ods.views"),
        batches("dwd.of_days", copy, days),
        batches("dwd.of_batches", copy, "dwd.of_days"),
        {"table": "dws.behind", "depends_on": ["dwd.of_batches", "ods.views"], "steps": [copy]},
        {"table": "dim.all", "incremental_type": "full", "depends_on": [orders], "steps": [copy]},
    )
    Definitions.validate_loadable(shop.definitions)


def batches(name: str, step: dict[str, Any], *upstreams: str) -> dict[str, Any]:
    return {
        "table": name,
        "incremental_type": "upstream",
        "depends_on": list(upstreams),
        "steps": [step],
    }


@pytest.mark.usefixtures("long")
def test_a_catch_up_makes_one_partition_after_the_other(spark: Any, shop: World) -> None:
    assert shop.catch_up(now=NOW).success
    assert keys(shop) == ["0", "10", "20"]
    assert shop.colours("ods.orders") == {"materialized": ["0", "10", "20"]}
    assert shop.colours("dws.daily") == {"materialized": ["2022-01-01"]}


@pytest.mark.usefixtures("long")
def test_a_materialization_shows_the_range_and_its_rows(spark: Any, shop: World) -> None:
    shop.catch_up(now=NOW)
    event = shop.instance.get_latest_materialization_event(AssetKey(["ods", "orders"]))
    assert event is not None
    materialization = event.asset_materialization
    assert materialization is not None
    metadata = materialization.metadata
    assert metadata["window"].value == "(20, 25]"
    assert (metadata["data_range_start"].value, metadata["data_range_end"].value) == ("20", "25")
    assert metadata["dagster/partition_row_count"].value == metadata["source_count"].value == 1
    assert metadata["dagster/row_count"].value == 4


@pytest.mark.usefixtures("long")
def test_a_look_that_finds_nothing_is_a_materialization_of_no_rows(spark: Any, shop: World) -> None:
    shop.catch_up(now=NOW)
    shop.catch_up(now="2022-01-03 12:00", tables=["ods.orders"])
    event = shop.instance.get_latest_materialization_event(AssetKey(["ods", "orders"]))
    assert event is not None
    materialization = event.asset_materialization
    assert materialization is not None
    assert materialization.partition == "25"
    assert materialization.metadata["dagster/partition_row_count"].value == 0
    assert materialization.metadata["dagster/row_count"].value == 4


@pytest.mark.usefixtures("long")
def test_a_backfill_of_chosen_slices_moves_no_watermark(spark: Any, shop: World) -> None:
    shop.catch_up(now=NOW)
    assert shop.materialize("ods.orders", "0", "10").success
    place(shop, 26)
    assert shop.catch_up(now="2022-01-03 12:00", tables=["ods.orders"]).success
    assert keys(shop) == ["0", "10", "20", "25"]
    assert [start for start, _ in shop.log("ods.orders")] == ["0", "10", "20", "0", "10", "25"]


def test_the_next_slice_can_be_materialized_and_no_other(spark: Any, shop: World) -> None:
    shop.instance.add_dynamic_partitions("slices of ods.orders", ["0", "7"])
    result = shop.materialize("ods.orders", "7")
    assert "ods.orders has no window 7; the next window is 0" in failure_of(result)
    assert shop.materialize("ods.orders", "0").success
    assert shop.colours("ods.orders") == {"materialized": ["0"]}


@pytest.mark.usefixtures("long")
def test_slices_that_others_ran_are_mirrored(spark: Any, shop: World) -> None:
    elsewhere = World(shop.root, DagsterInstance.ephemeral(), shop.settings)
    elsewhere.catch_up(now=NOW)
    tick(shop)
    assert keys(shop) == ["0", "10", "20"]
    assert shop.colours("ods.orders") == {"materialized": ["0", "10", "20"]}
