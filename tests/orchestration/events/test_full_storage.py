"""Dagster's own storage is full, or its run is gone, when it should be told of a window."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from dagster import AssetKey
from sqlalchemy import event
from sqlalchemy.engine import Engine

from logdriven_dagster.execution.catching_up.loop import CatchingUp
from logdriven_dagster.execution.events import WindowEvent, WindowStarted, WindowSucceeded
from tests.orchestration.ticks import tick
from tests.orchestration.world import EVENTS, World

DAYS = ["2022-01-01", "2022-01-02", "2022-01-03", "2022-01-04"]


class Disk:
    """The disk of Dagster's storage."""

    def __init__(self, world: World) -> None:
        self._project, self.is_full = world.root, False

    def limit(self, connection: Any, _record: Any) -> None:
        """While it is full no database but those of the project grows by a page."""
        for _, _, path in connection.execute("PRAGMA database_list").fetchall():
            if self.is_full and path and not Path(path).is_relative_to(self._project):
                (pages,) = connection.execute("PRAGMA page_count").fetchone()
                connection.execute(f"PRAGMA max_page_count = {pages}")


@contextmanager
def disk_of(world: World) -> Iterator[Disk]:
    disk = Disk(world)
    event.listen(Engine, "connect", disk.limit)
    try:
        yield disk
    finally:
        event.remove(Engine, "connect", disk.limit)


@pytest.fixture(params=[WindowStarted, WindowSucceeded])
def disk(request: Any, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """It is full when Dagster is to be told that the second window has begun, or succeeded."""
    events, seen = CatchingUp.events, []
    with disk_of(world) as disk:

        def filling(self: CatchingUp) -> Iterator[WindowEvent]:
            for told in events(self):
                if isinstance(told, request.param):
                    seen.append(told)
                    disk.is_full = disk.is_full or len(seen) == 2
                yield told

        monkeypatch.setattr(CatchingUp, "events", filling)
        yield disk


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled
def test_events_lost_on_a_full_disk_are_shown_when_there_is_room_again(
    world: World, disk: Disk
) -> None:
    world.write(EVENTS).events(days=4)
    with suppress(Exception):  # Dagster cannot even store that the run has failed
        world.catch_up(now="2022-01-05")
    disk.is_full = False
    end_runs(world)
    tick(world)
    assert world.colours("ods.events")["materialized"] == finished(world)
    assert world.catch_up(now="2022-01-05").success
    assert finished(world) == DAYS
    assert world.colours("ods.events") == {"materialized": DAYS}


@pytest.mark.usefixtures("slow")
def test_windows_that_a_run_has_reported_are_not_shown_twice(world: World) -> None:
    world.write(EVENTS).events(bad_day=3)
    assert not world.catch_up(now="2022-01-05").success
    tick(world)
    told = world.instance.fetch_materializations(AssetKey(["ods", "events"]), limit=10).records
    assert [record.partition_key for record in told] == ["2022-01-02", "2022-01-01"]


def end_runs(world: World) -> None:
    """What the launcher tells Dagster of a process that is gone."""
    for run in world.instance.get_runs():
        if not run.is_finished:
            world.instance.report_run_failed(run)


def finished(world: World) -> list[str]:
    """The days that are done in the log, each once."""
    starts = [start for start, status in world.log("ods.events") if status == "SUCCESS"]
    return [f"{start[:4]}-{start[4:6]}-{start[6:]}" for start in starts]
