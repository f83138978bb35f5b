"""Configured jobs in Dagster: their definitions, their runs, their schedules."""

from datetime import datetime, timezone
from typing import Any

import pytest
from dagster import (
    AssetKey,
    RunRequest,
    SkipReason,
    build_schedule_context,
    build_sensor_context,
)

from logdriven_dagster.execution.opening import open_runner
from tests.orchestration.world import ALONE, DAILY, EVENTS, World, failure_of

PYTHON = {"python": "steps.py:note"}
SWEEP: dict[str, Any] = {
    "job": "sweep",
    "type": "maintenance",
    "description": "Keeps the house clean.",
    "schedule": "0 3 * * *",
    "steps": [
        {"exec_order": 20, "step": "second", **PYTHON},
        {"exec_order": 10, "step": "first", **PYTHON},
    ],
}
NIGHTLY: dict[str, Any] = {
    "job": "nightly",
    "tables": ["ods.events", "dwd.daily"],
    "schedule": "30 5 * * *",
}
FAILING = {"exec_order": 30, "step": "third", "python": "steps.py:fail"}
CODE = """
def note():
    return 4

def fail():
    raise OSError("disk is full")
"""


@pytest.fixture
def shop(world: World) -> World:
    (world.root / "jobs").mkdir()
    (world.root / "jobs/steps.py").write_text(CODE)
    return world.events(days=2)


def job_runs(world: World) -> list[dict[str, Any]]:
    with open_runner(world.project).run_log.read() as conn:
        rows = conn.exec_driver_sql("SELECT * FROM job_run ORDER BY job_run_id")
        return [dict(row._mapping) for row in rows]


def run(world: World, job: str, **config: Any) -> Any:
    return world.run(job, {"ops": {job: {"config": config}}})


def tick(world: World, job: str) -> RunRequest | SkipReason:
    schedule = world.definitions.resolve_schedule_def(f"{job}_schedule")
    instant = datetime(2022, 1, 3, tzinfo=timezone.utc)
    with build_schedule_context(world.instance, instant) as context:
        data = schedule.evaluate_tick(context)
    return data.run_requests[0] if data.run_requests else SkipReason(data.skip_message)


def test_a_job_of_either_type_is_a_dagster_job_with_its_schedule(shop: World) -> None:
    shop.settings["timezone"] = "Europe/Berlin"
    definitions = shop.write(EVENTS, DAILY, jobs=(NIGHTLY, SWEEP)).definitions
    for name, cron in (("nightly", "30 5 * * *"), ("sweep", "0 3 * * *")):
        assert definitions.resolve_job_def(name).tags["logdriven/project"] == "world"
        schedule = definitions.resolve_schedule_def(f"{name}_schedule")
        assert (schedule.cron_schedule, schedule.execution_timezone) == (cron, "Europe/Berlin")


def test_the_description_lists_tables_relations_and_steps(shop: World) -> None:
    relation = {"from": "ods.events", "to": "alone", "condition": "always", "delay": "30 min"}
    tables = [*NIGHTLY["tables"], "alone"]
    nightly = {**NIGHTLY, "tables": tables, "relations": [relation]}
    shop.write(EVENTS, DAILY, {**ALONE, "table": "alone"}, jobs=(nightly, SWEEP))
    told = shop.definitions.resolve_job_def("nightly").description
    assert "Tables: `ods.events`, `dwd.daily`, `alone`" in told
    assert "- `alone` waits for `ods.events` (always, 0:30:00 later)" in told
    told = shop.definitions.resolve_job_def("sweep").description
    assert told.startswith("Keeps the house clean.")
    assert told.index("10 `first`") < told.index("20 `second`")


def test_priority_and_worker_group_are_run_tags_d15(shop: World) -> None:
    urgent = {**SWEEP, "priority": 7, "worker_group": "big"}
    event = {**EVENTS, "priority": 3, "worker_group": "small"}
    definitions = shop.write(event, jobs=(urgent,)).definitions
    tags = definitions.resolve_job_def("sweep").tags
    assert (tags["dagster/priority"], tags["logdriven/worker_group"]) == ("7", "big")
    op = definitions.resolve_assets_def(AssetKey(["ods", "events"])).op
    assert (op.tags["dagster/priority"], op.tags["logdriven/worker_group"]) == ("3", "small")


def test_a_standard_job_runs_and_its_dagster_run_is_in_the_log(shop: World) -> None:
    result = run(shop.write(EVENTS, DAILY, jobs=(NIGHTLY,)), "nightly", now="2022-01-03")
    assert result.success
    (row,) = job_runs(shop)
    assert (row["status"], row["dagster_run_id"]) == ("SUCCESS", result.run_id)
    assert row["run_trigger"] == "manual"
    assert len(shop.colours("ods.events")["materialized"]) == 2


def test_a_failed_window_fails_the_job_and_its_run_k15(shop: World) -> None:
    shop.write(EVENTS, DAILY, jobs=(NIGHTLY,)).events(bad_day=2, days=2)
    result = run(shop, "nightly", now="2022-01-03")
    assert not result.success
    assert "nightly: windows: 2 succeeded, 1 failed" in failure_of(result)
    assert "check positive" in failure_of(result)
    assert [row["status"] for row in job_runs(shop)] == ["FAILURE"]
    assert shop.colours("ods.events")["failed"] == ["2022-01-02"]


def test_a_maintenance_job_is_one_op_that_reports_its_steps_m01(shop: World) -> None:
    result = shop.write(EVENTS, jobs=(SWEEP,)).run("sweep")
    assert result.success
    (handled,) = [e for e in result.all_events if e.is_step_success]
    assert handled.step_key == "sweep"
    logs = [e.user_message for e in shop.instance.all_logs(result.run_id)]
    assert logs.index("step 10 first: SUCCESS, 4 rows") < logs.index(
        "step 20 second: SUCCESS, 4 rows"
    )
    (output,) = [e for e in result.all_events if e.is_successful_output]
    assert "| 10 | first | SUCCESS | 4 |" in output.step_output_data.metadata["steps"].value


@pytest.mark.usefixtures("slow")
def test_a_failed_step_fails_the_run_and_the_next_one_resumes_m04_m06(shop: World) -> None:
    shop.write(EVENTS, jobs=({**SWEEP, "steps": [*SWEEP["steps"], FAILING]},))
    result = shop.run("sweep")
    assert not result.success
    assert "step third: OSError: disk is full" in failure_of(result)
    (row,) = job_runs(shop)
    assert (row["status"], row["dagster_run_id"]) == ("FAILURE", result.run_id)
    again = shop.run("sweep")
    logs = [e.user_message for e in shop.instance.all_logs(again.run_id)]
    assert not any("first" in text for text in logs)
    whole = run(shop, "sweep", from_start=True)
    logs = [e.user_message for e in shop.instance.all_logs(whole.run_id)]
    assert "step 10 first: SUCCESS, 4 rows" in logs


def test_a_disabled_job_fails_with_the_reason_and_leaves_no_row_k02(shop: World) -> None:
    result = shop.write(EVENTS, jobs=({**SWEEP, "enabled": False},)).run("sweep")
    assert "sweep is disabled" in failure_of(result)
    assert job_runs(shop) == []


def test_a_due_schedule_starts_what_is_online_and_enabled_d13(shop: World) -> None:
    shop.write(EVENTS, jobs=({**SWEEP, "priority": 4},))
    request = tick(shop, "sweep")
    assert isinstance(request, RunRequest)
    assert request.tags["logdriven/trigger"] == "schedule"
    assert request.tags["dagster/priority"] == "4"
    shop.write(jobs=({**SWEEP, "release_state": "offline"},))
    assert tick(shop, "sweep").skip_message == "sweep is offline; start it manually"
    shop.write(jobs=({**SWEEP, "enabled": False},))
    assert tick(shop, "sweep").skip_message == "sweep is disabled"


def test_a_run_of_a_schedule_leaves_offline_tables_to_people_d13(shop: World) -> None:
    events = {**EVENTS, "release_state": "offline"}
    shop.write(
        events,
        {**ALONE, "end": "2022-01-02"},
        jobs=({**NIGHTLY, "tables": ["ods.events", "ods.alone"]},),
    )
    job = shop.definitions.resolve_job_def("nightly")
    result = job.execute_in_process(
        instance=shop.instance, tags={**tick(shop, "nightly").tags, "logdriven/now": "2022-01-03"}
    )
    assert result.success
    assert shop.log("ods.events") == []
    assert shop.log("ods.alone") == [("20220101", "SUCCESS")]
    assert job_runs(shop)[0]["run_trigger"] == "schedule"


def sensor_tick(world: World) -> Any:
    sensor = world.definitions.resolve_sensor_def("catch_up_sensor")
    with build_sensor_context(world.instance) as context:
        return sensor.evaluate_tick(context)


def test_the_sensor_leaves_offline_tables_out_and_reports_it_d13(shop: World) -> None:
    shop.write(
        {**EVENTS, "release_state": "offline"}, {**ALONE, "end": "2022-01-02", "enabled": False}
    )
    told = sensor_tick(shop).skip_message
    assert "its table is disabled" in told
    assert told.endswith("; offline, to be started manually: ods.events")
    shop.write({**ALONE, "release_state": "offline"})
    assert "every table is offline" in sensor_tick(shop).skip_message
    assert shop.catch_up(now="2022-01-03", tables=["ods.events"]).success


def test_a_requested_run_is_of_one_worker_group_d15(shop: World) -> None:
    big = {**ALONE, "table": "big", "end": "2022-01-02", "worker_group": "big", "priority": 9}
    shop.write(EVENTS, big)
    (request,) = sensor_tick(shop).run_requests
    assert request.tags["logdriven/worker_group"] == "big"
    assert request.tags["dagster/priority"] == "9"
    assert request.tags["logdriven/trigger"] == "sensor"
    assert request.run_config["ops"]["catch_up"]["config"]["tables"] == ["big"]


def test_the_sensor_ends_runs_of_jobs_whose_process_is_gone_k18(shop: World) -> None:
    shop.write(EVENTS, jobs=(SWEEP,)).run("sweep")
    gone = "UPDATE job_run SET status = 'RUNNING', running = 1, owner = owner || '1'"
    with open_runner(shop.project).run_log.begin() as conn:
        conn.exec_driver_sql(gone)
    sensor_tick(shop)
    (row,) = job_runs(shop)
    assert row["status"] == "FAILURE"
    assert row["error"].endswith("its process has ended")
