"""A refresh that fails leaves what was published before; windows behind it go on. Row S08."""

from datetime import timedelta

from logdriven_dagster.execution.events import WindowFailed, WindowStarted, WindowSucceeded
from logdriven_dagster.model.attempts import Trigger
from logdriven_dagster.planning.plan import State
from tests.builders import at, day
from tests.execution.conftest import BROKEN, NOW, NUMBERS, SUMS

LATER = at("2022-01-06 14:00")
TWO_TARGETS = """
    table: two
    period: 1 day
    default_start: 2022-01-01
    steps:
      - {step: first, sql: SELECT 1 AS n, target: {type: parquet}}
      - step: second
        sql: SELECT 2 AS n
        target: {type: jdbc, connection: lite, table: t, pre_sql: [%s]}
"""


def failed_refresh(world, table="ods.numbers"):
    [*_, failure] = world.runner.refresh(table, day(1), NOW)
    assert isinstance(failure, WindowFailed)
    return failure


def test_later_windows_and_downstreams_go_on_and_the_old_rows_stay_s08(spark, world):
    world.catch_up()
    world.write("tables/numbers.yaml", BROKEN)
    before = world.rows("ods.numbers")
    assert failed_refresh(world).stands
    assert world.rows("ods.numbers") == before
    world.write("tables/numbers.yaml", NUMBERS)
    world.catch_up(now=LATER)
    assert world.statuses("ods.numbers")[4:] == [("01", "FAILURE"), ("05", "SUCCESS")]
    assert world.statuses("dws.sums")[4:] == [("05", "SUCCESS")]


def test_it_can_be_repeated_and_what_was_made_from_it_follows_s08(world):
    world.catch_up()
    world.write("tables/numbers.yaml", BROKEN)
    failed_refresh(world)
    world.write("tables/numbers.yaml", NUMBERS)
    [_, done] = world.runner.refresh("ods.numbers", day(1), NOW)
    assert isinstance(done, WindowSucceeded)
    assert done.attempt.attempt_number == 3
    assert world.runner.plan(NOW).tables["ods.numbers"].log.failed_refreshes == ()
    [again] = world.runner.plan(NOW).windows()
    assert (again.table, again.trigger) == ("dws.sums", Trigger.UPSTREAM)


def test_one_that_is_interrupted_leaves_its_window_finished_too(world):
    world.catch_up()
    events = world.runner.refresh("ods.numbers", day(1), NOW)
    assert isinstance(next(events), WindowStarted)
    events.close()
    assert world.statuses("ods.numbers")[4:] == [("01", "DISCARDED")]
    assert world.catch_up() == []


def test_a_rerun_for_an_upstream_that_fails_is_due_again_after_a_pause(world):
    world.catch_up()
    list(world.runner.refresh("ods.numbers", day(1), NOW))
    world.write("tables/sums.yaml", SUMS.replace("sum(n)", "CAST('oops' AS INT)"))
    world.catch_up()
    assert world.statuses("dws.sums")[-1] == ("01", "FAILURE")
    world.write("tables/sums.yaml", SUMS)
    resting = next(world.runner.plan(NOW, backoff=timedelta(minutes=5)).windows())
    assert (resting.state, resting.trigger) == (State.BLOCKED, Trigger.UPSTREAM)
    world.catch_up(now=LATER)
    assert ("01", "FAILURE") in world.statuses("dws.sums")
    assert world.statuses("dws.sums")[-2:] == [("01", "SUCCESS"), ("05", "SUCCESS")]


def test_one_that_had_begun_to_publish_leaves_its_window_open(spark, world):
    world.write("logdriven.yaml", "project: world\nconnections: {lite: {url: 'sqlite:///t.db'}}")
    world.write("tables/two.yaml", TWO_TARGETS % "")
    world.catch_up(tables=["two"], max_windows=1)
    world.write("tables/two.yaml", TWO_TARGETS % "DELETE FROM nowhere")
    assert not failed_refresh(world, "two").stands
    first = next(world.runner.plan(NOW, ["two"]).windows())
    assert (first.window, first.trigger) == (day(1), Trigger.PENDING)


def test_windows_that_ran_in_one_pass_are_finished_still_if_the_pass_fails(world):
    world.write("tables/numbers.yaml", NUMBERS.replace("period:", "batch_size: all\n    period:"))
    world.catch_up(tables=["ods.numbers"])
    world.write("tables/numbers.yaml", BROKEN.replace("period:", "batch_size: all\n    period:"))
    runner = world.runner
    windows = runner.windows("ods.numbers", day(1)) + runner.windows("ods.numbers", day(2))
    list(runner.refresh_windows("ods.numbers", windows, NOW))
    assert world.runner.plan(NOW, ["ods.numbers"]).tables["ods.numbers"].pending == 0
