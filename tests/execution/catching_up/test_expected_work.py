"""The work that a catch-up expects: what earlier windows took, for those that it plans."""

from logdriven_dagster.execution.catching_up.expected_work import expect_work
from tests.builders import at


def expected(world, now, *tables):
    return expect_work(world.runner.run_log, world.runner.plan(at(now), tables or None))


def run(world, now, *tables):
    for _ in world.runner.catch_up(at(now), tables or None):
        pass


def test_nothing_is_expected_of_a_table_that_has_never_run(world):
    assert expected(world, "2022-01-04", "ods.numbers") is None
    run(world, "2022-01-04", "ods.numbers")
    assert expected(world, "2022-01-05", "ods.numbers") is not None
    assert expected(world, "2022-01-05") is None, "dws.sums has not run"


def test_as_many_rows_are_expected_as_earlier_windows_read(world):
    rows = {"2022-01-01": 10, "2022-01-02": 1000, "2022-01-03": 40}
    world.steps["ods.numbers"] = lambda run, _step: rows[f"{run.window.start:%Y-%m-%d}"]
    run(world, "2022-01-04", "ods.numbers")
    work = expected(world, "2022-01-06", "ods.numbers")
    assert work.rows == 80, "two windows of 40 rows, the median"
    assert 0 < work.seconds < 60


def test_nothing_is_expected_of_a_long_catch_up(world):
    run(world, "2022-01-02", "ods.numbers")
    assert expected(world, "2022-04-11", "ods.numbers").rows > 0
    assert expected(world, "2022-04-13", "ods.numbers") is None
