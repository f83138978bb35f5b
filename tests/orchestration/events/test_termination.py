"""A run that is terminated in the middle of a window leaves the log and Dagster in one mind."""

from collections.abc import Iterator

import pytest
from dagster import DagsterExecutionInterruptedError

from logdriven_dagster.execution.catching_up.loop import CatchingUp
from logdriven_dagster.execution.events import WindowEvent, WindowStarted
from tests.orchestration.world import EVENTS, World


@pytest.fixture
def interrupted_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM arrives when the third window has been claimed."""
    events, claimed = CatchingUp.events, []

    def interrupted(self: CatchingUp) -> Iterator[WindowEvent]:
        for event in events(self):
            yield event
            claimed.extend([event] if isinstance(event, WindowStarted) else [])
            if len(claimed) == 3:
                raise DagsterExecutionInterruptedError

    monkeypatch.setattr(CatchingUp, "events", interrupted)


@pytest.mark.usefixtures("interrupted_window")
def test_the_interrupted_window_is_discarded_in_the_log_and_left_in_dagster(
    world: World,
) -> None:
    world.write(EVENTS).events()
    run = world.catch_up(now="2022-01-11").dagster_run
    assert not world.instance.get_run_by_id(run.run_id).is_success
    assert world.log("ods.events") == [
        ("20220101", "SUCCESS"),
        ("20220102", "SUCCESS"),
        ("20220103", "DISCARDED"),
    ]
    assert world.colours("ods.events") == {"materialized": ["2022-01-01", "2022-01-02"]}
    assert [each.run_id for each in world.instance.get_runs()] == [run.run_id]
