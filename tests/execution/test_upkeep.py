"""Upkeep of tables knows from the log what attempts may still need."""

from datetime import timedelta

from logdriven_dagster.engine import WindowSession
from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog
from logdriven_dagster.execution import upkeep
from logdriven_dagster.model.upkeep import Compaction, Expiry
from tests.builders import day
from tests.execution.conftest import NOW, NUMBERS
from tests.execution.crashes import crash, kill

TABLE = "ods.numbers"
EVERYTHING = timedelta(seconds=-60)


def expire(world):
    runner = world.runner
    (done,) = upkeep.expire_snapshots(runner.project, runner.run_log, [TABLE], EVERYTHING, Expiry())
    return done.text


def snapshots(world):
    table = open_catalog(world.runner.project).load_table(TABLE)
    return {item.snapshot_id: item.summary["data_range_start"][6:8] for item in table.snapshots()}


def after_publishing(monkeypatch, hook):
    original = WindowSession.publish

    def publish(self, *arguments):
        done = original(self, *arguments)
        hook()
        return done

    monkeypatch.setattr(WindowSession, "publish", publish)


def test_what_an_unfinished_attempt_has_published_outlives_expiry(spark, world, monkeypatch):
    """It died between publication and the log; whoever takes it over publishes nothing twice."""
    world.write("tables/numbers.yaml", NUMBERS + "    ordered: false")
    with monkeypatch.context() as dying:
        after_publishing(dying, kill)
        crash(world, dying, TABLE)
    (dead,) = snapshots(world)
    for _ in range(2):
        list(world.runner.refresh_windows(TABLE, [day(2)], NOW))
    assert len(snapshots(world)) == 3
    rows = world.rows(TABLE)

    assert expire(world) == "1 of 3 snapshots removed"
    assert dead in snapshots(world)
    world.catch_up(tables=[TABLE], max_windows=1)
    assert world.rows(TABLE) == rows
    assert world.statuses(TABLE)[-1] == ("01", "SUCCESS")
    assert expire(world).endswith("snapshots removed")
    assert dead not in snapshots(world)


def test_upkeep_writes_nothing_into_the_log(world):
    world.catch_up(tables=[TABLE])
    before = world.log()
    expire(world)
    project = world.runner.project
    list(upkeep.compact_files(project, [TABLE], Compaction(2), lambda: world.spark))
    assert world.log() == before
