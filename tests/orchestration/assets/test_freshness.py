"""Freshness by window as Dagster shows it: a check beside each table with `freshness`."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from dagster import AssetCheckKey, AssetKey, DagsterInstance, Definitions

from logdriven_dagster.config.models.rules import LATEST_REFRESH
from tests.orchestration.ticks import tick
from tests.orchestration.world import ALONE, EVENTS, World

KEY = AssetCheckKey(AssetKey(["ods", "alone"]), "freshness")


def days_ago(number: int) -> str:
    return f"{datetime.now().astimezone() - timedelta(days=number):%Y-%m-%d}"


@pytest.fixture
def alone(world: World) -> World:
    """A table of four days, of which each should be done two days after its end."""
    start = {"default_start": days_ago(4), "freshness": {"within": "2 days"}}
    return world.write({**ALONE, **start}, EVENTS)


def evaluations(instance: DagsterInstance) -> list[tuple[bool, str]]:
    """What was told of the check, oldest first."""
    records = instance.event_log_storage.get_asset_check_execution_history(KEY, limit=10)
    events = [record.event.dagster_event for record in records[::-1] if record.event]
    found = [event.asset_check_evaluation_data for event in events if event]
    return [(each.passed, each.description or "") for each in found]


def run_day(world: World, number: int) -> None:
    assert world.materialize("ods.alone", days_ago(number)).success


def test_a_tick_reports_that_a_table_is_late_and_why(alone: World) -> None:
    tick(alone)
    ((passed, text),) = evaluations(alone.instance)
    assert not passed
    assert text.startswith(f"[{days_ago(4)}, {days_ago(3)}) should have finished by")
    assert text.endswith("has not run")


@pytest.mark.usefixtures("long")
def test_a_backfill_of_an_old_day_leaves_it_late(alone: World) -> None:
    definitions = alone.definitions
    job = definitions.resolve_implicit_global_asset_job_def()
    for number in (4, 3):
        job.execute_in_process(
            instance=alone.instance,
            asset_selection=[AssetKey(["ods", "alone"])],
            partition_key=days_ago(number),
        )
        tick(alone)
    assert [passed for passed, _ in evaluations(alone.instance)] == [False, False, True, True]


def test_unchanged_state_is_not_reported_again(alone: World) -> None:
    from dagster import build_sensor_context

    from logdriven_dagster.orchestration.sensors.mirror import MIRROR

    sensor: Any = alone.definitions.resolve_sensor_def(MIRROR)
    for _ in range(3):
        sensor(build_sensor_context(alone.instance))
    assert len(evaluations(alone.instance)) == 1


def executed(definitions: Definitions, instance: DagsterInstance) -> Any:
    job = definitions.resolve_implicit_global_asset_job_def()
    return job.get_subset(asset_check_selection={KEY}, asset_selection=set()).execute_in_process(
        instance=instance
    )


def test_it_can_be_executed_by_itself(alone: World) -> None:
    (evaluation,) = executed(alone.definitions, alone.instance).get_asset_check_evaluations()
    assert (evaluation.check_name, evaluation.passed) == ("freshness", False)
    assert evaluation.metadata["overdue_seconds"].value >= 0


def test_a_project_without_it_has_no_check(world: World) -> None:
    definitions = world.write(EVENTS).definitions
    names = {key.name for key in definitions.resolve_asset_graph().asset_check_keys}
    assert names == {"positive", LATEST_REFRESH}
