"""Windows run in order, and the log tells the truth about them. Checklist rows in the names."""

import os
import subprocess
import sys

import pytest
from sqlalchemy import event

from logdriven_dagster.errors import (
    AlreadyDoneError,
    AlreadyRunningError,
    DependencyError,
    EarlierWindowError,
    NotDueError,
    TerminalStepError,
    TransientStepError,
    UsageError,
)
from logdriven_dagster.execution.arguments import JobArguments, RunArguments
from logdriven_dagster.execution.events import (
    WindowFailed,
    WindowSkipped,
    WindowStarted,
    WindowSucceeded,
)
from logdriven_dagster.execution.owners import current_owner, is_dead
from logdriven_dagster.model.attempts import Claim, Owner, Trigger
from tests.builders import at, claim_one, day, days, hours, run_window
from tests.execution.conftest import NOW, SUMS

GOOD = [f"2022-01-0{d},{d}" for d in range(1, 6)]
BAD = [line if not line.startswith("2022-01-02") else "2022-01-02,oops" for line in GOOD]


@pytest.mark.connect
def test_a_catch_up_runs_the_four_windows_in_order_and_once_k08(spark, world):
    world.catch_up()
    done = [("01", "SUCCESS"), ("02", "SUCCESS"), ("03", "SUCCESS"), ("04", "SUCCESS")]
    assert world.statuses("ods.numbers") == world.statuses("dws.sums") == done
    assert world.rows("dws.sums") == [(23,), (43,), (63,), (83,)]
    assert world.catch_up() == []


@pytest.mark.connect
def test_every_count_is_of_the_window_s27_k13(spark, world):
    world.catch_up(tables=["ods.numbers"], max_windows=1)
    (row,) = world.log()
    (step,) = row["steps"]
    assert (step["source_count"], step["target_count"]) == (2, 2)
    assert (step["success_count"], step["failure_count"]) == (2, 0)
    assert (step["source_type"], step["target_type"]) == ("csv", "iceberg")
    assert row["current_file"] == "numbers.csv"
    assert row["application_id"] == world.spark.conf.get("spark.app.id")


@pytest.mark.usefixtures("long")
def test_the_log_counts_the_inserts_and_updates_of_an_upsert(spark, world):
    sums = "SELECT 1 AS id, sum(n) AS total FROM ods.numbers"
    upsert = "{type: iceberg, mode: upsert, key: [id]}"
    text = SUMS.replace("SELECT sum(n) AS total FROM ods.numbers", sums)
    world.write("tables/sums.yaml", text.replace("{type: parquet}", upsert))
    world.catch_up(max_windows=4)
    counts = [
        (step["target_count"], step["inserted_count"], step["updated_count"])
        for row in world.log()
        if row["job_name"] == "dws.sums"
        for step in row["steps"]
    ]
    assert sorted(counts) == [(1, 0, 1), (1, 1, 0)]


def test_a_bad_day_holds_its_successors_until_it_is_repaired_s04_s05_d18(world):
    world.numbers(*BAD)
    events = world.catch_up()
    assert world.statuses("ods.numbers") == [("01", "SUCCESS"), ("02", "FAILURE")]
    assert world.statuses("dws.sums") == [("01", "SUCCESS")]
    held = [e.window for e in events if isinstance(e, WindowSkipped) and e.table == "ods.numbers"]
    assert held == [day(3), day(4)]
    assert "oops" in world.log("ods.numbers")[-1]["steps"][0]["error"]

    world.numbers(*GOOD)
    world.catch_up()
    assert world.statuses("ods.numbers")[2:] == [
        ("02", "SUCCESS"),
        ("03", "SUCCESS"),
        ("04", "SUCCESS"),
    ]
    assert world.engine.published("dws.sums") == [f"dws.sums {day(n)}" for n in (1, 2, 3, 4)]


def test_a_failure_holds_only_its_own_table_and_those_behind_it(world):
    world.numbers(*BAD)
    other = SUMS.replace("dws.sums", "other").replace("depends_on: [ods.numbers]", "")
    world.write("tables/o.yaml", other.replace("sum(n) AS total FROM ods.numbers", "1 AS one"))
    world.catch_up()
    assert len(world.statuses("other")) == 4


def test_an_operator_sets_a_window_back_and_it_comes_first(world):
    world.catch_up()
    world.sql(
        "UPDATE job_log SET status = 'FAILURE' WHERE job_schedule_id = 'ods.numbers-20220102000000'"
    )
    first = next(world.runner.plan(NOW).windows())
    assert (first.table, first.window) == ("ods.numbers", day(2))
    world.catch_up()
    # What was made from the window is made again too.
    assert world.statuses("ods.numbers")[4:] == [("02", "SUCCESS")]
    assert world.statuses("dws.sums")[4:] == [("02", "SUCCESS")]


def test_once_runs_the_first_pending_window_of_each_table_s07(world):
    world.catch_up(mode="once")
    assert world.statuses("ods.numbers") == world.statuses("dws.sums") == [("01", "SUCCESS")]


def test_latest_only_runs_the_newest_and_records_the_others_s07(world):
    world.catch_up(tables=["ods.numbers"], mode="latest_only")
    skipped = [("01", "SKIPPED"), ("02", "SKIPPED"), ("03", "SKIPPED")]
    assert world.statuses("ods.numbers") == [*skipped, ("04", "SUCCESS")]
    assert world.catch_up(tables=["ods.numbers"]) == []
    list(world.runner.refresh("ods.numbers", day(2), NOW))
    assert world.statuses("ods.numbers")[-1] == ("02", "SUCCESS")


def test_max_windows_bounds_a_run(world):
    world.catch_up(max_windows=3)
    assert len(world.log()) == 3


def test_a_refresh_runs_finished_windows_again_and_leaves_the_same_rows_s08(spark, world):
    world.catch_up()
    before = world.rows("ods.numbers")
    list(world.runner.refresh("ods.numbers", days(2, 4), NOW))
    assert world.statuses("ods.numbers")[4:] == [("02", "SUCCESS"), ("03", "SUCCESS")]
    assert world.rows("ods.numbers") == before


def test_a_refresh_off_the_windows_bounds_names_the_nearest_s09(world):
    with pytest.raises(UsageError, match=r"\[2022-01-01, 2022-01-03\)"):
        list(world.runner.refresh("ods.numbers", hours(5, 30), NOW))


@pytest.mark.parametrize(
    ("table", "window", "refusal", "message"),
    [
        ("ods.numbers", day(3), EarlierWindowError, r"run \[2022-01-01, 2022-01-02\) first"),
        ("ods.numbers", day(9), NotDueError, "not due before 2022-01-10"),
        ("ods.numbers", days(-1, 0), NotDueError, "before default_start"),
        ("dws.sums", day(1), DependencyError, r"waits for ods.numbers \[2022-01-01"),
    ],
)
def test_a_window_out_of_order_is_refused_with_the_way_on(world, table, window, refusal, message):
    with pytest.raises(refusal, match=message):
        list(run_window(world.runner, table, window, NOW))
    with pytest.raises(refusal, match=message):
        list(world.runner.refresh_windows(table, [window], NOW))
    assert world.log() == []


def test_a_finished_window_is_refused_unless_refreshed(world):
    list(run_window(world.runner, "ods.numbers", day(1), NOW))
    with pytest.raises(AlreadyDoneError):
        list(run_window(world.runner, "ods.numbers", day(1), NOW))


def claim_elsewhere(world, owner):
    """As if another process had started the first window."""
    with world.runner.run_log.begin() as conn:
        claim = Claim(
            "ods.numbers", day(1), 1440, "time_window", "w", Trigger.PENDING, owner, NOW, ("load",)
        )
        claim_one(conn, claim)


def test_a_window_that_runs_elsewhere_is_left_alone(world):
    claim_elsewhere(world, Owner("another-host", 1, 1))
    assert world.catch_up() == []
    with pytest.raises(AlreadyRunningError):
        list(run_window(world.runner, "ods.numbers", day(1), NOW))


def test_the_window_of_a_dead_process_is_run_again(world):
    pid = int(
        subprocess.run(
            [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
        ).stdout
    )
    me = current_owner()
    claim_elsewhere(world, Owner(me.host, pid, me.started))
    assert next(world.runner.plan(NOW).windows()).reason == "FAILURE in job 1: its runner died"
    world.catch_up(max_windows=1)
    assert world.statuses("ods.numbers") == [("01", "FAILURE"), ("01", "SUCCESS")]


def test_a_process_number_that_came_again_is_not_the_same_process():
    me = current_owner()
    assert not is_dead(me)
    assert is_dead(Owner(me.host, os.getpid(), me.started - 5))
    assert not is_dead(Owner("another-host", 2**22 + 1, 1))


@pytest.mark.connect
def test_closing_in_mid_window_discards_the_attempt_y06(world):
    events = world.runner.catch_up(NOW)
    assert isinstance(next(events), WindowStarted)
    events.close()
    assert world.statuses("ods.numbers") == [("01", "DISCARDED")]
    assert world.log()[0]["steps"][0]["error"] == "interrupted: GeneratorExit"
    assert isinstance(world.catch_up()[-1], WindowSucceeded)


def test_a_check_stops_publication_s28(spark, world):
    check = "checks: [{check: positive, sql: SELECT * FROM load WHERE n > 15}]"
    file = world.root / "tables/numbers.yaml"
    file.write_text(file.read_text() + check)
    *_, failed, _, _ = (
        e for e in world.catch_up(tables=["ods.numbers"]) if not isinstance(e, WindowStarted)
    )
    assert isinstance(failed, WindowFailed)
    (step,) = world.log("ods.numbers")[-1]["steps"]
    assert "positive" in step["error"]
    assert (step["target_count"], step["success_count"], step["failure_count"]) == (0, 0, 2)
    assert world.rows("ods.numbers", day(2)) == []


STEPS = """
    table: many
    period: 1 day
    default_start: 2022-01-01
    steps:
      - step: shape
        sql: SELECT 1 AS one
      - step: first
        sql: SELECT one FROM shape WHERE ${wanted}
        target: {type: iceberg, name: many_first}
        on_empty: skip_following_steps
      - step: second
        sql: SELECT one + 1 AS two FROM first
        target: {type: iceberg}
    variables: {wanted: "true"}
"""


def steps_of(world):
    return {s["step_id"]: (s["status"], s["target_count"]) for s in world.log("many")[-1]["steps"]}


def test_steps_run_in_order_and_read_each_other(spark, world):
    world.write("tables/many.yaml", STEPS)
    world.catch_up(tables=["many"], max_windows=1)
    assert steps_of(world) == {
        "shape": ("SUCCESS", None),
        "first": ("SUCCESS", 1),
        "second": ("SUCCESS", 1),
    }
    assert world.rows("many") == [(2,)]


def test_empty_data_can_skip_the_following_steps_s26(world):
    world.write("tables/many.yaml", STEPS)
    world.steps["many"] = lambda _run, step: int(step.step != "first")
    world.catch_up(tables=["many"], max_windows=1)
    assert [each.step for each in world.engine.publications] == ["first"]
    assert steps_of(world)["second"] == ("SKIPPED", None)
    assert world.log("many")[-1]["status"] == "SUCCESS"


def test_overrides_are_recorded_s42(world):
    world.write("tables/many.yaml", STEPS)
    world.catch_up(
        tables=["many"], max_windows=1, arguments=RunArguments(overrides={"wanted": "1 = 1"})
    )
    assert world.log("many")[-1]["runtime_args"] == {"wanted": "1 = 1"}


@pytest.mark.parametrize("value", ["${env:HOME}", "x/${file:/etc/passwd}"])
@pytest.mark.parametrize("arguments", [RunArguments, JobArguments])
def test_an_override_cannot_reach_the_environment(arguments, value):
    with pytest.raises(UsageError, match=r"override d: \$\{env:…\} and .* declare a variable"):
        arguments(overrides={"d": value})


def test_a_refresh_can_leave_steps_out_s08(world):
    world.write("tables/many.yaml", STEPS)
    world.catch_up(tables=["many"], max_windows=1)
    left_out = RunArguments(exclude_steps=frozenset({"second"}))
    list(world.runner.refresh("many", day(1), NOW, left_out))
    assert set(steps_of(world)) == {"shape", "first"}
    with pytest.raises(UsageError, match="no step nothing; its steps are shape, first, second"):
        list(world.runner.refresh("many", day(1), NOW, RunArguments(from_step="nothing")))


def read_as_a_whole(world):
    """Let sums read all of numbers for each of its windows."""
    file = world.root / "tables/sums.yaml"
    reading = "depends_on: [{table: ods.numbers, window: none, read: all}]"
    file.write_text(file.read_text().replace("depends_on: [ods.numbers]", reading))


def test_what_a_step_reads_as_a_whole_runs_first_b4(world):
    read_as_a_whole(world)
    for options in ({"max_parallel": 1}, {"max_parallel": 3}):
        events = world.catch_up(now=NOW, **options)
        assert not [event for event in events if isinstance(event, WindowFailed)]
        order = [each.table for each in world.engine.publications[-8:]]
        assert order == ["ods.numbers"] * 4 + ["dws.sums"] * 4
        world.sql("UPDATE job_log SET status = 'FAILURE'")


@pytest.mark.usefixtures("long")
def test_each_window_reads_all_rows_of_what_it_reads_as_a_whole_b4(spark, world):
    read_as_a_whole(world)
    events = world.catch_up(max_parallel=3)
    assert not [event for event in events if isinstance(event, WindowFailed)]
    assert world.rows("dws.sums") == [(23 + 43 + 63 + 83,)] * 4


@pytest.mark.usefixtures("long")
def test_before_and_after_an_upstreams_windows_nothing_is_awaited_and_nothing_read_b6(spark, world):
    file = world.root / "tables/numbers.yaml"
    bounds = "default_start: 2022-01-02\nend: 2022-01-04"
    file.write_text(file.read_text().replace("default_start: 2022-01-01", bounds))
    sums = world.root / "tables/sums.yaml"
    sums.write_text(sums.read_text().replace("sum(n)", "coalesce(sum(n), 0)"))
    world.catch_up(tables=["ods.numbers"])
    world.catch_up()
    assert world.statuses("dws.sums") == [(f"0{n}", "SUCCESS") for n in (1, 2, 3, 4)]
    assert {row[0] for row in world.rows("dws.sums")} == {0, 43, 63}


def test_a_refresh_into_the_future_is_refused_before_anything_runs(world):
    with pytest.raises(NotDueError, match=r"not due before 2022-01-06.*nothing was run"):
        list(world.runner.refresh("ods.numbers", days(1, 6), NOW))
    assert world.log() == []


def test_lookback_runs_earlier_windows_again_with_each_new_one(world):
    file = world.root / "tables/numbers.yaml"
    file.write_text(file.read_text() + "lookback: 1\n")
    for n in (2, 3, 4):
        world.catch_up(tables=["ods.numbers"], now=at(f"2022-01-0{n}"))
    days_run = [start for start, _ in world.statuses("ods.numbers")]
    assert days_run == ["01", "01", "02", "02", "03"]
    assert {row["run_trigger"] for row in world.log()} == {"pending", "lookback"}


def test_a_broken_definition_fails_its_window_and_not_the_process(spark, world):
    file = world.root / "tables/sums.yaml"
    file.write_text(file.read_text().replace("sum(n)", "sum(missing)"))
    failed = [e for e in world.catch_up() if isinstance(e, WindowFailed)]
    assert [(e.attempt.table, e.step_id) for e in failed] == [("dws.sums", "add")]
    assert "missing" in failed[0].error
    assert world.statuses("ods.numbers")[-1] == ("04", "SUCCESS")


def test_a_frame_is_written_and_logged_like_a_configured_table(spark, world):
    project = world.runner.project
    frame = world.spark.sql("SELECT 7 AS n")
    list(world.runner.write_frame(project.table("ods.numbers"), day(1), frame, NOW))
    assert world.statuses("ods.numbers") == [("01", "SUCCESS")]
    assert world.rows("ods.numbers") == [(7,)]


FLAKY = """
from pathlib import Path


def load(spark):
    tries = Path(__file__).with_name("tries")
    tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
    if len(tries.read_text()) <= 2:
        raise {error}("not this time")
    return spark.sql("SELECT 1 AS one")
"""


def flaky(world, error, retries):
    world.write("tables/flaky.py", FLAKY.format(error=error))
    world.write(
        "tables/flaky.yaml",
        f"""
        table: flaky
        period: 1 day
        default_start: 2022-01-01
        retries: {retries}
        steps: [{{step: load, python: "flaky.py:load", target: {{type: iceberg}}}}]
        """,
    )
    world.catch_up(tables=["flaky"], max_windows=1)
    (row,) = world.log("flaky")
    return row["status"], row["error_count"]


def test_a_transient_error_is_tried_again_and_its_count_kept_k12(spark, world):
    assert flaky(world, "ConnectionError", retries=3) == ("SUCCESS", 2)


@pytest.mark.parametrize(
    ("error", "retries", "outcome"),
    [
        (TransientStepError("not this time"), 3, ("SUCCESS", 2)),
        (TransientStepError("not this time"), 1, ("FAILURE", 2)),
        (TerminalStepError("never"), 3, ("FAILURE", 1)),
    ],
    ids=["enough retries", "too few", "terminal"],
)
def test_transient_errors_are_retried_as_often_as_a_table_allows_k11(
    world, error, retries, outcome
):
    world.engine.fail("flaky", error=error, times=2)
    assert flaky(world, "unused", retries) == outcome
    assert len(world.engine.published("flaky")) == (outcome[0] == "SUCCESS")


def test_a_terminal_error_is_not_tried_again(spark, world):
    assert flaky(world, "ValueError", retries=3) == ("FAILURE", 1)


def test_a_check_that_fails_behind_a_view_is_logged_at_the_step_it_keeps_back(world):
    world.failing_checks.add("never")
    world.write("tables/many.yaml", STEPS)
    file = world.root / "tables/many.yaml"
    view = "  - step: last\n    sql: SELECT two FROM second\n"
    check = "checks: [{check: never, sql: SELECT * FROM last}]\n"
    file.write_text(file.read_text().replace("variables:", f"{view}variables:") + check)
    world.catch_up(tables=["many"], max_windows=1)
    row = world.log("many")[-1]
    assert row["status"] == "FAILURE"
    errors = {step["step_id"]: step["error"] for step in row["steps"]}
    assert "never" in errors["second"]
    assert errors["last"] is None


def test_a_catch_up_looks_at_the_log_once_before_its_first_claim(world):
    runner, asked = world.runner, []
    note = lambda *values: asked.append(values[2])  # noqa: E731 - a listener
    event.listen(runner.run_log.engine, "before_cursor_execute", note)
    work = runner.catching_up(NOW)
    assert next(work.plan.ready()).table == "ods.numbers"
    assert work.queue.next_ready().table == "ods.numbers"
    assert sum("FROM log_range" in statement for statement in asked) == 1
