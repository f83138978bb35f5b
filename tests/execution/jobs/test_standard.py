"""Standard jobs: a named set of tables, run as one. Checklist rows in the names."""

import json
import os
import signal
import subprocess
import sys

import pytest

from logdriven_dagster.cli.shown.jobs import JobTally
from logdriven_dagster.errors import (
    AlreadyRunningError,
    DisabledError,
    JobTypeError,
    UsageError,
)
from logdriven_dagster.execution.events import WindowStarted, WindowSucceeded
from logdriven_dagster.execution.jobs.events import JobStarted
from logdriven_dagster.execution.jobs.standard import bury_dead_runs, run_job
from logdriven_dagster.execution.owners import current_owner
from logdriven_dagster.model.definitions import Kind, build_code
from logdriven_dagster.runlog.jobs import history as job_history
from tests.builders import run_window
from tests.execution.conftest import NOW
from tests.execution.jobs.running import ended, run, runs
from tests.patience import PATIENCE

JOB = "job: nightly\ntables: [ods.numbers, dws.sums]\n"
MAINTENANCE = "job: sweep\ntype: maintenance\nsteps: []\n"
ALONE = """
    table: {name}
    period: 1 day
    default_start: 2022-01-01
    end: 2022-01-02
    steps:
      - step: one
        sql: {sql}
        target: {{type: parquet}}
    {more}
"""


def alone(world, name, sql="SELECT 1 AS one", more=""):
    """A table with one window and no dependency."""
    world.write(f"tables/{name}.yaml", ALONE.format(name=name, sql=sql, more=more))


def job(world, text=JOB, name="nightly"):
    world.write(f"jobs/{name}.yaml", text)


@pytest.mark.parametrize(
    ("name", "arguments", "refusal", "reason"),
    [
        ("", {}, UsageError, "the job has no name"),
        (
            "nigthly",
            {},
            UsageError,
            "unknown job 'nigthly' in project world; did you mean 'nightly'",
        ),
        ("nightly", {"type": "maintenance"}, JobTypeError, "nightly is a standard job"),
        (
            "sweep",
            {"type": "standard"},
            JobTypeError,
            "sweep is a maintenance job, not a standard job",
        ),
        ("idle", {}, DisabledError, "idle is disabled"),
        (
            "nightly",
            {"from_step": "x"},
            UsageError,
            "nightly is a standard job, for which --from-step is",
        ),
        (
            "sweep",
            {"max_windows": 3},
            UsageError,
            "sweep is a maintenance job, for which --max-windows is",
        ),
    ],
)
def test_a_job_that_may_not_run_is_refused_before_any_log_row_k01_k02_m07(
    world, name, arguments, refusal, reason
):
    job(world)
    job(world, MAINTENANCE, "sweep")
    job(world, JOB.replace("nightly", "idle") + "enabled: false", "idle")
    with pytest.raises(refusal, match=reason):
        run(world, name, **arguments)
    assert runs(world, name) == []
    assert world.log() == []


def test_the_row_of_a_run_is_there_before_any_table_is_touched_k03(world):
    job(world)
    events = run_job(world.runner, "nightly", NOW)
    assert isinstance(next(events), JobStarted)
    assert [row["status"] for row in runs(world)] == ["RUNNING"]
    assert world.log() == []
    events.close()


def test_a_standard_job_runs_its_tables_and_its_attempts_know_the_run_k15(world):
    job(world)
    events = run(world)
    assert ended(events) == "SUCCESS"
    (row,) = runs(world)
    assert (row["status"], row["error"]) == ("SUCCESS", None)
    assert row["end_time"] is not None
    assert len([e for e in events if isinstance(e, WindowSucceeded)]) == 8
    assert {attempt["job_run_id"] for attempt in world.log()} == {1}


def test_any_failure_fails_the_job_with_its_end_and_reason_k15(world):
    job(world)
    world.numbers("2022-01-01,1", "2022-01-02,oops")
    assert ended(run(world)) == "FAILURE"
    (row,) = runs(world)
    assert row["end_time"] is not None
    assert row["error"].startswith("ods.numbers [2022-01-02, 2022-01-03): step load failed: ")


def test_a_table_that_fails_for_good_does_not_stop_the_unrelated_ones_k14(world):
    alone(world, "bad")
    world.engine.fail("bad")
    alone(world, "good")
    job(world, "job: nightly\ntables: [bad, good]")
    assert ended(run(world)) == "FAILURE"
    assert world.statuses("bad") == [("01", "FAILURE")]
    assert world.statuses("good") == [("01", "SUCCESS")]


def test_a_table_without_dependencies_is_a_root_k07(world):
    alone(world, "lonely")
    job(world, "job: nightly\ntables: [lonely]")
    assert ended(run(world)) == "SUCCESS"
    assert world.statuses("lonely") == [("01", "SUCCESS")]


def test_the_same_table_in_two_jobs_is_logged_by_run_table_and_step_k17(world):
    job(world, "job: first\ntables: [ods.numbers]\nmax_windows: 1", "first")
    job(world, "job: second\ntables: [ods.numbers]\nmax_windows: 2", "second")
    run(world, "first")
    run(world, "second")
    with world.runner.run_log.read() as conn:
        found = {n: job_history.list_attempts_of_run(conn, n) for n in (1, 2)}
    told = {
        n: [(a["job_name"], a["data_range_start"][6:8], a["steps"][0]["step_id"]) for a in attempts]
        for n, attempts in found.items()
    }
    assert told == {
        1: [("ods.numbers", "01", "load")],
        2: [("ods.numbers", "02", "load"), ("ods.numbers", "03", "load")],
    }


def test_a_job_that_is_running_is_not_started_again(world):
    job(world)
    events = run_job(world.runner, "nightly", NOW)
    next(events)
    with pytest.raises(AlreadyRunningError, match="nightly is already running in run 1"):
        run(world)
    events.close()
    assert [row["status"] for row in runs(world)] == ["DISCARDED"]


def test_an_interrupted_run_is_discarded_with_its_window(world):
    job(world)
    events = run_job(world.runner, "nightly", NOW)
    while not isinstance(next(events), WindowStarted):
        pass
    events.close()
    (row,) = runs(world)
    assert (row["status"], row["error"]) == ("DISCARDED", "interrupted: GeneratorExit")
    assert world.statuses("ods.numbers") == [("01", "DISCARDED")]


PROGRAM = """
import sys, time
from logdriven_dagster.config import load_project
from logdriven_dagster.execution.jobs.standard import run_job
from logdriven_dagster.execution.opening import open_runner
from tests.execution.conftest import NOW
events = run_job(open_runner(load_project(sys.argv[1])), "nightly", NOW)
next(events)
print("running", flush=True)
time.sleep(60)
"""


@pytest.mark.usefixtures("slow")
def test_a_killed_run_does_not_stay_running_k18(world):
    job(world)
    command = [sys.executable, "-c", PROGRAM, str(world.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout.readline() == "running\n"
        os.kill(victim.pid, signal.SIGKILL)
    assert [row["status"] for row in runs(world)] == ["RUNNING"]
    assert bury_dead_runs(world.runner.run_log, current_owner()) == 1
    (row,) = runs(world)
    assert row["status"] == "FAILURE"
    assert row["error"].endswith("its process has ended")
    assert ended(run(world, max_windows=1)) == "SUCCESS"


def test_all_relations_are_loaded_at_the_start_and_bodies_when_they_run_d09(
    spark, world, monkeypatch
):
    alone(world, "a")
    world.write("tables/later.sql", "SELECT 1 AS one")
    text = ALONE.replace("sql:", "sql_file:").format(name="b", sql="later.sql", more="")
    world.write("tables/b.yaml", text)
    job(world, "job: nightly\ntables: [a, b]\nrelations: [{from: a, to: b}]")
    events = run_job(world.runner, "nightly", NOW)
    while not isinstance(next(events), WindowSucceeded):
        pass
    world.write("tables/later.sql", "SELECT 2 AS one")
    list(events)
    assert world.rows("b") == [(2,)]


def test_offline_tables_are_left_to_people_d13(world):
    alone(world, "quiet", more="release_state: offline")
    alone(world, "loud")
    job(world, "job: nightly\ntables: [quiet, loud]")
    started = run(world, trigger="schedule")[0]
    assert started.notes == ("quiet is left out: it is offline: start it manually",)
    assert world.log("quiet") == []
    assert len(world.log("loud")) == 1
    run(world)
    assert len(world.log("quiet")) == 1
    assert [row["run_trigger"] for row in runs(world)] == ["schedule", "manual"]


def test_a_disabled_table_is_left_out_and_never_runs_d13(world):
    alone(world, "idle", more="enabled: false")
    job(world, "job: nightly\ntables: [idle]")
    started, last = run(world)
    assert started.notes == ("idle is left out: it is disabled",)
    assert last.status.value == "SUCCESS"
    (window,) = world.runner.plan(NOW, ["idle"]).tables["idle"].unfinished
    with pytest.raises(DisabledError, match="idle is disabled"):
        list(run_window(world.runner, "idle", window, NOW))
    with pytest.raises(DisabledError, match="idle is disabled"):
        list(world.runner.refresh_windows("idle", [window], NOW))
    assert world.log() == []


def test_parameters_run_over_table_over_job_over_project_and_are_frozen_d14(
    spark, world, monkeypatch
):
    monkeypatch.setenv("SHOP_KEY", "s3cret-value")
    world.write(
        "logdriven.yaml",
        "project: world\nvariables: {a: project, b: project, c: project, d: project}",
    )
    sql = "SELECT :a AS a, :b AS b, :c AS c, :d AS d, length(:key) AS key"
    alone(world, "told", sql, "variables: {c: table, d: table}")
    more = "parameters: {b: job, c: job, d: job, key: '${env:SHOP_KEY}'}"
    job(world, f"job: nightly\ntables: [told]\n{more}")
    run(world, overrides={"d": "run"})
    assert world.rows("told") == [("project", "job", "table", "run", 12)]
    (row,) = world.log("told")
    frozen = {"a": "project", "b": "job", "c": "table", "d": "run", "key": "${env:SHOP_KEY}"}
    assert json.loads(row["parameters"]) == frozen
    of_run = {"a": "project", "b": "job", "c": "job", "d": "run", "key": "${env:SHOP_KEY}"}
    assert json.loads(runs(world)[0]["parameters"]) == of_run


def test_settings_of_a_table_win_over_those_of_its_job_d14(world):
    alone(world, "own", more="retries: 1")
    alone(world, "plain")
    job(world, "job: nightly\ntables: [own, plain]\nretries: 4\npriority: 7\nworker_group: big")
    tables = world.runner.in_force("nightly").tables
    assert (tables["own"].retries, tables["plain"].retries) == (1, 4)
    assert (tables["plain"].priority, tables["plain"].worker_group) == (7, "big")
    assert world.runner.in_force().tables["plain"].retries == 0


def test_of_what_is_ready_at_once_the_greater_priority_goes_first_d15(world):
    alone(world, "a_low", more="priority: -1")
    alone(world, "b_plain")
    alone(world, "c_high", more="priority: 5")
    job(world, "job: nightly\ntables: [a_low, b_plain, c_high]")
    order = [e.attempt.table for e in run(world) if isinstance(e, WindowStarted)]
    assert order == ["c_high", "b_plain", "a_low"]


@pytest.mark.usefixtures("slow")
def test_a_run_that_takes_too_long_is_stopped(world):
    alone(world, "one")
    alone(world, "two")
    job(world, "job: nightly\ntables: [one, two]\ntimeout: 1 s")

    def slow(_run, _step):
        world.engine.wait(PATIENCE)
        return 1

    world.steps |= {"one": slow, "two": slow}
    assert ended(run(world)) == "FAILURE"
    (row,) = runs(world)
    assert "job nightly exceeds its timeout of 0:00:01" in row["error"]
    assert len(world.log()) == 1
    assert world.engine.published() == []


DIM = """
    table: dim.shops
    incremental_type: full
    period: 1 day
    default_start: 2022-01-01
    steps: [{step: load, sql: "SELECT 7 AS shop", target: {type: parquet, mode: overwrite}}]
"""
READER = """
    table: dws.shops
    period: 1 day
    default_start: 2022-01-01
    depends_on: [dim.shops, ods.numbers]
    steps: [{step: load, sql: "SELECT shop FROM dim.shops", target: {type: parquet}}]
"""


def test_a_job_takes_the_snapshot_that_another_job_has_made_and_states_what_it_waits_for_k04(world):
    world.write("tables/dim.yaml", DIM)
    world.write("tables/reader.yaml", READER)
    job(world, "job: early\ntables: [ods.numbers, dws.shops]\n", "early")
    job(world, "job: late\ntables: [dim.shops]\n", "late")
    before = NOW.replace(day=3)
    list(run_job(world.runner, "late", before))
    assert not list(run_job(world.runner, "early", NOW))[-1].blocked
    assert world.statuses("dws.shops") == [(f"0{n}", "SUCCESS") for n in (1, 2, 3, 4)]

    job(world, "job: alone\ntables: [dws.shops]\n", "alone")
    *_, end = run_job(world.runner, "alone", NOW.replace(day=6))
    assert end.status.value == "SUCCESS"
    day_5 = "[2022-01-05, 2022-01-06)"
    assert end.blocked == (f"dws.shops {day_5} waits for ods.numbers {day_5}: has not run",)
    (row,) = runs(world, "alone")
    with world.runner.run_log.read() as conn:
        (known,) = job_history.read_latest_runs(
            conn, [build_code("world", Kind.JOB, "alone")]
        ).values()
    assert known["blocked"] == end.blocked[0]
    assert row["status"] == "SUCCESS"
    tally = JobTally("alone")
    tally.add(end)
    assert tally.format_sentence() == f"alone: SUCCESS, 1 blocked\nBLOCKED  {end.blocked[0]}"
