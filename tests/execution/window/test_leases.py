"""One runner per window, whatever happens to it. Checklist rows in the names."""

import json
import time
from datetime import timedelta

import pytest

from logdriven_dagster.engine import WindowSession
from logdriven_dagster.errors import AlreadyRunningError
from logdriven_dagster.execution.arguments import RunArguments
from logdriven_dagster.execution.events import WindowFailed, WindowLost, WindowSucceeded
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.execution.owners import current_owner
from logdriven_dagster.execution.upkeep import discard
from logdriven_dagster.model.attempts import OnRunning
from logdriven_dagster.runlog.store import RunLog, UnreachableError
from tests.builders import day, run_window, warehouse
from tests.execution.conftest import NOW
from tests.execution.crashes import EXPIRE, crash, kill
from tests.patience import PATIENCE

TWO_STEPS = """
    table: many
    period: 1 day
    default_start: 2022-01-01
    steps:
      - step: first
        sql: SELECT 1 AS one
        target: {type: iceberg, name: many_first}
      - step: second
        sql: SELECT one + 1 AS two FROM first
        target: {type: iceberg}
"""


def lease(world, text):
    world.write("logdriven.yaml", f"project: world\nlease: {text}")


def ended(events, kind):
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.usefixtures("slow")
def test_a_heartbeat_keeps_a_window_that_takes_longer_than_its_lease(world, after_stage):
    lease(world, "1 s")

    def slow():
        time.sleep(1.6)
        with pytest.raises(AlreadyRunningError):
            list(run_window(open_runner(world.runner.project), "ods.numbers", day(1), NOW))

    after_stage("load", slow)
    world.catch_up(tables=["ods.numbers"], max_windows=1)
    assert world.statuses("ods.numbers") == [("01", "SUCCESS")]
    (row,) = world.log()
    assert row["heartbeat_at"] > row["job_start_time"]
    assert row["fencing_token"] > 0


def test_a_zombie_neither_publishes_nor_finishes_y15_d19(spark, world, after_stage):
    def sleep_past_the_lease():
        world.sql(EXPIRE)
        world.catch_up(tables=["ods.numbers"], max_windows=1)

    after_stage("load", sleep_past_the_lease)
    events = world.catch_up(tables=["ods.numbers"], max_windows=1)
    (lost,) = ended(events, WindowLost)
    assert "another process ended it" in str(lost.reason)
    assert world.statuses("ods.numbers") == [("01", "FAILURE"), ("01", "SUCCESS")]
    assert [n for _, n in world.rows("ods.numbers")] == [11, 12]
    tokens = [row["fencing_token"] for row in world.log()]
    assert tokens == sorted(set(tokens))


def test_a_dead_attempt_goes_on_at_its_first_unfinished_step_y03_y13(
    spark, world, after_stage, monkeypatch
):
    world.write("tables/many.yaml", TWO_STEPS)
    staged = after_stage("second", kill)
    crash(world, monkeypatch, "many")
    world.catch_up(tables=["many"], max_windows=1)
    assert staged == ["first", "second", "second"]
    died, done = world.log("many")
    assert (died["status"], done["status"]) == ("FAILURE", "SUCCESS")
    assert "taken over from" in died["steps"][1]["error"]
    assert "its lease ran out" in died["steps"][1]["error"]
    assert done["steps"][0]["output"].startswith("taken over from an earlier attempt")
    assert done["steps"][0]["target_count"] == 1
    assert world.rows("many") == [(2,)]


def test_a_step_that_cannot_recover_starts_with_the_one_before(world, after_stage, monkeypatch):
    text = TWO_STEPS.replace("step: second", "step: second\n        can_recover: false")
    world.write("tables/many.yaml", text)
    staged = after_stage("second", kill)
    crash(world, monkeypatch, "many")
    world.catch_up(tables=["many"], max_windows=1)
    assert staged == ["first", "second", "first", "second"]


def test_a_changed_definition_is_never_resumed(world, after_stage, monkeypatch):
    world.write("tables/many.yaml", TWO_STEPS)
    queries = []

    def note(_run, step):
        queries.append(step.sql)
        return 1

    world.steps["many"] = note
    staged = after_stage("second", kill)
    crash(world, monkeypatch, "many")
    world.write("tables/many.yaml", TWO_STEPS.replace("SELECT 1 AS one", "SELECT 7 AS one"))
    world.catch_up(tables=["many"], max_windows=1)
    assert staged == ["first", "second", "first", "second"]
    assert queries[2:] == ["SELECT 7 AS one", "SELECT one + 1 AS two FROM first"]
    assert [each.job_id for each in world.engine.publications] == [2, 2]


def test_what_read_upstream_rows_that_changed_since_is_never_resumed(spark, world, monkeypatch):
    world.catch_up(tables=["ods.numbers"], max_windows=1)
    with monkeypatch.context() as dying:
        dying.setattr(WindowSession, "publish", lambda *_: kill())
        crash(world, monkeypatch, "dws.sums")
    world.numbers("2022-01-01,100")
    list(world.runner.refresh_windows("ods.numbers", [day(1)], NOW))
    world.catch_up(tables=["dws.sums"], max_windows=1)
    assert world.rows("dws.sums") == [(100,)]


def test_an_attempt_that_ended_by_itself_is_not_resumed_y14(world, after_stage):
    world.write("tables/many.yaml", TWO_STEPS)

    def fail():
        raise ValueError("bad")

    staged = after_stage("second", fail)
    world.catch_up(tables=["many"], max_windows=1)
    assert ended(world.catch_up(tables=["many"], max_windows=1), WindowSucceeded)
    assert staged == ["first", "second", "first", "second"]


@pytest.mark.usefixtures("slow")
def test_a_runner_that_cannot_reach_the_log_stops_before_it_publishes(
    world, after_stage, monkeypatch
):
    lease(world, "1 s")
    away = []

    def go_away():
        away.append(True)
        time.sleep(1.5)

    def unreachable(_log):
        raise UnreachableError("the server is away")

    reachable = RunLog._open_connection

    def connected(self, options):
        return unreachable(self) if away else reachable(self, options)

    monkeypatch.setattr(RunLog, "_open_connection", connected)
    monkeypatch.setattr(RunLog, "patience", 0.2)
    after_stage("load", go_away)
    events = world.runner.catch_up(NOW, ["ods.numbers"], max_windows=1)
    with pytest.raises(Exception, match="the server is away"):
        list(events)
    away.clear()
    monkeypatch.setattr(RunLog, "_open_connection", reachable)
    world.sql(EXPIRE)
    assert world.catch_up(tables=["ods.numbers"], max_windows=1)
    assert world.statuses("ods.numbers") == [("01", "FAILURE"), ("01", "SUCCESS")]


def test_on_running_fail_refuses_to_start_s10(world, after_stage):
    def second():
        arguments = RunArguments(on_running=OnRunning.FAIL)
        with pytest.raises(AlreadyRunningError, match="is running in job 1"):
            world.catch_up(tables=["ods.numbers"], arguments=arguments)

    after_stage("load", second)
    assert ended(world.catch_up(tables=["ods.numbers"], max_windows=1), WindowSucceeded)


def test_on_running_replace_fences_the_first_s10(world, after_stage):
    replaced = []

    def second():
        arguments = RunArguments(on_running=OnRunning.REPLACE)
        events = world.catch_up(tables=["ods.numbers"], max_windows=1, arguments=arguments)
        replaced.extend(event.attempt.replaced for event in ended(events, WindowSucceeded))

    after_stage("load", second)
    events = world.catch_up(tables=["ods.numbers"], max_windows=1)
    assert len(ended(events, WindowLost)) == 1
    assert replaced == [current_owner()]
    assert world.statuses("ods.numbers") == [("01", "FAILURE"), ("01", "SUCCESS")]
    assert [each.job_id for each in world.engine.publications] == [2]


def test_the_log_is_asked_for_the_lease_before_rows_are_published(world, monkeypatch):
    runner, publish = world.runner, world.session_class.publish

    def discard_first(session, step_id, verify):
        # No other runner fences the window: only the log knows that the attempt has ended.
        discard(runner.project, runner.run_log, "ods.numbers", runner.owner)
        return publish(session, step_id, verify)

    monkeypatch.setattr(world.session_class, "publish", discard_first)
    events = world.catch_up(tables=["ods.numbers"])
    assert len(ended(events, WindowLost)) == 1
    assert world.statuses("ods.numbers") == [("01", "DISCARDED")]
    assert world.engine.publications == ()


def test_a_discarded_attempt_publishes_nothing_and_cleans_up_y06_y12(spark, world, after_stage):
    runner = world.runner
    after_stage(
        "load", lambda: discard(runner.project, runner.run_log, "ods.numbers", runner.owner)
    )
    events = world.catch_up(tables=["ods.numbers"])
    assert len(ended(events, WindowLost)) == 1
    assert world.statuses("ods.numbers") == [("01", "DISCARDED")]
    (step,) = world.log()[0]["steps"]
    assert step["status"] == "DISCARDED"
    assert step["error"].startswith("discarded by ")
    data = warehouse(world.runner.project) / "ods" / "numbers" / "data"
    assert list(data.iterdir()) == []
    assert ended(world.catch_up(tables=["ods.numbers"], max_windows=1), WindowSucceeded)


SLOW = """
    table: slow
    period: 1 day
    default_start: 2022-01-01
    timeout: {limit}
    timeout_strategy: {strategy}
    steps: [{{step: load, python: "slow.py:load", target: {{type: parquet}}}}]
"""
SLEEP = """
import json
import time


def load(spark):
    time.sleep(1.5)
    return spark.sql("SELECT 1 AS one")
"""


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled
@pytest.mark.parametrize(
    ("strategy", "status", "warned"),
    [("warn", "SUCCESS", True), ("fail", "FAILURE", False), ("both", "FAILURE", True)],
)
def test_a_timeout_warns_or_fails_or_both_d12(world, caplog, strategy, status, warned):
    world.write("tables/slow.py", SLEEP)
    world.write("tables/slow.yaml", SLOW.format(strategy=strategy, limit="1 s"))

    def slow(_run, _step):
        world.engine.wait(PATIENCE, lambda: strategy == "warn" and "overdue: " in caplog.text)
        return 1

    world.steps["slow"] = slow
    event = world.catch_up(tables=["slow"], max_windows=1)[1]
    assert world.log("slow")[0]["status"] == status
    assert ("overdue: " in caplog.text) == warned
    assert len(world.engine.published("slow")) == (status == "SUCCESS")
    if isinstance(event, WindowFailed):
        assert "exceeds its timeout of 0:00:01" in event.error


def test_a_timeout_stops_a_step_on_spark_d12(spark, world):
    world.write("tables/slow.py", SLEEP)
    world.write("tables/slow.yaml", SLOW.format(strategy="fail", limit="1 s"))
    began = time.monotonic()
    event = world.catch_up(tables=["slow"], max_windows=1)[1]
    assert "exceeds its timeout of 0:00:01" in event.error
    assert time.monotonic() - began < 12


def test_a_failing_window_rests_longer_and_longer_for_what_starts_by_itself(world):
    world.numbers("2022-01-01,oops")
    minute = timedelta(minutes=1)
    for _ in range(3):
        world.catch_up(tables=["ods.numbers"])
    assert world.catch_up(tables=["ods.numbers"], backoff=minute) == []
    (planned, *_) = world.runner.plan(NOW, ["ods.numbers"], backoff=minute).windows()
    assert planned.reason.startswith("failed 3 times in a row")
    assert [row["failures"] for row in world.log()] == [0, 1, 2]
    world.sql("UPDATE job_log SET job_end_time = datetime(job_end_time, '-5 minutes')")
    assert world.catch_up(tables=["ods.numbers"], backoff=minute)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["iceberg", "parquet"])
def test_a_folder_elsewhere_that_the_log_calls_staged_is_neither_read_nor_removed(
    spark, world, after_stage, monkeypatch, kind
):
    text = TWO_STEPS.replace("target: {type: iceberg}", f"target: {{type: {kind}}}")
    world.write("tables/many.yaml", text)
    after_stage("second", kill)
    crash(world, monkeypatch, "many")
    world.write("elsewhere/precious.txt", "mine")
    (row,) = world.log("many")
    state = json.loads(row["steps"][0]["staged"])
    state["rows"] |= {"location": str(world.root / "elsewhere"), "files": [], "rows": 0}
    planted = json.dumps(state).replace("'", "''")
    world.sql(f"UPDATE step_log SET staged = '{planted}' WHERE step_id = 'first'")
    world.catch_up(tables=["many"], max_windows=1)
    assert world.rows("many") == [(2,)]
    assert (world.root / "elsewhere/precious.txt").is_file()
