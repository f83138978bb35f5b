"""Hand-written assets read and write tables as DataFrames."""

from typing import Any

import pytest
from dagster import AssetIn, AssetKey, DailyPartitionsDefinition, Definitions, asset
from sqlalchemy import text

from logdriven_dagster.execution.opening import open_runner
from tests.orchestration.world import EVENTS, World, failure_of

pytestmark = pytest.mark.usefixtures("spark")

DAYS = DailyPartitionsDefinition("2022-01-01")
READS = {"events": AssetIn(AssetKey(["ods", "events"]))}


def merged(world: World, *assets: Any) -> Definitions:
    return Definitions.merge(world.definitions, Definitions(assets=assets))


@pytest.fixture
def loaded(world: World) -> World:
    world.write(EVENTS).events()
    assert world.materialize("ods.events", "2022-01-01", "2022-01-03").success
    return world


@pytest.mark.usefixtures("long")
def test_a_frame_is_read_for_the_window_of_the_partition(loaded: World) -> None:
    seen = []

    @asset(ins=READS, partitions_def=DAYS, io_manager_key="logdriven")
    def report(events: Any) -> None:
        seen.append(sorted(row.value for row in events.collect()))

    result = loaded.materialize("report", "2022-01-02", definitions=merged(loaded, report))
    assert result.success
    assert seen == [[2, 2, 2, 2]]


@pytest.mark.usefixtures("long")
def test_an_unpartitioned_reader_gets_all_rows(loaded: World) -> None:
    seen = []

    @asset(ins=READS)
    def report(events: Any) -> None:
        seen.append(events.count())

    job = merged(loaded, report).resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(
        instance=loaded.instance, asset_selection=[AssetKey("report")]
    ).success
    assert seen == [12]


def test_a_frame_is_published_and_logged_like_a_window(loaded: World) -> None:
    @asset(
        ins=READS,
        key=["dws", "doubled"],
        partitions_def=DAYS,
        io_manager_key="logdriven",
        metadata={"logdriven/target": {"type": "parquet"}},
    )
    def doubled(events: Any) -> Any:
        return events.selectExpr("value * 2 AS twice")

    @asset(
        ins={"doubled": AssetIn(AssetKey(["dws", "doubled"]))},
        partitions_def=DAYS,
        io_manager_key="logdriven",
    )
    def reader(doubled: Any) -> None:
        seen.extend(row.twice for row in doubled.collect())

    seen: list[int] = []
    definitions = merged(loaded, doubled, reader)
    for selected in ("dws.doubled", "dws.doubled", "reader"):
        assert loaded.materialize(selected, "2022-01-02", definitions=definitions).success
    assert seen == [4, 4, 4, 4]
    assert loaded.log("dws.doubled") == [("20220102", "SUCCESS")] * 2
    with open_runner(loaded.project).run_log.read() as conn:
        step = "SELECT step_id, source_type, target_count FROM step_log ORDER BY job_id DESC"
        assert tuple(conn.execute(text(step)).first() or ()) == ("write", "dataframe", 4)
    key = AssetKey(["dws", "doubled"])
    record = loaded.instance.fetch_materializations(key, limit=1).records[0]
    assert record.asset_materialization is not None
    assert record.asset_materialization.metadata["dagster/partition_row_count"].value == 4


@pytest.mark.usefixtures("long")
def test_an_ordered_hand_written_asset_refuses_a_gap(loaded: World) -> None:
    metadata = {"logdriven/ordered": True}

    @asset(ins=READS, partitions_def=DAYS, io_manager_key="logdriven", metadata=metadata)
    def copied(events: Any) -> Any:
        return events

    definitions = merged(loaded, copied)
    result = loaded.materialize("copied", "2022-01-03", definitions=definitions)
    assert "copied [2022-01-03, 2022-01-04) cannot run yet" in failure_of(result)
    assert loaded.colours("copied", definitions) == {}


@pytest.mark.usefixtures("long")
def test_a_frame_without_partitions_is_refused(loaded: World) -> None:
    @asset(ins=READS, io_manager_key="logdriven")
    def copied(events: Any) -> Any:
        return events

    job = merged(loaded, copied).resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(
        instance=loaded.instance, asset_selection=[AssetKey("copied")], raise_on_error=False
    )
    assert "copied has no partitions" in failure_of(result)
