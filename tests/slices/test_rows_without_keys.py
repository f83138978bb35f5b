"""`incremental_type: auto_inc_id`: rows without a key belong to no window, and are reported."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pyarrow import parquet

from logdriven_dagster.cli.shown.results import build_window_result
from logdriven_dagster.execution.events import WindowFailed, WindowSucceeded
from logdriven_dagster.runlog.observed import audits
from logdriven_dagster.testing.null_engine import null_engine
from tests.slices.conftest import Shop

KINDS = ("BIGINT", "VARCHAR(40)")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """Its source is SQLite, and no row is read of it."""
    with null_engine():
        yield Shop(tmp_path, None, f"sqlite:///{tmp_path / 'shop.db'}")


def orders(shop: Shop, kind: str, *keys: Any, **fields: Any) -> None:
    """Write the table, whose key may be NULL."""
    shop.execute("DROP TABLE IF EXISTS orders")
    shop.execute(f"CREATE TABLE orders (id {kind}, item VARCHAR(60))")
    shop.place(*keys)
    shop.table(**fields)


def reported(shop: Shop, day: int) -> tuple[str, int | None]:
    """The outputs of a window's steps, and the rows of no window that its result has."""
    *_, event = shop.run(day)
    assert isinstance(event, WindowSucceeded)
    result = build_window_result(event)
    assert result is not None
    outputs = [step["output"] or "" for step in shop.log()[-1]["steps"]]
    return "; ".join(outputs), result.rows_of_no_window


def audited(shop: Shop) -> list[tuple[int, int, int]]:
    found = shop.runner.run_log.ask(lambda conn: audits.read_source_rows(conn, ["ods.orders"]))
    return [(rows.total, rows.unplaced, rows.before) for rows in found]


@pytest.mark.parametrize("kind", KINDS)
def test_a_database_whose_keys_are_all_null_is_no_quiet_success(shop: Shop, kind: str):
    orders(shop, kind, None, None)
    sentence = "2 of 2 rows do not belong to any window: 2 with NULL or an invalid value"
    assert reported(shop, 1) == (sentence, 2)
    assert shop.ranges() == [("0", "0", "SUCCESS")]
    assert audited(shop) == [(2, 2, 0)]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_database_with_null_among_their_keys_are_reported(shop: Shop, kind: str):
    orders(shop, kind, 1, 5, None, 9, default_start=3)
    output, number = reported(shop, 1)
    sentence = "2 of 4 rows do not belong to any window: 1 with NULL or an invalid value, 1 before"
    assert sentence in output
    assert number == 2
    assert shop.ranges() == [("3", "9", "SUCCESS")]
    assert audited(shop) == [(4, 1, 1)]


def test_a_database_whose_rows_all_have_keys_reports_nothing(shop: Shop):
    orders(shop, "BIGINT")
    assert reported(shop, 1) == ("nothing new after 0", None)
    shop.place(1, 2)
    assert reported(shop, 2)[1] is None
    assert audited(shop) == []


def test_a_table_may_fail_for_rows_without_keys(shop: Shop):
    orders(shop, "BIGINT", None, 7, rows_outside="fail")
    *_, failed = shop.run(1)
    assert isinstance(failed, WindowFailed)
    assert "1 of 2 rows do not belong to any window" in failed.error
    assert "rows_outside: fail" in failed.error


def test_a_table_may_ignore_rows_without_keys(shop: Shop):
    orders(shop, "BIGINT", None, 7, rows_outside="ignore")
    output, number = reported(shop, 1)
    assert "no window" not in output
    assert number is None


def test_files_whose_keys_are_all_null_are_no_quiet_success(tmp_path: Path, spark: Any):
    shop = Shop(tmp_path, spark, f"sqlite:///{tmp_path / 'shop.db'}")
    source = {"type": "parquet", "path": "in.parquet", "key_column": "id"}
    step = {"step": "load", "source": source, "target": {"type": "parquet"}}
    values = {"table": "ods.orders", "incremental_type": "auto_inc_id", "period": "1 day"}
    shop.write("tables/orders.yaml", yaml.safe_dump({**values, "steps": [step]}))
    for day, keys in ((1, [None, None]), (2, [None, None, 7])):
        rows = pa.table({"id": pa.array(keys, pa.int64())})
        parquet.write_table(rows, tmp_path / "in.parquet")
        output, number = reported(shop, day)
        assert f"2 of {len(keys)} rows do not belong to any window: 2 with NULL" in output
        assert number == 2
    assert shop.ranges() == [("0", "0", "SUCCESS"), ("0", "7", "SUCCESS")]
