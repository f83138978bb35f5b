"""After every run Dagster's partitions show what the run log says."""

from datetime import datetime
from typing import Any

import pytest
from dagster import AssetKey

from logdriven_dagster.config import Project
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.model.attempts import Claim, Owner, Trigger
from logdriven_dagster.orchestration.assets import whole_tables
from tests.builders import claim_one, day
from tests.orchestration.world import DAILY, EVENTS, World, failure_of

DAYS = [f"2022-01-{n:02}" for n in range(1, 11)]
NOW = "2022-01-11"


def test_a_range_whose_third_window_fails_is_green_red_and_missing(world: World) -> None:
    world.write(EVENTS).events(bad_day=3)
    result = world.materialize("ods.events", DAYS[0], DAYS[4])
    assert not result.success
    assert "check positive" in failure_of(result)
    assert "To continue: fix the cause, then materialize again" in failure_of(result)
    assert world.colours("ods.events") == {"materialized": DAYS[:2], "failed": [DAYS[2]]}
    assert world.log("ods.events") == [
        ("20220101", "SUCCESS"),
        ("20220102", "SUCCESS"),
        ("20220103", "FAILURE"),
    ]


def test_a_materialization_carries_rows_schema_window_job_and_snapshot(
    spark: Any, world: World
) -> None:
    world.write(EVENTS).events()
    assert world.materialize("ods.events", DAYS[0], DAYS[1]).success
    events = materializations(world, "ods.events")
    assert [event.partition for event in events] == DAYS[:2]
    metadata = events[0].metadata
    assert [event.metadata["dagster/partition_row_count"].value for event in events] == [4, 4]
    assert [event.metadata["dagster/row_count"].value for event in events] == [4, 8]
    assert metadata["source_count"].value == metadata["target_count"].value == 4
    assert metadata["window"].value == "[2022-01-01, 2022-01-02)"
    # Text, since Dagster plots numbers.
    assert (metadata["job_id"].value, metadata["attempt"].value) == ("1", "1")
    assert metadata["snapshot_id"].value
    columns = metadata["dagster/column_schema"].value.columns
    assert [(column.name, column.type) for column in columns] == [
        ("at", "timestamp"),
        ("value", "int"),
    ]


@pytest.mark.usefixtures("long")
def test_a_materialization_carries_the_columns_it_is_made_from_b30(
    spark: Any, world: World
) -> None:
    world.write(EVENTS, DAILY).events()
    assert world.materialize("ods.events dwd.daily", DAYS[0]).success
    (event,) = materializations(world, "dwd.daily")
    deps = event.metadata["dagster/column_lineage"].value.deps_by_column
    (dep,) = deps["total"]
    assert (dep.asset_key, dep.column_name) == (AssetKey(["ods", "events"]), "value")
    (source,) = materializations(world, "ods.events")
    assert "dagster/column_lineage" not in source.metadata  # a file is no asset


def into_database(world: World) -> World:
    """The events go into a table of SQLite."""
    world.settings = {**world.settings, "connections": {"dw": {"url": "sqlite:///dw.db"}}}
    target = {"type": "jdbc", "connection": "dw", "table": "events"}
    (step,) = EVENTS["steps"]
    return world.write({**EVENTS, "steps": [{**step, "target": target}]}).events()


@pytest.mark.usefixtures("long")
def test_a_window_in_a_database_carries_the_rows_of_its_table(
    spark: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_tables, "_SHARE", 1.0)  # however slow this machine is just now
    assert into_database(world).materialize("ods.events", DAYS[0], DAYS[1]).success
    shown = [event.metadata for event in materializations(world, "ods.events")]
    assert [each["dagster/partition_row_count"].value for each in shown] == [4, 4]
    assert [each["dagster/row_count"].value for each in shown] == [4, 8]


@pytest.mark.usefixtures("long")
def test_a_table_that_takes_long_to_count_is_counted_seldom(
    spark: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_tables, "_SHARE", 1e-9)
    assert into_database(world).materialize("ods.events", DAYS[0], DAYS[1]).success
    shown = [event.metadata for event in materializations(world, "ods.events")]
    assert ["dagster/row_count" in each for each in shown] == [True, False]


@pytest.mark.usefixtures("long")
def test_a_run_from_failure_leaves_finished_windows_alone(world: World) -> None:
    world.write(EVENTS, DAILY).events(bad_day=3)
    failed = world.materialize("ods.events dwd.daily", DAYS[0], DAYS[3])
    world.events()
    goes_on = {"dagster/parent_run_id": failed.run_id, "dagster/is_resume_retry": "true"}
    assert world.materialize("ods.events dwd.daily", DAYS[0], DAYS[3], tags=goes_on).success
    done = [(day.replace("-", ""), "SUCCESS") for day in DAYS[:4]]
    assert world.log("ods.events") == [*done[:2], ("20220103", "FAILURE"), *done[2:]]
    assert world.log("dwd.daily") == done
    for table in ("ods.events", "dwd.daily"):
        assert world.colours(table) == {"materialized": DAYS[:4]}


def test_an_out_of_order_window_is_refused_and_stays_missing(world: World) -> None:
    world.write(EVENTS).events()
    result = world.materialize("ods.events", DAYS[4])
    assert not result.success
    assert (
        "run [2022-01-01, 2022-01-02) first, or catch up in order with `logdriven run ods.events`"
        in failure_of(result)
    )
    assert world.colours("ods.events") == {}
    assert world.log("ods.events") == []


@pytest.mark.usefixtures("slow")
def test_a_backfill_over_finished_windows_is_a_refresh(world: World) -> None:
    world.write(EVENTS).events()
    for _ in range(2):
        assert world.materialize("ods.events", DAYS[0], DAYS[1]).success
    assert world.log("ods.events") == [("20220101", "SUCCESS"), ("20220102", "SUCCESS")] * 2
    assert world.colours("ods.events") == {"materialized": DAYS[:2]}


def test_a_failed_refresh_leaves_the_partition_as_it_was_s08(world: World) -> None:
    world.write(EVENTS).events()
    assert world.materialize("ods.events", DAYS[0], DAYS[1]).success
    world.events(bad_day=1)
    result = world.materialize("ods.events", DAYS[0])
    assert not result.success
    assert world.colours("ods.events") == {"materialized": DAYS[:2]}
    found = world.instance.fetch_observations(AssetKey(["ods", "events"]), limit=10).records
    (record,) = [each for each in found if each.partition_key]
    seen = record.asset_observation
    assert seen is not None
    assert (seen.partition, record.run_id) == (DAYS[0], result.run_id)
    assert "its refresh failed; the table is unchanged: ods.events" in seen.description
    story = seen.metadata["story"].value
    assert story.index("FAILURE") < story.index("SUCCESS")


@pytest.mark.usefixtures("slow")
def test_what_lies_behind_a_failed_table_in_one_run_runs_as_far_as_it_can(world: World) -> None:
    total = {**DAILY, "table": "dws.total", "depends_on": ["dwd.daily"]}
    total["steps"] = [{**DAILY["steps"][0], "sql": "SELECT total FROM dwd.daily"}]
    world.write(EVENTS, DAILY, total).events(bad_day=3)
    result = world.materialize("ods.events dwd.daily dws.total", DAYS[0], DAYS[4])
    assert not result.success
    assert world.colours("ods.events") == {"materialized": DAYS[:2], "failed": [DAYS[2]]}
    for behind in ("dwd.daily", "dws.total"):
        assert world.colours(behind) == {"materialized": DAYS[:2]}
        assert world.log(behind) == [("20220101", "SUCCESS"), ("20220102", "SUCCESS")]


@pytest.mark.usefixtures("slow")
def test_of_two_upstreams_the_later_one_runs_what_the_failed_one_left(world: World) -> None:
    other = {**EVENTS, "table": "ods.other", "checks": []}
    both = {**DAILY, "depends_on": ["ods.events", "ods.other"]}
    world.write(EVENTS, other, both).events(bad_day=2)
    assert not world.materialize("ods.events ods.other dwd.daily", DAYS[0], DAYS[2]).success
    assert world.colours("ods.other") == {"materialized": DAYS[:3]}
    assert world.colours("dwd.daily") == {"materialized": DAYS[:1]}


@pytest.mark.usefixtures("slow")
def test_tables_of_one_run_follow_each_other(world: World) -> None:
    world.write(EVENTS, DAILY).events()
    assert world.materialize("ods.events dwd.daily", DAYS[0], DAYS[1]).success
    assert world.colours("dwd.daily") == {"materialized": DAYS[:2]}


@pytest.mark.usefixtures("slow")
def test_a_bad_day_in_a_catch_up_then_its_repair(world: World) -> None:
    world.write(EVENTS, DAILY).events(bad_day=3)
    result = world.catch_up(now=NOW)
    assert not result.success
    assert "4 succeeded, 1 failed, 7 skipped" in failure_of(result)
    assert world.colours("ods.events") == {"materialized": DAYS[:2], "failed": [DAYS[2]]}
    assert world.colours("dwd.daily") == {"materialized": DAYS[:2]}
    world.events()
    assert world.catch_up(now=NOW).success
    assert world.colours("ods.events") == {"materialized": DAYS}
    assert world.colours("dwd.daily") == {"materialized": DAYS}


def test_a_window_that_failed_before_stays_red_when_a_later_one_is_refused(world: World) -> None:
    world.write(EVENTS).events(bad_day=1)
    world.materialize("ods.events", DAYS[0])
    assert not world.materialize("ods.events", DAYS[1]).success
    assert world.colours("ods.events") == {"failed": [DAYS[0]]}


def test_a_window_that_runs_elsewhere_is_left_to_its_runner(world: World) -> None:
    world.write(EVENTS).events()
    claim_elsewhere(world.project)
    result = world.materialize("ods.events", DAYS[0])
    assert result.success
    assert materializations(world, "ods.events") == []
    assert world.log("ods.events") == [("20220101", "RUNNING")]


def test_dynamic_partitions_are_added_and_shown(world: World) -> None:
    world.write({**EVENTS, "period": "2 days"}).events(bad_day=5)
    assert not world.catch_up(now=NOW).success
    assert world.colours("ods.events") == {
        "materialized": ["2022-01-01-00:00", "2022-01-03-00:00"],
        "failed": ["2022-01-05-00:00"],
    }


@pytest.mark.usefixtures("slow")
def test_no_secret_reaches_dagster(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_PASSWORD", "hunter2-top-secret")
    url = "postgresql://bob:${env:WORLD_PASSWORD}@127.0.0.1:1/nowhere"
    world.settings["connections"] = {"shop": {"url": url}}
    source = {"type": "jdbc", "connection": "shop", "table": "orders"}
    step = {"step": "load", "source": source, "target": {"type": "iceberg"}}
    world.write({**EVENTS, "steps": [step], "checks": []})
    world.materialize("ods.events", DAYS[0])
    world.catch_up(now=NOW)
    runs = world.instance.get_runs()
    stored = [str(record) for run in runs for record in world.instance.all_logs(run.run_id)]
    assert any("connection shop: " in text for text in stored)
    assert not [text for text in stored if "hunter2" in text]


def claim_elsewhere(project: Project) -> None:
    now = datetime(2022, 1, 11, tzinfo=project.zone)
    owner = Owner("another-host", 1, 2)
    steps = ("load",)
    claim = Claim(
        "ods.events", day(1), 1440, "time_window", "world", Trigger.PENDING, owner, now, steps
    )
    with open_runner(project).run_log.begin() as conn:
        claim_one(conn, claim)


def materializations(world: World, table: str) -> list:
    key = AssetKey(table.split("."))
    found = world.instance.fetch_materializations(key, limit=100, ascending=True)
    return [record.asset_materialization for record in found.records]
