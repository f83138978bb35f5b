"""What a run in Dagster does with a window that is running elsewhere (checklist S10)."""

from typing import Any

import pytest
from dagster import AssetKey, DagsterRunStatus

from logdriven_dagster.errors import AttemptLostError
from logdriven_dagster.execution.owners import current_owner
from logdriven_dagster.execution.window import pass_execution
from logdriven_dagster.model.attempts import Owner
from tests.orchestration.ticks import claim, working_run
from tests.orchestration.world import EVENTS, World, failure_of

DAY = "2022-01-01"


def table(on_running: str) -> dict[str, Any]:
    return {**EVENTS, "on_running": on_running}


@pytest.fixture
def cancelled(monkeypatch: pytest.MonkeyPatch, world: World) -> list[str]:
    """The runs that the coordinator was asked to end."""
    asked: list[str] = []

    def cancel(_: object, run_id: str) -> bool:
        asked.append(run_id)
        return True

    monkeypatch.setattr(type(world.instance.run_coordinator), "cancel_run", cancel)
    return asked


@pytest.fixture
def lost_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else ends each attempt before its first step: no Spark is needed."""

    def at_once(*_: object) -> None:
        raise AttemptLostError("job 2 is DISCARDED in the run log: another process ended it")

    monkeypatch.setattr(pass_execution, "needs_discovery", at_once)


@pytest.mark.sampled
@pytest.mark.parametrize("run", ["materialize", "catch_up"])
def test_fail_ends_the_run_with_the_reason_s10(world: World, run: str) -> None:
    world.write(table("fail"))
    claim(world, 1, current_owner())
    result = (
        world.materialize("ods.events", DAY)
        if run == "materialize"
        else world.catch_up(now="2022-01-02")
    )
    assert not result.success
    assert "running in job 1" in failure_of(result)
    assert world.log("ods.events") == [("20220101", "RUNNING")]
    assert world.colours("ods.events") == {}


def test_skip_leaves_the_window_to_its_runner_s10(world: World) -> None:
    world.write(table("skip"))
    claim(world, 1, current_owner())
    assert world.materialize("ods.events", DAY).success
    assert world.log("ods.events") == [("20220101", "RUNNING")]


@pytest.mark.usefixtures("lost_at_once")
def test_replace_ends_the_other_run_s10(world: World, cancelled: list[str]) -> None:
    other = working_run(world.write(table("replace")).instance)
    claim(world, 1, Owner("elsewhere", 1, 2, other.run_id))
    world.materialize("ods.events", DAY)
    assert cancelled == [other.run_id]
    assert world.log("ods.events")[0] == ("20220101", "FAILURE")


@pytest.mark.usefixtures("lost_at_once")
def test_replace_of_what_no_run_holds_ends_none_s10(world: World, cancelled: list[str]) -> None:
    world.write(table("replace"))
    claim(world, 1)
    world.materialize("ods.events", DAY)
    assert cancelled == []


@pytest.mark.usefixtures("lost_at_once")
def test_a_coordinator_that_cannot_end_it_is_no_error_s10(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> bool:
        raise RuntimeError("no such run")

    monkeypatch.setattr(type(world.instance.run_coordinator), "cancel_run", away)
    world.write(table("replace"))
    claim(world, 1, Owner("elsewhere", 1, 2, "a-run-of-another-instance"))
    assert "another process ended it" in failure_of(world.materialize("ods.events", DAY))


@pytest.mark.usefixtures("lost_at_once")
def test_a_lost_window_fails_the_run_with_the_reason(world: World) -> None:
    result = world.write(EVENTS).materialize("ods.events", DAY)
    assert "another process ended it" in failure_of(result)
    run = world.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.status is DagsterRunStatus.FAILURE
    assert world.instance.get_latest_materialization_event(AssetKey(["ods", "events"])) is None
