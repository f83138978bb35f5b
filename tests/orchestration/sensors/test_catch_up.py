"""The sensor requests a catch-up when windows are ready, and says why when it does not."""

import json
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from dagster import (
    AssetKey,
    DagsterRun,
    DagsterRunStatus,
    DefaultSensorStatus,
    SensorResult,
    build_sensor_context,
)
from dagster._core.remote_representation.external_data import SensorSnap
from dagster._core.utils import make_new_run_id

from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.model.attempts import Claim, Owner, Trigger
from logdriven_dagster.orchestration.jobs.run_tags import PROJECT_TAG
from logdriven_dagster.orchestration.sensors import catch_up as sensor
from tests.builders import claim_one, day
from tests.orchestration.world import ALONE, DAILY, EVENTS, World

Tick = Callable[..., SensorResult]


@pytest.fixture
def tick(world: World) -> Tick:
    def evaluate(cursor: str | None = None) -> SensorResult:
        definition = world.definitions.resolve_sensor_def("catch_up_sensor")
        context = build_sensor_context(world.instance, cursor=cursor)
        return definition(context)  # type: ignore[return-value]

    return evaluate


def test_ready_windows_are_requested_once(world: World, tick: Tick) -> None:
    world.settings["sensor"] = {"max_windows": 20}
    world.write(EVENTS, DAILY)
    first, second = tick(), tick()
    assert len(first.run_requests) == 1
    assert first.run_requests[0].run_config["ops"]["catch_up"]["config"] == {
        "max_windows": 20,
        "backoff_seconds": 60.0,
    }
    assert first.run_requests[0].run_key == second.run_requests[0].run_key


def test_nothing_pending_is_reported(world: World, tick: Tick) -> None:
    world.write({**EVENTS, "default_start": "2222-01-01"})
    assert reason(tick()) == "no window is pending"


def test_the_first_blocked_windows_are_reported(world: World, tick: Tick) -> None:
    world.write(EVENTS, DAILY)
    claim(world, "ods.events", Owner("elsewhere", 1, 2))
    told = reason(tick()).split("; ")
    assert told[0] == (
        "no window is ready: ods.events [2022-01-01, 2022-01-02): running in job 1 by elsewhere:1:2"
    )
    assert told[1].startswith("dwd.daily [2022-01-01, 2022-01-02): ")


@pytest.mark.parametrize("status", [DagsterRunStatus.STARTING, DagsterRunStatus.STARTED])
def test_one_run_at_a_time(world: World, tick: Tick, status: DagsterRunStatus) -> None:
    run = add_run(world.write(EVENTS), status)
    assert reason(tick()) == f"run {run.run_id[:8]} is {status.value.lower()}"


def test_a_run_that_was_killed_does_not_block_for_ever(
    world: World, tick: Tick, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensor, "_START_UP", timedelta(0))
    add_run(world.write(EVENTS), DagsterRunStatus.STARTED)
    assert tick().run_requests


@pytest.mark.usefixtures("long")
def test_a_run_that_holds_a_window_blocks_however_old_it_is(
    world: World, tick: Tick, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensor, "_START_UP", timedelta(0))
    run = add_run(world.write(EVENTS), DagsterRunStatus.STARTED)
    claim(world, "ods.events", Owner("elsewhere", 1, 2, run.run_id))
    world.write(ALONE)
    assert reason(tick()) == f"run {run.run_id[:8]} is started"


def test_a_failed_window_is_requested_again_after_a_pause_that_doubles(
    world: World, tick: Tick
) -> None:
    world.write(EVENTS)
    first = tick()
    add_run(world, DagsterRunStatus.FAILURE)
    paused = tick(first.cursor)
    assert "next attempt at" in reason(paused)
    over = json.loads(first.cursor) | {"until": 0}
    second = tick(json.dumps(over))
    assert second.run_requests[0].run_key != first.run_requests[0].run_key
    now = time.time()
    assert 1.9 < (until(second) - now) / (until(first) - now) < 2.2


def test_other_ready_windows_end_the_pause(world: World, tick: Tick) -> None:
    world.write(EVENTS)
    cursor = tick().cursor
    world.write(ALONE)
    assert tick(cursor).run_requests


def test_dynamic_partitions_are_there_before_their_run(world: World, tick: Tick) -> None:
    world.write({**EVENTS, "period": 45})
    tick()
    name = "every 45 minutes from 2022-01-01 00:00:00 UTC"
    keys = world.instance.get_dynamic_partitions(name)
    assert keys[:2] == ["2022-01-01-00:00", "2022-01-01-00:45"]
    assert len(keys) == 1000


def test_dagster_shows_it_next_to_every_table_and_it_requests_its_own_job(world: World) -> None:
    repository = world.write(EVENTS, ALONE).definitions.get_repository_def()
    sensor = repository.get_sensor_def("catch_up_sensor")
    shown = SensorSnap.from_def(sensor, repository)
    assert list(shown.target_dict) == ["catch_up"]
    assert shown.asset_selection is not None
    keys = {AssetKey(["ods", "events"]), AssetKey(["ods", "alone"])}
    assert shown.asset_selection.resolve(repository.asset_graph) == keys


def test_the_project_sets_whether_it_starts_and_how_often(world: World) -> None:
    definition = world.write(EVENTS).definitions.resolve_sensor_def("catch_up_sensor")
    assert definition.default_status is DefaultSensorStatus.STOPPED
    world.settings["sensor"] = {"enabled": True, "interval": 5}
    definition = world.write().definitions.resolve_sensor_def("catch_up_sensor")
    assert definition.default_status is DefaultSensorStatus.RUNNING
    assert definition.minimum_interval_seconds == 300


def reason(result: SensorResult) -> str:
    assert not result.run_requests
    assert result.skip_reason is not None
    return str(result.skip_reason.skip_message)


def until(result: SensorResult) -> float:
    return float(json.loads(result.cursor or "")["until"])


def add_run(world: World, status: DagsterRunStatus) -> DagsterRun:
    run: Any = DagsterRun(
        job_name="catch_up",
        run_id=make_new_run_id(),
        status=status,
        tags={PROJECT_TAG: "world"},
    )
    return world.instance.add_run(run)


def claim(world: World, table: str, owner: Owner) -> None:
    now = datetime(2022, 1, 11, tzinfo=world.project.zone)
    wanted = Claim(
        table, day(1), 1440, "time_window", "world", Trigger.PENDING, owner, now, ("load",)
    )
    with open_runner(world.project).run_log.begin() as conn:
        claim_one(conn, wanted)
