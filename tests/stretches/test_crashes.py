"""Whatever ends a runner in the middle of a pass: nothing is lost, nothing is there twice."""

from collections.abc import Callable
from typing import Any

import pytest

from logdriven_dagster.errors import RunLogError
from logdriven_dagster.execution.events import (
    WindowLost,
    WindowSetBack,
    WindowStarted,
    WindowSucceeded,
)
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.attempts import leases
from tests.builders import at
from tests.execution.conftest import World
from tests.stretches.conftest import EXPIRE, LINES, NOW, POINTS, hurt, together


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point[2]} {point[1]}")
@pytest.mark.parametrize("kind", ["iceberg", "delta", "parquet", "json"])
def test_whoever_takes_over_goes_on_window_by_window(
    spark: Any,
    numbers: World,
    monkeypatch: pytest.MonkeyPatch,
    point: tuple[Any, str, str],
    kind: str,
):
    numbers.write("tables/numbers.yaml", together(f"{{type: {kind}, window_column: day}}"))
    with monkeypatch.context() as patched:
        hurt(patched, point, RunLogError("as if the process were gone"))
        with pytest.raises(RunLogError):
            numbers.catch_up(now=NOW)
    numbers.sql(EXPIRE)
    events = numbers.catch_up(now=NOW)
    assert sum(isinstance(event, WindowSucceeded) for event in events) == 6
    statuses = [status for _, status in numbers.statuses("ods.numbers")]
    assert statuses == ["FAILURE"] * 6 + ["SUCCESS"] * 6
    assert len(numbers.rows("ods.numbers")) == 21


@pytest.mark.parametrize("point", POINTS, ids=lambda point: f"{point[2]} {point[1]}")
def test_a_database_gets_each_window_once(
    database: World,
    sql_of_shop: Callable[[str], list[Any]],
    monkeypatch: pytest.MonkeyPatch,
    point: tuple[Any, str, str],
):
    target = "{type: jdbc, connection: shop, table: numbers, window_column: day, mode: append}"
    database.write("tables/numbers.yaml", together(target))
    with monkeypatch.context() as patched:
        hurt(patched, point, RunLogError("as if the process were gone"))
        with pytest.raises(RunLogError):
            database.catch_up(now=NOW)
    database.sql(EXPIRE)
    events = database.catch_up(now=NOW)
    assert sum(isinstance(event, WindowSucceeded) for event in events) == 6
    assert len(database.rows("ods.numbers")) == 21
    assert sql_of_shop("SELECT count(*) FROM logdriven_commit") == [(6,)]


def test_a_window_that_a_database_refuses_leaves_those_before_it_there_once(
    database: World, sql_of_shop: Callable[[str], list[Any]]
):
    sql_of_shop("CREATE TABLE numbers (day DATE, n INTEGER CHECK (n < 40))")
    target = "{type: jdbc, connection: shop, table: numbers, window_column: day, mode: append}"
    database.write("tables/numbers.yaml", together(target))
    database.catch_up(now=NOW)
    refused = [(f"0{n}", "DISCARDED") for n in range(1, 7)]
    alone = [("01", "SUCCESS"), ("02", "SUCCESS"), ("03", "SUCCESS"), ("04", "FAILURE")]
    assert database.statuses("ods.numbers") == refused + alone
    rows = sql_of_shop("SELECT n FROM numbers ORDER BY n")
    assert [n for (n,) in rows] == [10, 20, 21, 30, 31, 32]


def test_an_interrupted_pass_is_discarded_and_runs_again_as_one(
    numbers: World, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patched:
        hurt(patched, (numbers.session_class, "stage", "after"), KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            numbers.catch_up(now=NOW)
    assert {status for _, status in numbers.statuses("ods.numbers")} == {"DISCARDED"}
    events = numbers.catch_up(now=NOW)
    assert [type(event) for event in events] == [WindowStarted] * 6 + [WindowSucceeded] * 6
    assert [each.job_id for each in numbers.engine.publications] == [7, 8, 9, 10, 11, 12]


def test_one_lost_window_stops_the_pass_and_no_other(
    numbers: World, monkeypatch: pytest.MonkeyPatch
):
    original = numbers.session_class.publish

    def discarded_meanwhile(*args: Any) -> Any:
        patched.undo()
        third = numbers.log("ods.numbers")[2]["job_id"]
        with numbers.runner.run_log.begin() as conn:
            leases.discard(conn, third, numbers.runner.owner)
        return original(*args)

    with monkeypatch.context() as patched:
        patched.setattr(numbers.session_class, "publish", discarded_meanwhile)
        events = numbers.catch_up(now=NOW)
    assert sum(isinstance(event, WindowLost) for event in events) == 1
    assert sum(isinstance(event, WindowSetBack) for event in events) == 5
    numbers.catch_up(now=NOW)
    days = [each.window.start.day for each in numbers.engine.publications]
    assert days == [1, 2, 3, 4, 5, 6]


def test_a_range_is_refreshed_in_one_pass(spark: Any, numbers: World):
    numbers.catch_up(now=NOW)
    numbers.numbers(*LINES, "2022-01-03,99")
    span = TimeWindow(at("2022-01-02"), at("2022-01-05"))
    events = list(numbers.runner.refresh("ods.numbers", span, NOW))
    published = [e.published[0].snapshot_id for e in events if isinstance(e, WindowSucceeded)]
    assert len(published) == 3
    assert len(set(published)) == 1
    assert len(numbers.rows("ods.numbers")) == 22


def test_a_limit_counts_windows(numbers: World):
    events = numbers.catch_up(now=NOW, max_windows=4)
    assert sum(isinstance(event, WindowSucceeded) for event in events) == 4
    assert [each.window.start.day for each in numbers.engine.publications] == [1, 2, 3, 4]
