"""A refresh that failed is a check of its table that fails until the windows have run again."""

from typing import Any

import pytest
from dagster import AssetCheckEvaluation, AssetCheckKey, AssetCheckSeverity, AssetKey

from logdriven_dagster.config.models.rules import LATEST_REFRESH
from logdriven_dagster.model.attempts import Status, Trigger
from tests.orchestration.ticks import claim, end, tick
from tests.orchestration.world import EVENTS, World

KEY = AssetCheckKey(AssetKey(["ods", "events"]), LATEST_REFRESH)
DAYS = ("2022-01-01", "2022-01-02")


def evaluations(world: World) -> list[AssetCheckEvaluation]:
    """All evaluations of the check, oldest first."""
    storage: Any = world.instance.event_log_storage
    records = storage.get_asset_check_execution_history(KEY, limit=10)
    assert all(record.evaluation for record in records), "a run left a check that it planned"
    return [record.evaluation for record in reversed(records)]


@pytest.mark.usefixtures("slow")
def test_a_run_evaluates_it_once_its_refresh_fails_and_once_it_is_repeated(world: World) -> None:
    world.write(EVENTS).events()
    assert world.materialize("ods.events", *DAYS).success
    assert evaluations(world) == []
    world.events(bad_day=1)
    for _ in range(2):
        assert not world.materialize("ods.events", *DAYS).success
    world.events()
    assert world.materialize("ods.events", DAYS[1]).success
    again = evaluations(world)
    assert [each.passed for each in again] == [False, False]
    assert world.materialize("ods.events", *DAYS).success
    failed, repeated, passed = evaluations(world)
    assert passed.passed
    assert (failed.severity, failed.blocking) == (AssetCheckSeverity.WARN, False)
    assert "[2022-01-01, 2022-01-02): its refresh, job 3, failed: " in failed.description
    assert "check positive finds 4 rows; the result of job 1 at " in failed.description
    assert "job 4, failed" in repeated.description
    assert world.colours("ods.events") == {"materialized": list(DAYS)}


def test_the_mirror_evaluates_it_for_refreshes_that_ran_elsewhere(world: World) -> None:
    world.write(EVENTS)
    end(world, claim(world, 1))
    end(world, claim(world, 1, trigger=Trigger.REFRESH), Status.FAILURE)
    cursor = tick(world)
    assert [each.passed for each in evaluations(world)] == [False]
    assert evaluations(world)[0].metadata["job_ids"].value == "2"
    tick(world, cursor)
    assert len(evaluations(world)) == 1
    end(world, claim(world, 1, trigger=Trigger.REFRESH))
    tick(world, tick(world, cursor))
    assert [each.passed for each in evaluations(world)] == [False, True]


@pytest.mark.usefixtures("slow")
def test_all_partitions_of_a_window_of_an_earlier_grid_repeat_its_refresh(world: World) -> None:
    world.write(EVENTS).events()
    assert world.materialize("ods.events", DAYS[0]).success
    world.write({**EVENTS, "period": "1 hour"}).events(bad_day=1)
    hours = (f"{DAYS[0]}-00:00", f"{DAYS[0]}-23:00")
    assert not world.materialize("ods.events", *hours).success
    (failed,) = evaluations(world)
    assert "[2022-01-01, 2022-01-02): its refresh, job 2, failed: " in failed.description
    assert failed.description.endswith(
        "the partitions of the window again, in one run, to repeat it."
    )
    world.events()
    assert world.materialize("ods.events", *hours).success
    assert [each.passed for each in evaluations(world)] == [False, True]
