"""Operators skip windows in the launchpad of Dagster, with who and why."""

from typing import Any

from dagster import AssetKey, DagsterEventType

from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.orchestration.location import SKIP, UNSKIP
from logdriven_dagster.testing.null_engine import null_engine
from tests.builders import at, day
from tests.orchestration.ticks import tick
from tests.orchestration.world import EVENTS, World


def decide(world: World, job: str, **config: Any) -> bool:
    given = {"table": "ods.events", "reason": "the file is lost", "operator": "ann", **config}
    return world.run(job, {"ops": {job: {"config": given}}}).success


def observed(world: World) -> list[tuple[str | None, Any]]:
    found = world.instance.fetch_observations(AssetKey(["ods", "events"]), limit=10).records
    return [
        (record.partition_key, record.asset_observation.metadata["decision"].value)
        for record in found
        if record.asset_observation is not None
    ]


def test_windows_are_skipped_with_who_and_why_and_made_pending_again(world: World) -> None:
    world.write(EVENTS)
    assert decide(world, SKIP, window="2022-01-01", to="2022-01-03")
    assert world.log("ods.events") == [("20220101", "SKIPPED"), ("20220102", "SKIPPED")]
    assert observed(world) == [
        ("2022-01-02", "skip_windows by ann: the file is lost"),
        ("2022-01-01", "skip_windows by ann: the file is lost"),
    ]
    assert decide(world, UNSKIP, window="2022-01-02")
    assert world.log("ods.events")[-1] == ("20220102", "DISCARDED")
    assert observed(world)[0] == ("2022-01-02", "unskip_windows by ann: the file is lost")


def test_a_skipped_window_looks_finished_and_a_window_that_is_pending_again_does_not(
    world: World,
) -> None:
    world.write(EVENTS)
    runner = open_runner(world.project)
    windows = [day(1)]
    runner.skip("ods.events", windows, at("2022-01-02"), "the file is lost", "ann")
    cursor = tick(world)
    assert world.colours("ods.events") == {"materialized": ["2022-01-01"]}
    (record,) = world.instance.fetch_materializations(AssetKey(["ods", "events"]), 10).records
    story = record.asset_materialization.metadata["story"].value
    assert story.startswith("**Skipped**, so no rows were read: skipped by ann")
    assert "`logdriven unskip ods.events --window 2022-01-01`" in story
    runner.unskip("ods.events", windows, at("2022-01-02"), "it was found", "bob")
    tick(world, tick(world, cursor))
    assert world.colours("ods.events") == {"failed": ["2022-01-01"]}
    (run,) = world.instance.get_runs()
    (told,) = world.instance.all_logs(run.run_id, DagsterEventType.ENGINE_EVENT)
    event = told.get_dagster_event()
    assert event.message == "unskipped by bob: it was found"
    assert event.engine_event_data.metadata["story"].value.startswith("**Pending again**")
    with null_engine():
        assert world.materialize("ods.events", "2022-01-01").success
    assert world.colours("ods.events") == {"materialized": ["2022-01-01"]}


def test_windows_that_the_job_skips_look_finished(world: World) -> None:
    world.write(EVENTS)
    assert decide(world, SKIP, window="2022-01-01")
    tick(world)
    assert world.colours("ods.events") == {"materialized": ["2022-01-01"]}


def test_what_cannot_be_skipped_fails_the_run(world: World) -> None:
    world.write(EVENTS)
    assert not decide(world, UNSKIP, window="2022-01-01")
    assert world.log("ods.events") == []


def test_a_window_of_an_earlier_grid_is_made_pending_again_as_a_whole(world: World) -> None:
    world.write(EVENTS)
    assert decide(world, SKIP, window="2022-01-01")
    world.write({**EVENTS, "period": "1 hour"})
    assert not decide(world, UNSKIP, window="2022-01-01T05:00")
    assert world.log("ods.events") == [("20220101", "SKIPPED")]
    assert decide(world, UNSKIP, window="2022-01-01")
    assert world.log("ods.events")[-1] == ("20220101", "DISCARDED")
