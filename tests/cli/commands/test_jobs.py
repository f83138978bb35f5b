"""`logdriven job`: running, listing and looking after jobs. Checklist rows in the names."""

from pathlib import Path

import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.execution.definitions.homes import open_run_log

SWEEP = """
job: sweep
type: maintenance
steps:
  - {exec_order: 20, step: second, python: "steps.py:second"}
  - {exec_order: 10, step: first, python: "steps.py:first"}
"""
CODE = """
from pathlib import Path
from logdriven_dagster.execution.definitions.homes import open_run_log

def first():
    return 3

def second():
    if not Path("mended").exists():
        raise OSError("disk is full")
"""


@pytest.fixture
def jobs(shop: Path) -> Path:
    folder = shop / "jobs"
    folder.mkdir(exist_ok=True)
    for file in folder.glob("*.yaml"):
        file.unlink()
    (folder / "steps.py").write_text(CODE)
    (folder / "sweep.yaml").write_text(SWEEP)
    (folder / "sales.yaml").write_text("job: sales\ntables: [ods.orders]\nschedule: 0 6 * * *\n")
    return folder


def rows(shop: Path) -> int:
    with open_run_log(load_project(shop)).read() as conn:
        return int(conn.exec_driver_sql("SELECT count(*) FROM job_run").scalar_one())


def test_a_run_without_a_name_is_bad_usage_and_leaves_no_row_k01(shop, jobs, logdriven):
    result = logdriven("job", "run")
    assert result.code == 2
    assert "Missing argument 'NAME'" in result.err
    assert rows(shop) == 0


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("arguments", "ended"),
    [
        (("swep",), (2, "unknown job 'swep' in project")),
        (("sweep", "--type", "standard"), (1, "sweep is a maintenance job, not a standard job")),
        (("sales", "--type", "maintenance"), (1, "sales is a standard job, not a maintenance job")),
        (
            ("sales", "--from-step", "x"),
            (2, "sales is a standard job, for which --from-step is not allowed"),
        ),
        (("sweep", "--from-step", "x"), (2, "sweep has no enabled step x")),
        (("idle",), (1, "idle is disabled")),
    ],
)
def test_a_job_that_may_not_run_gives_the_reason_and_leaves_no_row_k02_m07(
    shop, jobs, logdriven, arguments, ended
):
    (jobs / "idle.yaml").write_text("job: idle\ntables: [ods.orders]\nenabled: false\n")
    result = logdriven("job", "run", *arguments)
    code, reason = ended
    assert result.code == code
    assert reason in result.err
    assert rows(shop) == 0


def test_a_maintenance_job_is_run_mended_and_resumed_m04_m06(shop, jobs, logdriven):
    result = logdriven("job", "run", "sweep", "--json")
    assert result.code == 1
    assert (result.json["status"], result.json["job_run_id"]) == ("FAILURE", 1)
    told = [(s["step"], s["status"], s["row_count"]) for s in result.json["steps"]]
    assert told == [("first", "SUCCESS", 3), ("second", "FAILURE", 0)]
    (shop / "mended").touch()
    result = logdriven("job", "run", "sweep")
    assert result.code == 0
    assert "first" not in result.out
    assert "SUCCESS  20 second" in result.out
    assert "sweep: SUCCESS, 1 steps done" in result.out


def test_a_standard_job_with_nothing_to_do_succeeds(shop, jobs, logdriven):
    result = logdriven("job", "run", "sales", "--now", "2022-01-01", "--json")
    assert (result.code, result.json["status"], result.json["windows"]) == (0, "SUCCESS", [])


def test_a_job_without_steps_succeeds_with_a_warning_m08(shop, jobs, logdriven):
    (jobs / "empty.yaml").write_text("job: empty\ntype: maintenance\nsteps: []\n")
    result = logdriven("job", "run", "empty")
    assert result.code == 0
    assert "warning: it has no steps to run" in result.out


def test_list_shows_every_job_and_how_it_ended(shop, jobs, logdriven):
    logdriven("job", "run", "sweep")
    listed = {row["job"]: row for row in logdriven("job", "list", "--json").json}
    assert (listed["sweep"]["type"], listed["sweep"]["status"]) == ("maintenance", "FAILURE")
    assert listed["sweep"]["steps"] == ["first", "second"]
    assert (listed["sales"]["schedule"], listed["sales"]["status"]) == ("0 6 * * *", None)
    assert "sweep" in logdriven("job", "list").out


def test_status_shows_the_latest_run_and_its_steps(shop, jobs, logdriven):
    assert "sweep has not run yet." in logdriven("job", "status", "sweep").out
    logdriven("job", "run", "sweep")
    logdriven("job", "run", "sweep", "--from-start")
    (run,) = logdriven("job", "status", "--json").json
    assert (run["job_run_id"], run["status"], run["job_version"]) == (2, "FAILURE", 1)
    assert [step["step_id"] for step in run["steps"]] == ["first", "second"]
    out = logdriven("job", "status", "sweep").out
    assert "10 first" in out
    assert "disk is full" in out
