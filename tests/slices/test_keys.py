"""`incremental_type: auto_inc_id`: windows of keys that a source counts up. S12–S15, S21."""

from typing import Any

import pyarrow as pa
import pytest
import yaml

from logdriven_dagster.config import load_project
from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.events import WindowFailed, WindowSucceeded
from tests.slices.conftest import Shop, noon

DONE = "SUCCESS"


@pytest.fixture(params=["BIGINT", "VARCHAR(40)"])
def any_shop(request: pytest.FixtureRequest, tmp_path: Any, spark: Any, database_url: Any) -> Shop:
    """On each kind of database, with keys that are numbers and keys that are text."""
    shop = Shop(tmp_path, spark, database_url)
    shop.orders(kind=request.param)
    shop.table()
    return shop


@pytest.mark.sampled
def test_the_first_window_goes_from_0_to_the_greatest_key_and_the_next_one_on_s12(any_shop: Shop):
    any_shop.place(1, 2, 5)
    any_shop.run(1)
    any_shop.place(6, 9, 10)
    any_shop.run(2)
    assert any_shop.ranges() == [("0", "5", DONE), ("5", "10", DONE)]
    assert sorted(map(int, any_shop.ids())) == [1, 2, 5, 6, 9, 10]
    counts = [(s["source_count"], s["target_count"]) for r in any_shop.log() for s in r["steps"]]
    assert counts == [(3, 3), (3, 3)]


def test_default_start_is_the_key_after_which_to_begin_s12(shop: Shop):
    shop.place(1, 2, 5, 8)
    shop.table(default_start=2)
    shop.run(1)
    assert shop.ranges() == [("2", "8", DONE)]
    assert shop.ids() == [5, 8]


def test_no_new_rows_is_a_success_with_an_empty_range_and_never_a_step_back_s13(shop: Shop):
    shop.place(7)
    shop.run(1)
    shop.run(2)
    shop.execute("DELETE FROM orders")
    shop.place(3)
    shop.table(on_key_reset="report")
    (event,) = shop.run(3)[1:]
    assert isinstance(event, WindowSucceeded)
    shop.place(8)
    shop.run(4)
    assert shop.ranges() == [("0", "7", DONE), ("7", "7", DONE), ("7", "7", DONE), ("7", "8", DONE)]
    assert shop.ids() == [7, 8]
    empty = shop.log()[1]
    assert [(s["status"], s["target_count"]) for s in empty["steps"]] == [("SKIPPED", 0)]


def test_an_empty_source_waits_for_its_first_row(shop: Shop):
    shop.run(1)
    shop.place(1)
    shop.run(2)
    assert shop.ranges() == [("0", "0", DONE), ("0", "1", DONE)]


def test_a_look_is_due_once_a_period(shop: Shop):
    shop.place(1)
    shop.run(1)
    shop.place(2)
    assert shop.run(1) == []
    assert not list(shop.runner.plan(noon(1)).windows())
    assert len(list(shop.runner.plan(noon(2)).windows())) == 1


def test_the_next_slice_may_be_asked_for_before_it_is_due(shop: Shop):
    shop.place(1)
    shop.run(1)
    shop.place(2)
    (following,) = shop.runner.slices("ods.orders", ["1"])
    list(shop.runner.refresh_windows("ods.orders", [following], noon(1)))
    assert shop.ranges()[-1] == ("1", "2", DONE)


@pytest.mark.sampled
@pytest.mark.parametrize("width", [1, 12, 13, 18])
def test_keys_are_compared_as_numbers_at_any_length_s14(shop: Shop, width: int):
    below, above = 10**width - 1, 10**width
    shop.place(below)
    shop.run(1)
    shop.place(above)
    shop.run(2)
    assert shop.ranges() == [("0", str(below), DONE), (str(below), str(above), DONE)]
    assert shop.ids() == [below, above]


def test_text_keys_beyond_64_bits_s14(tmp_path: Any, spark: Any, postgres_url: Any):
    shop = Shop(tmp_path, spark, postgres_url)
    shop.orders(kind="VARCHAR(40)")
    shop.table({"partitions": 3})
    big = 10**30
    shop.place(9, 10, 2**53 + 1, big)
    shop.run(1)
    shop.place(big + 1)
    shop.run(2)
    assert shop.errors() == []
    assert [r[:2] for r in shop.ranges()] == [("0", str(big)), (str(big), str(big + 1))]
    assert sorted(map(int, shop.ids())) == [9, 10, 2**53 + 1, big, big + 1]


def test_lag_leaves_the_newest_keys_for_the_next_time_s15(shop: Shop):
    shop.table(lag=10)
    shop.place(1, 95, 100)
    shop.run(1)
    shop.place(89)  # committed late
    shop.run(2)
    shop.place(92, 110)
    shop.run(3)
    assert [r[:2] for r in shop.ranges()] == [("0", "90"), ("90", "90"), ("90", "100")]
    assert shop.ids() == [1, 92, 95, 100]


@pytest.mark.usefixtures("long")
def test_overlap_reads_keys_again_that_may_have_come_late_s15(shop: Shop):
    shop.table(overlap=10, target={"type": "iceberg", "mode": "upsert", "key": ["id"]})
    shop.place(1, 100)
    shop.run(1)
    shop.place(93, 101)
    shop.run(2)
    assert [r[:2] for r in shop.ranges()] == [("0", "100"), ("100", "101")]
    assert shop.ids() == [1, 93, 100, 101]


def test_window_size_splits_a_large_first_load_and_jumps_over_gaps(shop: Shop):
    shop.table(window_size=10)
    shop.place(1, 10, 11, 1_000_000)
    shop.run(1)
    assert [r[:2] for r in shop.ranges()] == [("0", "10"), ("10", "20"), ("20", "1000000")]
    assert shop.ids() == [1, 10, 11, 1_000_000]


def test_once_takes_one_slice_and_leaves_the_rest(shop: Shop):
    shop.table(window_size=10)
    shop.place(1, 11)
    shop.run(1, mode="once")
    assert [r[:2] for r in shop.ranges()] == [("0", "10")]
    assert len(list(shop.runner.plan(noon(1)).windows())) == 1


def test_a_failed_slice_is_tried_again_as_it_was_and_holds_the_next_one(shop: Shop):
    shop.place(1, 2)
    shop.table(checks=[{"check": "small", "sql": "SELECT 1 FROM load WHERE id > 1"}])
    failed = [e for e in shop.run(1) if isinstance(e, WindowFailed)]
    shop.place(3)
    shop.table()
    assert failed
    with pytest.raises(UsageError, match="no window 2; the next window is 0"):
        shop.runner.slices("ods.orders", ["2"])
    shop.run(2)
    assert shop.ranges() == [("0", "2", "FAILURE"), ("0", "2", DONE), ("2", "3", DONE)]
    assert shop.ids() == [1, 2, 3]


def test_a_source_that_cannot_be_asked_fails_its_slice_and_is_asked_again(shop: Shop):
    shop.table({"table": "nowhere"})
    (failure,) = [e for e in shop.run(1) if isinstance(e, WindowFailed)]
    assert "nowhere" in failure.error
    shop.table()
    shop.place(4)
    shop.run(1)
    assert shop.ranges() == [("0", None, "FAILURE"), ("0", "4", DONE)]


def test_a_refresh_reads_the_recorded_range_and_moves_no_watermark_s21(shop: Shop):
    shop.place(1, 2)
    shop.run(1)
    shop.place(3)
    shop.run(2)
    shop.execute("UPDATE orders SET item = 'new'")
    shop.place(4)
    (first,) = shop.runner.slices("ods.orders", ["0"])
    list(shop.runner.refresh_windows("ods.orders", [first], noon(2)))
    assert shop.ranges()[-1] == ("0", "2", DONE)
    assert shop.rows("ods.orders") == [(1, "new"), (2, "new"), (3, "#3")]
    shop.run(3)
    assert shop.ranges()[-1] == ("3", "4", DONE)


def test_a_refreshed_last_slice_does_not_count_as_a_look(shop: Shop):
    shop.table(window_size=2)
    shop.place(1, 9)
    shop.run(1, mode="once")
    (first,) = shop.runner.slices("ods.orders", ["0"])
    list(shop.runner.refresh_windows("ods.orders", [first], noon(5)))
    assert [str(item.window) for item in shop.runner.plan(noon(1)).ready()] == ["(2, …]"]


def test_a_slice_that_is_begun_by_hand_runs_once_though_its_end_was_open(shop: Shop):
    shop.place(1, 2)
    events = shop.runner.refresh_windows("ods.orders", shop.runner.slices("ods.orders"), noon(1))
    assert sum(isinstance(event, WindowSucceeded) for event in events) == 1
    assert shop.ranges() == [("0", "2", DONE)]


def test_a_failed_refresh_of_a_slice_holds_nothing_up_s08(shop: Shop):
    for day in (1, 2):
        shop.place(day)
        shop.run(day)
    shop.table(checks=[{"check": "none", "sql": "SELECT 1 FROM load"}])
    (first,) = shop.runner.slices("ods.orders", ["0"])
    [*_, failure] = shop.runner.refresh_windows("ods.orders", [first], noon(1))
    assert isinstance(failure, WindowFailed)
    shop.table()
    shop.place(3)
    shop.run(3)
    assert shop.ids() == [1, 2, 3]
    assert shop.ranges()[2:] == [("0", "1", "FAILURE"), ("2", "3", DONE)]


def test_an_operator_makes_a_slice_pending_again(shop: Shop):
    shop.place(1)
    shop.run(1)
    shop.sql("UPDATE job_log SET status = 'FAILURE'")
    shop.run(1)
    assert [r[:2] for r in shop.ranges()] == [("0", "1"), ("0", "1")]
    assert shop.ids() == [1]


@pytest.mark.sampled
def test_parallel_queries_read_each_key_once(any_shop: Shop):
    any_shop.table({"partitions": 4})
    any_shop.place(*range(1, 24))
    any_shop.run(1)
    assert sorted(map(int, any_shop.ids())) == list(range(1, 24))


@pytest.mark.usefixtures("long")
def test_a_query_and_files_have_keys_too(shop: Shop):
    shop.place(1, 2)
    query = "SELECT item, id FROM orders WHERE id < 100 AND item <> '12:30'"
    shop.table({"table": None, "query": query, "partitions": 2})
    shop.run(1)
    assert shop.rows("ods.orders") == [("#1", 1), ("#2", 2)]
    shop.write("data/numbers.csv", "id,v\n5,a\n40,b")
    source = {"type": "csv", "path": "data", "header": True, "key_column": "id"}
    step = {"step": "load", "source": source, "target": {"type": "parquet"}}
    values = {"table": "ods.lines", "incremental_type": "auto_inc_id", "period": 1, "steps": [step]}
    shop.write("tables/lines.yaml", str(values))
    shop.run(1, tables=["ods.lines"])
    shop.write("data/more.csv", "id,v\n41,c")
    shop.run(2, tables=["ods.lines"])
    assert shop.errors() == []
    assert shop.ranges("ods.lines") == [("0", "40", DONE), ("40", "41", DONE)]
    assert shop.ids("ods.lines") == ["40", "41", "5"]


@pytest.mark.usefixtures("long")
def test_an_existing_iceberg_table_has_keys_and_older_files_are_not_opened(shop: Shop):
    table = theirs(shop, [1, 2], [5])
    source = {"type": "iceberg", "name": "sales.orders", "key_column": "ID"}
    step = {"step": "load", "source": source, "target": {"type": "parquet"}}
    shop.table(steps=[step])
    shop.run(1)
    for task in table.scan("id < 5").plan_files():
        table.io.delete(task.file.file_path)
    append(table, [9, 6])
    shop.run(2)
    shop.run(3)
    assert shop.errors() == []
    assert shop.ranges() == [("0", "5", DONE), ("5", "9", DONE), ("9", "9", DONE)]
    assert shop.ids() == [1, 2, 5, 6, 9]


def theirs(shop: Shop, *files: list[int]) -> Any:
    """A table of another engine in the project's catalog, with a file for each list of keys."""
    catalog = open_catalog(load_project(shop.root))
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.orders", pa.schema([("id", pa.int64())]))
    for keys in files:
        append(table, keys)
    return table


def append(table: Any, keys: list[int]) -> None:
    table.append(pa.table({"id": keys}))


def test_the_range_is_bound_in_sql(shop: Shop):
    step = {
        "step": "load",
        "source": {"type": "jdbc", "connection": "shop", "table": "orders", "key_column": "id"},
        "sql": "SELECT id, :data_range_start AS low, '${DATA_RANGE_END}' AS high FROM source",
        "target": {"type": "parquet"},
    }
    shop.table(steps=[step])
    shop.place(3)
    shop.run(1)
    assert shop.rows("ods.orders") == [(3, 0, "3")]


def test_keys_that_are_no_numbers_are_refused(shop: Shop):
    shop.table({"key_column": "item"})
    shop.place(1)
    (failure,) = [e for e in shop.run(1) if isinstance(e, WindowFailed)]
    assert "key_column item holds '#1'; keys must be whole numbers" in failure.error


def test_a_window_of_time_waits_until_everything_up_to_its_end_is_loaded(shop: Shop):
    daily = """
        table: dws.daily
        period: 1 day
        default_start: 2022-01-01
        depends_on: [ods.orders]
        steps:
          - {step: count, sql: SELECT count(*) AS n FROM ods.orders, target: {type: parquet}}
    """
    shop.write("tables/daily.yaml", daily)
    shop.place(1)
    shop.run(1)
    assert shop.ranges("dws.daily") == []
    shop.place(2)
    shop.run(2)
    assert [r[0] for r in shop.ranges("dws.daily")] == ["20220101000000"]
    assert shop.rows("dws.daily") == [(2,)]


def test_what_ran_before_the_type_was_changed_is_no_slice(shop: Shop):
    step = {"step": "load", "sql": "SELECT 0 AS id, '' AS item", "target": {"type": "iceberg"}}
    days = {"table": "ods.orders", "period": "1 day", "default_start": "2022-01-01"}
    shop.write("tables/orders.yaml", yaml.safe_dump({**days, "steps": [step]}))
    shop.run(3)
    shop.sql("UPDATE job_log SET status = 'FAILURE' WHERE job_id = 2")
    shop.table()
    shop.place(5)
    shop.run(4)
    assert shop.errors() == []
    assert shop.ranges()[2:] == [("0", "5", DONE)]
