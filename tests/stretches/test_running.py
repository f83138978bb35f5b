"""Windows in one pass: the rows and the log are those of windows that run one by one."""

from collections.abc import Callable
from typing import Any

import pytest

from logdriven_dagster.execution.events import (
    WindowFailed,
    WindowSetBack,
    WindowStarted,
    WindowSucceeded,
)
from tests.execution.conftest import World
from tests.stretches.conftest import LINES, NOW, together

CHECKS = "[{check: six_or_less, sql: SELECT day FROM load GROUP BY day HAVING count(*) > 6}]"
TARGETS = [
    "{type: iceberg, window_column: day}",
    "{type: iceberg, window_column: day, mode: append}",
    "{type: iceberg}",
    "{type: parquet, mode: append}",
    "{type: delta, window_column: day}",
    "{type: delta, window_column: day, mode: append}",
    "{type: parquet, window_column: day}",
    "{type: orc, window_column: day, mode: append}",
    "{type: csv, window_column: day}",
    "{type: json, window_column: day, mode: append}",
]
DATABASE = "{type: jdbc, connection: shop, table: numbers, window_column: day"


@pytest.mark.sampled
@pytest.mark.parametrize("target", TARGETS)
def test_every_window_has_its_own_rows_and_its_own_line_in_the_log(numbers: World, target: str):
    numbers.write("tables/numbers.yaml", together(target))
    events = numbers.catch_up(now=NOW)
    done = [event for event in events if isinstance(event, WindowSucceeded)]
    assert [event.steps[0].counts.target for event in done] == [1, 2, 3, 4, 5, 6]
    assert [event.steps[0].counts.source for event in done] == [1, 2, 3, 4, 5, 6]
    assert len(numbers.rows("ods.numbers")) == 21
    assert len(numbers.rows("ods.numbers", done[3].attempt.window)) == 4
    assert numbers.statuses("ods.numbers") == [(f"0{n}", "SUCCESS") for n in range(1, 7)]


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["overwrite_window", "append"])
def test_windows_of_one_pass_are_published_one_by_one_in_a_database(
    database: World, sql_of_shop: Callable[[str], list[Any]], mode: str
):
    database.write("tables/numbers.yaml", together(f"{DATABASE}, mode: {mode}}}", checks=CHECKS))
    events = database.catch_up(now=NOW)
    assert isinstance(events[1], WindowStarted)
    done = [event for event in events if isinstance(event, WindowSucceeded)]
    counts = [event.steps[0].counts for event in done]
    assert [(each.source, each.target) for each in counts] == [(n, n) for n in range(1, 7)]
    assert len(database.rows("ods.numbers")) == 21
    assert len(database.rows("ods.numbers", done[3].attempt.window)) == 4
    marked = "SELECT row_count FROM logdriven_commit ORDER BY data_range_start"
    assert sql_of_shop(marked) == [(n,) for n in range(1, 7)]
    if mode == "append":
        starts = sql_of_shop("SELECT DISTINCT _window_start FROM numbers ORDER BY 1")
        assert [start[:10] for (start,) in starts] == [f"2022-01-0{n}" for n in range(1, 7)]
    again = list(database.runner.refresh_windows("ods.numbers", [done[3].attempt.window], NOW))
    assert [type(event) for event in again][-1] is WindowSucceeded
    assert len(database.rows("ods.numbers")) == 21


@pytest.mark.parametrize("size", ["1", "all"])
def test_a_column_that_is_called_as_the_number_of_a_window_is_refused(numbers: World, size: str):
    text = together().replace("CAST(n AS INT) AS n", "n AS _window_index")
    numbers.write("tables/numbers.yaml", text.replace("batch_size: all", f"batch_size: {size}"))
    *_, failed = [e for e in numbers.catch_up(now=NOW) if isinstance(e, WindowFailed)]
    assert "the result has a column _window_index" in failed.error


def test_windows_of_one_pass_share_one_commit(numbers: World):
    events = numbers.catch_up(now=NOW)
    published = [e.published[0].snapshot_id for e in events if isinstance(e, WindowSucceeded)]
    assert len(published) == 6
    assert len(set(published)) == 1


def test_a_window_of_a_pass_can_be_run_again_alone(numbers: World):
    events = numbers.catch_up(now=NOW)
    third = [e for e in events if isinstance(e, WindowSucceeded)][2].attempt.window
    numbers.numbers(*(line for line in LINES if line != "2022-01-03,30"))
    list(numbers.runner.refresh_windows("ods.numbers", [third], NOW))
    assert len(numbers.rows("ods.numbers")) == 20


@pytest.mark.usefixtures("long")
def test_the_log_names_the_bad_window(numbers: World):
    numbers.numbers(*LINES, "2022-01-04,none")
    events = numbers.catch_up(now=NOW)
    (failed,) = [event for event in events if isinstance(event, WindowFailed)]
    assert failed.attempt.window.start.day == 4
    assert sum(isinstance(event, WindowSetBack) for event in events) == 9
    all_six = [(f"0{n}", "DISCARDED") for n in range(1, 7)]
    first_half = [("01", "SUCCESS"), ("02", "SUCCESS"), ("03", "SUCCESS")]
    second_half = [("04", "DISCARDED"), ("05", "DISCARDED"), ("06", "DISCARDED")]
    tried = all_six + first_half + second_half + [("04", "FAILURE")]
    assert numbers.statuses("ods.numbers") == tried
    numbers.numbers(*LINES)
    numbers.catch_up(now=NOW)
    later = [("04", "SUCCESS"), ("05", "SUCCESS"), ("06", "SUCCESS")]
    assert numbers.statuses("ods.numbers") == tried + later
    assert len(numbers.rows("ods.numbers")) == 21
