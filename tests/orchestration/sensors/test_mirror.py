"""What runs outside of a Dagster instance, and what died inside of it, is shown in it."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from dagster import (
    AssetCheckKey,
    AssetKey,
    DagsterRun,
    DagsterRunStatus,
    DefaultSensorStatus,
)
from dagster._core.utils import make_new_run_id

from logdriven_dagster.config.models.steps import StepConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.execution.owners import current_owner
from logdriven_dagster.model.attempts import (
    Counts,
    Owner,
    Status,
    Trigger,
)
from logdriven_dagster.model.runs import Column, Published, Staged, WindowRun
from logdriven_dagster.orchestration.assets.partitions import partitions_of, table_partitions
from logdriven_dagster.orchestration.events.reconciling import report_dead_runs
from logdriven_dagster.orchestration.events.records import report_planned
from logdriven_dagster.orchestration.location import Location, default_key
from logdriven_dagster.orchestration.sensors import mirror
from logdriven_dagster.orchestration.sensors.mirror import MIRROR
from logdriven_dagster.runlog.attempts.leases import ATTEMPTS
from logdriven_dagster.testing.null_engine import NullEngine, NullSession, null_engine
from tests.builders import at
from tests.orchestration.ticks import ELSEWHERE, claim, end, tick, working_run
from tests.orchestration.world import DAILY, EVENTS, World

KEY = AssetKey(["ods", "events"])


def test_windows_of_other_runners_are_green_and_red_with_their_counts(world: World) -> None:
    world.write(EVENTS)
    end(world, claim(world, 1))
    end(world, claim(world, 2), Status.FAILURE)
    claim(world, 3)
    tick(world)
    assert world.colours("ods.events") == {"materialized": ["2022-01-01"], "failed": ["2022-01-02"]}
    (record,) = world.instance.fetch_materializations(KEY, limit=10).records
    assert record.asset_materialization is not None
    metadata = record.asset_materialization.metadata
    assert metadata["dagster/partition_row_count"].value == 3
    assert metadata["source_count"].value == 4


class CountingSession(NullSession):
    """Steps with every count, and with a snapshot."""

    def stage(self, step: StepConfig) -> tuple[Staged, ...]:
        counts = Counts(9, 6, 6, 1, inserted=4, updated=2, malformed=3, outside=5)
        columns = (Column("at", "timestamp"),)
        return tuple(replace(each, counts=counts, columns=columns) for each in super().stage(step))

    def publish(self, step_id: str, verify: Callable[[], None]) -> tuple[Published, ...]:
        return tuple(replace(each, snapshot_id="42") for each in super().publish(step_id, verify))


class CountingEngine(NullEngine):
    @contextmanager
    def open_session(self, runs: Sequence[WindowRun], project: Project) -> Iterator[NullSession]:
        yield CountingSession(self, self._warehouse, runs, project.zone)


RULES = {"id": ["at"], "columns": {"value": ["not_null"]}}


def described(world: World, table: str, partition: str) -> dict[str, Any]:
    """The metadata of the newest materialization of a partition, in its order."""
    key = AssetKey(table.split("."))
    records = world.instance.fetch_materializations(key, limit=20).records
    (made, *_) = [
        made for each in records if (made := each.asset_materialization).partition == partition
    ]
    return {name: value.value for name, value in made.metadata.items()}


@pytest.mark.parametrize("rerun", [False, True])
def test_a_mirrored_window_has_the_metadata_that_its_own_run_reports(
    world: World, *, rerun: bool
) -> None:
    step = {**EVENTS["steps"][0], "quality": RULES}
    world.write({**EVENTS, "steps": [step]})
    with null_engine(CountingEngine()):
        for _ in range(1 + rerun):
            assert world.materialize("ods.events", "2022-01-01").success
    own = described(world, "ods.events", "2022-01-01")
    world.instance.wipe()
    tick(world)
    mirrored = described(world, "ods.events", "2022-01-01")
    assert {name: own[name] for name in mirrored} == mirrored
    assert own.keys() - mirrored.keys() == {"dagster/column_schema"}  # nothing was published
    assert [name for name in own if name in mirrored] == list(mirrored)
    assert next(iter(mirrored)) == "story"
    assert {"rejected_count", "rows_of_no_window", "target", "snapshot_id"} <= mirrored.keys()
    assert list(mirrored)[-3:] == ["job_id", "attempt", "lag_seconds"]
    assert isinstance(mirrored["lag_seconds"], int)
    assert "owner" not in mirrored


def test_a_window_is_shown_with_its_own_times(world: World) -> None:
    world.write(EVENTS)
    end(world, claim(world, 1))
    end(world, claim(world, 2), Status.FAILURE)
    with open_runner(world.project).run_log.begin() as conn:
        ends = "'2022-01-09 08:30:00.000000'"
        conn.exec_driver_sql(f"UPDATE job_log SET job_start_time = {ends}, job_end_time = {ends}")
    tick(world)
    instant = at("2022-01-09 08:30").timestamp()
    (shown,) = world.instance.fetch_materializations(KEY, limit=10).records
    assert shown.timestamp == instant
    metadata = shown.asset_materialization.metadata
    assert metadata["seconds"].value == 0
    assert metadata["lag_seconds"].value == round(instant - at("2022-01-02").timestamp())
    (failed,) = world.instance.get_run_records()
    assert (failed.start_time, failed.end_time) == (instant, instant)
    assert failed.dagster_run.execution_plan_snapshot_id  # Dagster can show its steps
    assert world.colours("ods.events") == {"materialized": ["2022-01-01"], "failed": ["2022-01-02"]}


@pytest.mark.usefixtures("long")
def test_columns_and_rows_of_the_table_come_with_its_newest_window(
    world: World, spark: Any
) -> None:
    world.write(EVENTS).events(days=3)
    runner = open_runner(world.project, spark=lambda: spark)
    list(runner.catch_up(at("2022-01-04")))
    tick(world)
    records = world.instance.fetch_materializations(KEY, limit=10, ascending=True).records
    shown = [record.asset_materialization.metadata for record in records]
    assert [each["dagster/partition_row_count"].value for each in shown] == [4, 4, 4]
    assert ["dagster/row_count" in each for each in shown] == [False, False, True]
    assert shown[2]["dagster/row_count"].value == 12
    columns = shown[2]["dagster/column_schema"].value.columns
    assert [(c.name, c.type) for c in columns] == [("at", "timestamp"), ("value", "int")]


@pytest.mark.usefixtures("long")
def test_the_origins_of_columns_come_with_the_newest_window(world: World, spark: Any) -> None:
    world.write(EVENTS, DAILY).events(days=3)
    list(open_runner(world.project, spark=lambda: spark).catch_up(at("2022-01-04")))
    tick(world)
    key = AssetKey(["dwd", "daily"])
    records = world.instance.fetch_materializations(key, limit=10, ascending=True).records
    shown = [record.asset_materialization.metadata for record in records]
    assert ["dagster/column_lineage" in each for each in shown] == [False, False, True]
    (dep,) = shown[2]["dagster/column_lineage"].value.deps_by_column["total"]
    assert (dep.asset_key, dep.column_name) == (KEY, "value")


@pytest.mark.parametrize("own", [True, False])
def test_the_newest_window_has_a_picture_of_all_windows(world: World, *, own: bool) -> None:
    world.write({**EVENTS, "checks": [], "end": "2022-01-04"})
    with null_engine():
        assert world.catch_up(now="2022-01-10").success
    if not own:
        world.instance.wipe()
    tick(world)
    (record,) = world.instance.fetch_observations(KEY, limit=10).records
    assert record.partition_key is None
    picture = record.asset_observation.metadata["windows"].value
    assert picture.startswith("![Rows and states of the newest windows](data:image/svg+xml;base64,")


def test_windows_that_a_newer_one_replaces_look_finished_with_the_reason(world: World) -> None:
    full = {"incremental_type": "full", "period": 1440, "checks": []}
    step = {**EVENTS["steps"][0], "target": {"type": "iceberg", "mode": "overwrite"}}
    step["source"] = {k: v for k, v in step["source"].items() if k != "window_column"}
    world.write({**EVENTS, **full, "steps": [step], "end": "2022-01-04"})
    with null_engine():
        assert world.catch_up(now="2022-01-10").success
    tick(world)
    days = ["2022-01-01", "2022-01-02", "2022-01-03"]
    assert world.colours("ods.events") == {"materialized": days}
    skipped = described(world, "ods.events", "2022-01-01")
    assert skipped["story"].startswith(
        "**Skipped**, so no rows were read: each window replaces the whole table, so only the "
        "newest one runs."
    )
    assert "`logdriven refresh ods.events --window 2022-01-01`" in skipped["story"]
    assert "target_count" not in skipped


def test_a_discarded_window_is_pending_not_failed(world: World) -> None:
    world.write(EVENTS)
    end(world, claim(world, 1), Status.DISCARDED)
    tick(world)
    assert world.colours("ods.events") == {}
    assert world.instance.get_runs() == []


def test_a_window_that_ran_twice_elsewhere_has_the_newest_evaluation_of_its_checks(
    world: World,
) -> None:
    world.write(EVENTS)
    end(world, claim(world, 1))
    cursor = tick(world)
    end(world, claim(world, 1, trigger=Trigger.REFRESH))
    tick(world, cursor)
    tick(world)  # the sensor's cursor was reset
    key = AssetCheckKey(KEY, "positive")
    found = world.instance.event_log_storage.get_asset_check_execution_history(key, limit=10)
    assert [each.evaluation.metadata["job_id"].value for each in found if each.evaluation] == ["2"]


def observed(world: World) -> list[str]:
    """What is said of the first day beside its materialization."""
    found = world.instance.fetch_observations(KEY, limit=10).records
    seen = [record.asset_observation for record in found if record.partition_key]
    assert all(each and each.partition == "2022-01-01" for each in seen)
    return [each.description or "" for each in seen if each]


def test_a_failed_refresh_is_reported_at_its_partition_which_stays_materialized_s08(
    world: World,
) -> None:
    world.write(EVENTS)
    end(world, claim(world, 1))
    cursor = tick(world)
    end(world, claim(world, 1, trigger=Trigger.REFRESH), Status.FAILURE)
    tick(world, tick(world, cursor))
    assert world.colours("ods.events") == {"materialized": ["2022-01-01"]}
    [told] = observed(world)
    assert "the table is unchanged" in told
    assert "broken" in told
    record, _picture = world.instance.fetch_observations(KEY, limit=10).records
    story = record.asset_observation.metadata["story"].value
    assert story.index("FAILURE") < story.index("SUCCESS")
    assert world.instance.get_runs() == []


@pytest.mark.sampled
@pytest.mark.parametrize("own", [True, False])
def test_a_refresh_that_died_is_reported_at_its_partition_which_stays_materialized_s08(
    world: World, *, own: bool
) -> None:
    world.write(EVENTS)
    end(world, claim(world, 1))
    cursor = tick(world)
    owner = ELSEWHERE
    if own:
        run_id = make_new_run_id()
        run = DagsterRun(job_name="j", run_id=run_id, status=DagsterRunStatus.STARTED)
        world.instance.add_run(run)
        report_planned(world.instance, KEY, "2022-01-01", run)
        owner = Owner("elsewhere", 1, 2, run_id)
    died = claim(world, 1, owner, Trigger.REFRESH)
    open_runner(world.project).run_log.write(lambda conn: ATTEMPTS.bury(conn, died.job_id, owner))
    if own:
        world.instance.report_run_failed(run)
    tick(world, cursor)
    assert world.colours("ods.events") == {"materialized": ["2022-01-01"]}
    assert "its process has ended" in observed(world)[0]


def test_a_long_history_is_shown_tick_by_tick(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "_LONGEST_TICK", 0.000_001)
    world.write(EVENTS)
    for n in (1, 2, 3):
        end(world, claim(world, n))
    cursor = tick(world)
    assert world.colours("ods.events") == {"materialized": ["2022-01-01"]}
    for _ in range(3):
        cursor = tick(world, cursor)
    days = ["2022-01-01", "2022-01-02", "2022-01-03"]
    assert world.colours("ods.events") == {"materialized": days}


def test_a_table_of_dynamic_partitions_that_never_ran_has_its_next_ones(world: World) -> None:
    world.write({**EVENTS, "period": "2 days"})
    tick(world)
    (name,) = (partitions_of(t.grid).dynamic_name for t in world.project.tables.values())
    assert world.instance.get_dynamic_partitions(name)[:2] == [
        "2022-01-01-00:00",
        "2022-01-03-00:00",
    ]
    assert world.colours("ods.events") == {}


def test_it_runs_in_a_new_deployment(world: World) -> None:
    definition = world.write(EVENTS).definitions.resolve_sensor_def(MIRROR)
    assert definition.default_status is DefaultSensorStatus.RUNNING


def test_each_window_is_shown_once_even_if_it_ends_late(world: World) -> None:
    world.write(EVENTS)
    slow = claim(world, 1)
    end(world, claim(world, 2))
    cursor = tick(world)
    end(world, slow)
    cursor = tick(world, cursor)
    assert tick(world, cursor) == cursor
    assert world.colours("ods.events") == {
        "materialized": ["2022-01-01", "2022-01-02"],
    }
    assert {job_id for job_id, _ in json.loads(cursor)["recent"]} == {1, 2}


def test_a_clock_that_is_set_back_hides_no_window(world: World) -> None:
    world.write(EVENTS)
    end(world, claim(world, 1))
    cursor = tick(world, json.dumps({"until": "2100-01-01T00:00:00", "recent": []}))
    end(world, claim(world, 2))
    tick(world, cursor)
    assert world.colours("ods.events") == {"materialized": ["2022-01-01", "2022-01-02"]}


def test_what_ended_in_the_future_is_shown_when_the_clock_gets_there(world: World) -> None:
    world.write(EVENTS)
    end(world, claim(world, 1))
    set_end(world, "+2 hours")
    cursor = tick(world)
    assert world.colours("ods.events") == {}
    set_end(world, "+0 hours")
    tick(world, cursor)
    assert world.colours("ods.events") == {"materialized": ["2022-01-01"]}


def set_end(world: World, later: str) -> None:
    instant = f"strftime('%Y-%m-%d %H:%M:%f000', 'now', '{later}')"
    with open_runner(world.project).run_log.begin() as conn:
        conn.exec_driver_sql(f"UPDATE job_log SET job_end_time = {instant}")


def test_windows_of_this_instance_are_not_mirrored(world: World) -> None:
    world.write(EVENTS)
    run = working_run(world.instance)
    end(world, claim(world, 1, Owner("elsewhere", 1, 2, run.run_id)))
    tick(world)
    assert world.colours("ods.events") == {}


def dead_runs(world: World) -> list[str]:
    project = world.project
    location = Location(project, {name: default_key(name) for name in project.tables})
    return report_dead_runs(world.instance, location, open_runner(project).run_log)


def expire(world: World, ago: timedelta) -> None:
    """The lease ran out so long ago."""
    instant = f"strftime('%Y-%m-%d %H:%M:%f000', 'now', '-{ago.total_seconds()} seconds')"
    with open_runner(world.project).run_log.begin() as conn:
        conn.exec_driver_sql(f"UPDATE job_log SET lease_expires_at = {instant}")


def test_a_run_whose_process_is_gone_is_ended_in_dagster(world: World) -> None:
    run, me = working_run(world.write(EVENTS).instance), current_owner()
    claim(world, 1, Owner(me.host, me.pid, me.started - 5, run.run_id))
    assert dead_runs(world) == [run.run_id]
    ended = world.instance.get_run_by_id(run.run_id)
    assert ended is not None
    assert ended.status is DagsterRunStatus.FAILURE
    assert dead_runs(world) == []


def test_of_a_dead_run_only_the_window_that_it_was_in_is_red(world: World) -> None:
    run, me = working_run(world.write(EVENTS).instance), current_owner()
    end(world, claim(world, 5), Status.FAILURE)
    tick(world)
    for day in range(1, 7):
        report_planned(world.instance, KEY, f"2022-01-0{day}", run)
    claim(world, 1, Owner(me.host, me.pid, me.started - 5, run.run_id))
    assert dead_runs(world) == [run.run_id]
    assert world.colours("ods.events") == {"failed": ["2022-01-01", "2022-01-05"]}


def test_a_run_elsewhere_is_ended_when_its_lease_is_over_for_another_lease(world: World) -> None:
    run = working_run(world.write(EVENTS).instance)
    claim(world, 1, Owner("elsewhere", 1, 2, run.run_id))
    assert dead_runs(world) == []
    expire(world, timedelta(seconds=30))
    assert dead_runs(world) == []
    expire(world, timedelta(minutes=5))
    assert dead_runs(world) == [run.run_id]


def test_a_run_whose_window_was_taken_over_is_ended(world: World) -> None:
    run = working_run(world.write(EVENTS).instance)
    claim(world, 1, Owner("elsewhere", 1, 2, run.run_id))
    expire(world, timedelta(minutes=5))
    with open_runner(world.project).run_log.begin() as conn:
        assert ATTEMPTS.bury_expired(conn, "somebody") == [1]
    assert dead_runs(world) == [run.run_id]


@pytest.mark.parametrize("status", [Status.SUCCESS, Status.FAILURE])
def test_a_run_between_two_windows_is_left_alone(world: World, status: Status) -> None:
    run = working_run(world.write(EVENTS).instance)
    end(world, claim(world, 1, Owner("elsewhere", 1, 2, run.run_id)), status)
    assert dead_runs(world) == []


def test_a_run_without_an_attempt_is_left_alone(world: World) -> None:
    working_run(world.write(EVENTS).instance)
    assert dead_runs(world) == []


def test_partitions_of_a_removed_table_go_once_the_log_forgot_it(world: World) -> None:
    keys = {**EVENTS, "table": "ods.keys", "incremental_type": "files", "checks": []}
    keys["steps"] = [{**EVENTS["steps"][0], "target": {"type": "iceberg"}}]
    source = {k: v for k, v in EVENTS["steps"][0]["source"].items() if k != "window_column"}
    keys["steps"][0]["source"] = source
    register(world.write(EVENTS, keys).root)
    location = Location(world.project, {})
    name = table_partitions(world.project.table("ods.keys"), location).dynamic_name
    assert name is not None
    world.instance.add_dynamic_partitions(name, ["0", "1"])
    (world.root / "tables/ods.keys.yaml").unlink()
    register(world.root)
    tick(world)
    assert world.instance.get_dynamic_partitions(name) == []
