"""Beside a window stands its story: what the run log has of all attempts at it."""

from datetime import datetime
from typing import Any

import pytest
from dagster import AssetKey, DagsterEventType

from logdriven_dagster.model.attempts import Trigger
from logdriven_dagster.orchestration.code_location import build_definitions
from tests.orchestration.ticks import claim, end, tick
from tests.orchestration.world import EVENTS, World

DAY = "2022-01-01"


def stories(world: World) -> list[str]:
    """Those of the materializations, oldest first, without what protects values in Markdown."""
    key = AssetKey(["ods", "events"])
    found = world.instance.fetch_materializations(key, limit=100, ascending=True).records
    each: list[Any] = [record.asset_materialization.metadata["story"] for record in found]
    return [story.value.replace("\\", "") for story in each]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_a_window_shows_all_attempts_with_steps_counts_versions_and_runs(
    spark: Any, world: World
) -> None:
    world.write(EVENTS).events(bad_day=1)
    versioned = build_definitions(world.root)
    failed = world.materialize("ods.events", DAY, definitions=versioned)
    world.events()
    repaired = world.materialize("ods.events", DAY, definitions=versioned)
    (story,) = stories(world)
    state, _, heading, _, newest, oldest, _, log, _, report = story.splitlines()
    assert state.startswith("**Finished**: 4 rows read, 4 written, in ")
    assert state.endswith(" s. It ran because someone asked for it.")
    assert cells(heading)[:2] == ["job", "status"]
    job, status, began, _, steps, version, run = cells(newest)
    assert (job, status, steps, version) == ("2", "SUCCESS", "load 4 → 4", "1")
    assert datetime.fromisoformat(began)
    assert run == f"[{repaired.run_id[:8]}](/runs/{repaired.run_id})"
    assert cells(oldest)[1] == "FAILURE"
    assert cells(oldest)[4].startswith("load FAILURE: check positive: 4 violations, such as")
    assert failed.run_id in oldest
    assert log == "Whole log: `logdriven log ods.events --window 2022-01-01 --full`"
    assert report.endswith(f"`logdriven report --from {began[:10]} --job ods.events`")


def test_so_does_a_window_that_failed(world: World) -> None:
    world.write(EVENTS).events(bad_day=1)
    run = world.materialize("ods.events", DAY).dagster_run
    (failure,) = world.instance.all_logs(run.run_id, DagsterEventType.STEP_FAILURE)
    event = failure.get_dagster_event()
    shown = event.step_failure_data.user_failure_data.metadata["story"].value
    state, _, action, _ = shown.split("\n", 3)
    assert state.replace("\\", "").startswith("**Failed**: step load: check positive finds 4 rows.")
    assert action == (
        "Fix the cause, then *Materialize* it or use `logdriven run`; until then, later windows "
        "wait."
    )
    assert "load FAILURE" in shown


@pytest.mark.usefixtures("slow")
def test_so_does_a_window_that_ran_elsewhere(world: World) -> None:
    world.write(EVENTS).events(bad_day=2)
    world.materialize("ods.events", DAY, "2022-01-02")
    before = stories(world)
    world.instance.wipe()
    tick(world)
    assert stories(world) == before
    (run,) = world.instance.get_runs()
    (told,) = world.instance.all_logs(run.run_id, DagsterEventType.ENGINE_EVENT)
    assert "load FAILURE" in told.get_dagster_event().engine_event_data.metadata["story"].value


@pytest.mark.parametrize(
    ("trigger", "reason"),
    [
        (Trigger.PENDING, "It ran because it was due."),
        (Trigger.UPSTREAM, "It ran again because a window that it reads ran again."),
    ],
)
def test_a_story_begins_with_the_rows_and_the_reason(
    world: World, trigger: Trigger, reason: str
) -> None:
    world.write(EVENTS)
    end(world, claim(world, 1, trigger=trigger))
    tick(world)
    (story,) = stories(world)
    state = story.splitlines()[0]
    assert state.startswith("**Finished**: 4 rows read, 3 written, in ")
    assert state.endswith(reason)
