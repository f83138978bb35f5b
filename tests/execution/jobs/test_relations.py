"""A job's relations over a real log: what follows, waits, does not apply. Rows D07, K05, K09."""

import pytest

from logdriven_dagster.errors import DependencyError, TerminalStepError
from logdriven_dagster.execution.definitions.registering import register
from logdriven_dagster.execution.events import WindowFailed, WindowRefused, WindowSkipped
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.planning.dependencies import list_reads
from tests.builders import day, days, run_window
from tests.execution.conftest import NOW

pytestmark = pytest.mark.sampled("database_url")

LOAD = """
from pathlib import Path


def load(spark, window):
    broken = Path(__file__).with_name("broken")
    if broken.exists() and f"{window.start:%d}" in broken.read_text().split():
        raise ValueError("broken")
    return spark.sql("SELECT 1 AS one")
"""
TABLE = """
table: {name}
period: 1 day
default_start: 2022-01-01
end: 2022-01-03
depends_on: [{depends_on}]
steps: [{{step: load, {query}, target: {{type: iceberg}}}}]
"""


@pytest.fixture
def job(world, database_url, monkeypatch):
    """Tables `a` and `b` of two days, and a job in which `b` follows `a` as the test says."""
    monkeypatch.setenv("LOGDRIVEN_RUN_LOG", database_url.render_as_string(hide_password=False))
    return Job(world)


class Job:
    def __init__(self, world):
        self.world = world
        for old in (world.root / "tables").iterdir():
            old.unlink()
        world.write("tables/load.py", LOAD)
        self.table("a", query='python: "load.py:load"')
        self.table("b")

    def table(self, name, depends_on="", query="sql: SELECT 1 AS one"):
        self.world.steps[name] = self._load if "load.py" in query else lambda *_: 1
        values = {"name": name, "depends_on": depends_on, "query": query}
        self.world.write(f"tables/{name}.yaml", TABLE.format(**values))

    def relate(self, *relations, tables="[a, b]"):
        lines = "".join(f"\n  - {relation}" for relation in relations)
        self.world.write("jobs/j.yaml", f"job: j\ntables: {tables}\nrelations:{lines}")
        return self

    def broken(self, *days):
        self.world.write("tables/broken", " ".join(days))
        return self

    def _load(self, run, _step):
        """On the null engine what load.py does on Spark."""
        broken = self.world.root / "tables/broken"
        if broken.exists() and f"{run.window.start:%d}" in broken.read_text().split():
            raise TerminalStepError("broken")
        return 1

    def run(self, **options):
        return self.world.catch_up(job="j", **options)

    def statuses(self, name):
        return self.world.statuses(name)

    def states(self, name):
        plan = self.world.runner.plan(NOW, job="j")
        return [(item.window, item.state.value) for item in plan.queue(name)]

    def ended_before(self, table, minutes):
        """As if what ended had ended so long ago, by the database's clock."""
        log = self.world.runner.run_log
        clock = {
            "sqlite": f"strftime('%Y-%m-%d %H:%M:%f000', 'now', '-{minutes} minutes')",
            "postgresql": f"timezone('utc', clock_timestamp()) - interval '{minutes} minutes'",
        }
        ago = clock.get(log.engine.dialect.name, f"UTC_TIMESTAMP(6) - INTERVAL {minutes} MINUTE")
        self.world.sql(f"UPDATE job_log SET job_end_time = {ago} WHERE job_name = '{table}'")


@pytest.mark.sampled
def test_a_failure_is_followed_in_the_same_catch_up_and_success_is_not_d07(spark, job):
    job.relate("{from: a, to: b, condition: failure}").broken("02")
    events = job.run()
    assert job.statuses("a") == [("01", "SUCCESS"), ("02", "FAILURE")]
    assert job.statuses("b") == [("01", "SKIPPED"), ("02", "SUCCESS")]
    told = [(e.table, e.window, e.reason) for e in events if isinstance(e, WindowSkipped)]
    assert told == [("b", day(1), "does not apply: a [2022-01-01, 2022-01-02): did not fail")]


def test_why_a_window_did_not_apply_is_in_the_log(job):
    job.relate("{from: a, to: b, condition: failure}").run()
    steps = [
        (step["status"], step["output"]) for row in job.world.log("b") for step in row["steps"]
    ]
    assert [status for status, _ in steps] == ["SKIPPED", "SKIPPED"]
    assert all("did not fail" in output for _, output in steps)


def test_what_followed_a_failure_is_settled_when_the_upstream_is_tried_again_d07(job):
    job.relate("{from: a, to: b, condition: failure}").broken("01").run()
    assert job.statuses("b") == [("01", "SUCCESS")]
    job.broken().run()
    assert job.statuses("a") == [("01", "FAILURE"), ("01", "SUCCESS"), ("02", "SUCCESS")]
    assert job.statuses("b") == [("01", "SUCCESS"), ("02", "SKIPPED")]
    assert job.run() == []


def test_the_upstream_is_tried_again_before_its_failure_is_followed(job):
    job.relate("{from: a, to: b, condition: failure}").broken("01")
    job.run(tables=["a"])
    job.broken().run()
    assert job.statuses("b") == [("01", "SKIPPED"), ("02", "SKIPPED")]


def test_always_follows_a_failed_window_whose_table_is_held_d07(job):
    job.relate("{from: a, to: b, condition: always}").broken("01")
    events = job.run()
    assert job.statuses("a") == [("01", "FAILURE")]
    assert job.statuses("b") == [("01", "SUCCESS")]
    assert [e.window for e in events if isinstance(e, WindowSkipped)] == [day(2)]


def test_an_hour_of_waiting_begins_when_the_upstream_has_ended_d07(job):
    job.relate("{from: a, to: b, delay: 60 min}").run()
    assert job.statuses("b") == []
    assert job.states("b") == [(day(1), "blocked"), (day(2), "blocked")]
    with pytest.raises(DependencyError, match="of the delay of 1:00:00 remain"):
        claim(job, "b", day(1))
    job.ended_before("a", 61)
    job.run()
    assert job.statuses("b") == [("01", "SUCCESS"), ("02", "SUCCESS")]


def test_one_upstream_failed_or_never_ran_holds_only_those_behind_it_k05(job):
    job.table("c")
    job.relate("{from: a, to: b}", tables="[a, b, c]").broken("01").run()
    assert (job.statuses("b"), len(job.statuses("c"))) == ([], 2)


def test_a_table_that_failed_after_its_upstream_is_tried_again_k09(job):
    job.relate("{from: b, to: a}").broken("01").run()
    assert job.statuses("a") == [("01", "FAILURE")]
    job.broken().run()
    assert job.statuses("a") == [("01", "FAILURE"), ("01", "SUCCESS"), ("02", "SUCCESS")]
    assert len(job.statuses("b")) == 2


def registered(world):
    """A runner as a new process would have it: the files are applied."""
    found = register(world.root)
    return open_runner(found.project, spark=lambda: world.spark, run_log=found.run_log)


def claim(job, table, window):
    """As a run of the job would claim it."""
    runner = job.world.runner
    runner.project = runner.in_force("j")
    return list(run_window(runner, table, window, NOW))


@pytest.mark.parametrize("condition", ["success", "failure", "always"])
def test_a_claim_refuses_what_the_plan_blocks(job, condition):
    job.relate(f"{{from: a, to: b, condition: {condition}}}")
    assert job.states("b")[0] == (day(1), "blocked")
    with pytest.raises(DependencyError, match="has not run"):
        claim(job, "b", day(1))
    assert job.statuses("b") == []


def test_a_claim_refuses_what_does_not_apply_and_a_refresh_runs_what_was_skipped(job):
    job.relate("{from: a, to: b, condition: failure}")
    job.run(tables=["a"])
    assert job.states("b")[0] == (day(1), "inapplicable")
    with pytest.raises(DependencyError, match="does not apply"):
        claim(job, "b", day(1))
    job.run()
    list(job.world.runner.refresh("b", day(2), NOW))
    assert job.statuses("b")[-1] == ("02", "SUCCESS")


def test_relations_of_a_job_hold_in_its_runs_only(job):
    job.relate("{from: a, to: b}").broken("01")
    job.run()
    assert job.statuses("b") == []
    job.world.catch_up()
    assert len(job.statuses("b")) == 2


def test_an_upstream_that_is_only_waited_for_makes_nothing_stale_and_is_no_input(job):
    job.table("b", depends_on="{table: a, read: none}")
    job.relate("{from: a, to: b}").run()
    project = job.world.runner.project
    assert list_reads(project.table("b"), project.tables, day(1)) == {}
    list(job.world.runner.refresh("a", days(1, 3), NOW))
    assert job.run() == []
    job.table("b", depends_on="a")
    assert [window for window, _ in job.states("b")] == [day(1), day(2)]


def test_a_failed_window_that_no_longer_applies_is_skipped_and_not_refused(job):
    """A failed window to which the condition does not apply any more is skipped, once."""
    job.table("b", query='python: "load.py:load"')
    job.relate("{from: a, to: b, condition: failure}").broken("01")
    failed = [e.attempt.table for e in job.run() if isinstance(e, WindowFailed)]
    assert failed == ["a", "b"]
    again = job.broken().run()
    assert not any(isinstance(e, WindowRefused) for e in again)
    assert job.statuses("b") == [("01", "FAILURE"), ("01", "SKIPPED"), ("02", "SKIPPED")]


def test_an_earlier_version_of_a_table_waits_for_the_relations_of_the_job(job):
    job.relate("{from: a, to: b}").broken("01")
    job.table("b", query='python: "load.py:load"')
    list(registered(job.world).catch_up(NOW, ["b"]))
    assert job.statuses("b") == [("01", "FAILURE")]
    job.table("b", query='python: "load.py:load", on_empty: continue')
    runner = registered(job.world)
    runner.project = runner.in_force("j")
    with pytest.raises(DependencyError, match=r"waits for a \[2022-01-01"):
        list(run_window(runner, "b", day(1), NOW))
