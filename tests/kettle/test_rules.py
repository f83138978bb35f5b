"""Kettle's rules one by one: what its own SQL selects, and what our plan does.

Source: Kettle ETL workflow design guide. Our side runs on all three databases.
"""

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.errors import AlreadyRunningError, DisabledError, JobTypeError, UsageError
from logdriven_dagster.execution.arguments import JobArguments
from logdriven_dagster.execution.jobs.standard import run_job
from logdriven_dagster.execution.runner import Runner
from logdriven_dagster.runlog.history import logs as history
from tests.builders import claim_one, day
from tests.kettle import ours
from tests.kettle.states import NOW, State, Table, run
from tests.runlog.logbook import ME, request, rows

pytestmark = pytest.mark.sampled("database_url")

FROM = {"ods.from": True}
YESTERDAY, EARLY, LATE = (10, 15), (62, 65), (70, 75)
"""When runs began and ended, in ticks; the last two are today."""


@pytest.fixture
def selected(kettle, log):
    """What each side would run in a state: first Kettle, then we."""

    def ask(state: State) -> tuple[set[str], set[str]]:
        kettle.write(state)
        project = ours.project_of(state)
        with log.begin() as conn:
            ours.write(conn, state)
            ready, claimable = ours.ready(conn, project), ours.claimable(conn, project)
        assert ready == claimable
        return set(kettle.selected()), ready

    return ask


def pair(upstream: Table, *runs, **fields) -> State:
    """A table `ods.to` with these runs, and its upstream `ods.from`."""
    return {"ods.from": upstream, "ods.to": Table(FROM, tuple(runs), **fields)}


def done(*when) -> Table:
    """A table that nothing is awaited of, and its last completed run."""
    return Table({"source.s": False}, (run("Completed", *when),))


def test_a_table_is_taken_when_its_upstreams_completed_after_its_last_success_k04(selected):
    state = pair(done(*EARLY), run("Completed", *YESTERDAY))
    assert selected(state) == ({"ods.to"}, {"ods.to"})


@pytest.mark.parametrize("status", ["Failed", "Running", "never"])
def test_one_upstream_that_is_not_complete_keeps_its_tables_out_and_no_others_k05(selected, status):
    runs = () if status == "never" else (run(status, *EARLY),)
    broken = Table({"ods.root": True}, runs, in_job=False)
    state = {
        "ods.root": Table({"source.s": False}, (run("Failed", *EARLY),), in_job=False),
        "ods.broken": broken,
        "ods.from": done(*EARLY),
        "ods.out": Table({"ods.broken": True, "ods.from": True}),
        "ods.in": Table(FROM),
    }
    assert selected(state) == ({"ods.in"}, {"ods.in"})


def test_an_upstream_that_is_not_etl_always_counts_as_complete_k06(selected):
    state = {"ods.to": Table({"source.s": False}, (run("Completed", *YESTERDAY),))}
    assert selected(state) == ({"ods.to"}, {"ods.to"})


def test_a_table_without_any_dependency_is_a_root_which_kettle_never_selects_k07(selected):
    assert selected({"ods.to": Table()}) == (set(), {"ods.to"})


def test_what_completed_today_is_not_run_again_and_what_failed_is_k08(selected):
    state = {
        "ods.done": done(*EARLY),
        "ods.failed": Table({"source.s": False}, (run("Failed", *EARLY),)),
    }
    assert selected(state) == ({"ods.failed"}, {"ods.failed"})


def test_a_failed_table_is_retried_although_its_upstream_did_not_run_again_k09(selected):
    state = pair(done(*EARLY), run("Failed", *LATE))
    assert selected(state) == (set(), {"ods.to"})


def test_what_is_running_is_held_by_its_lease_and_not_taken_again_k10(selected, log):
    state = pair(done(*EARLY), run("Running", *LATE))
    assert selected(state) == ({"ods.to"}, set())
    with log.begin() as conn, pytest.raises(AlreadyRunningError):
        claim_one(conn, request(day(2), name="ods.to"))


def test_of_two_runs_in_one_second_exactly_one_is_the_latest_k16(kettle, log):
    twins = (run("Failed", *LATE), run("Completed", *LATE))
    kettle.write({"ods.to": Table(runs=twins)})
    assert sorted(kettle.latest("ods.to")) == ["Completed", "Failed"]
    with log.begin() as conn:
        for twin in twins:
            ours.attempt(conn, "ods.to", twin)
        second = "UPDATE job_log SET job_start_time = '2022-01-03 12:00:00'"
        conn.exec_driver_sql(second)
        assert history.read_latest_statuses(conn, ["ods.to"]) == {"ods.to": "SUCCESS"}
    latest = rows(log, "SELECT status FROM v_window_log WHERE job_name = 'ods.to'")
    assert [row["status"] for row in latest if row["status"] != "SKIPPED"] == ["SUCCESS"]


def test_a_tables_old_upstream_is_read_by_kettle_and_loaded_first_by_us(selected, log):
    """The upstream ran yesterday; today it runs before the table, in the same run of the job."""
    state = pair(done(*YESTERDAY))
    assert selected(state) == ({"ods.from", "ods.to"}, {"ods.from"})


def test_the_clock_of_the_guides_queries_stands_still(kettle):
    assert kettle._conn.exec_driver_sql("SELECT NOW(), CURDATE()").one() == (
        NOW.replace(tzinfo=None),
        NOW.date(),
    )


VALIDITY = {
    "valid": ({"kind": "STANDARD", "enabled": "Y"}, None),
    "disabled": ({"kind": "STANDARD", "enabled": "N"}, DisabledError),
    "of another type": ({"kind": "MAINTENANCE", "enabled": "Y"}, JobTypeError),
    "not registered": (None, UsageError),
    "the name was not set": (None, UsageError),
}
UNSET = "!@#$%^&*()"
"""What the guide's parameter is when nobody sets it."""


@pytest.mark.parametrize("case", VALIDITY)
def test_a_job_that_is_not_valid_stops_before_any_row_k01_k02(kettle, log, world_of_jobs, case):
    row, refusal = VALIDITY[case]
    name = UNSET if case == "the name was not set" else "daily"
    if row:
        kettle.job("daily", **row)
    assert kettle.is_valid(name) == (refusal is None)

    runner = world_of_jobs(row)
    started = run_job(runner, name, NOW, JobArguments(type="standard"))
    if refusal is None:
        next(started)
        assert len(rows(log, "SELECT * FROM job_run")) == 1
        started.close()
        return
    with pytest.raises(refusal) as reason:
        next(started)
    assert name in str(reason.value)
    assert rows(log, "SELECT * FROM job_run") == rows(log, "SELECT * FROM job_log") == []


@pytest.fixture
def world_of_jobs(log, tmp_path):
    """A runner of a project whose only job is as Kettle's row says."""

    def build(row: dict[str, str] | None) -> Runner:
        files = {"logdriven.yaml": "project: kettle\n", "tables/t.yaml": TABLE}
        if row:
            files["jobs/daily.yaml"] = JOBS[row["kind"]].format(
                enabled=str(row["enabled"] == "Y").lower()
            )
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return Runner(load_project(tmp_path), log, lambda _: None, ME)

    return build


TABLE = """
table: ods.t
period: 1 day
default_start: 2022-01-01
steps: [{step: load, sql: SELECT 1 AS one, target: {type: iceberg}}]
"""
JOBS = {
    "STANDARD": "job: daily\ntables: [ods.t]\nenabled: {enabled}\n",
    "MAINTENANCE": "job: daily\ntype: maintenance\nenabled: {enabled}\n"
    "steps: [{{exec_order: 10, step: tidy, sql: SELECT 1}}]\n",
}
