"""`on_key_reset`: a source whose greatest key lies below what was read of it."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
import yaml
from deltalake import write_deltalake
from pyarrow import parquet

from logdriven_dagster.config import load_project
from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog
from logdriven_dagster.execution.events import WindowFailed
from logdriven_dagster.testing.null_engine import null_engine
from tests.slices.conftest import Shop, noon

DONE, FAILED = "SUCCESS", "FAILURE"


def opened(folder: Path, url: Any, **fields: Any) -> Shop:
    shop = Shop(folder, None, url)
    shop.table(**fields)
    return shop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """Its source is SQLite, and no row is read of it."""
    with null_engine():
        shop = opened(tmp_path, f"sqlite:///{tmp_path / 'shop.db'}")
        shop.orders()
        yield shop


@pytest.fixture(params=["BIGINT", "VARCHAR(40)"])
def any_shop(request: pytest.FixtureRequest, tmp_path: Path, database_url: Any) -> Iterator[Shop]:
    """On each kind of database, with keys that are numbers and keys that are text."""
    with null_engine():
        shop = opened(tmp_path, database_url)
        shop.orders(kind=request.param)
        yield shop


def failures(events: list[Any]) -> list[str]:
    return [event.error for event in events if isinstance(event, WindowFailed)]


def test_a_source_that_starts_again_below_the_end_fails_until_the_table_allows_it(any_shop: Shop):
    any_shop.place(9, 10)
    any_shop.run(1)
    any_shop.execute("DELETE FROM orders")
    (empty,) = failures(any_shop.run(2))
    any_shop.place(1, 9)
    (lower,) = failures(any_shop.run(2))
    any_shop.table(on_key_reset="report")
    assert failures(any_shop.run(2)) == []
    any_shop.place(11)
    any_shop.run(3)
    assert empty == (
        "key_column id of shop, orders: the source has no keys, but keys up to 10 were read "
        "before. The source was emptied, restored or replaced, or its newest rows were deleted; "
        "nothing was read. Continue its keys above 10; or load it as a new table with another "
        "name; or set on_key_reset: report in the table to read only keys above 10"
    )
    assert "the greatest key is 9, but keys up to 10 were read" in lower
    assert any_shop.ranges() == [
        ("0", "10", DONE),
        ("10", None, FAILED),
        ("10", None, FAILED),
        ("10", "10", DONE),
        ("10", "11", DONE),
    ]
    assert "the greatest key is 9" in any_shop.log()[3]["steps"][0]["output"]


def test_a_restart_is_a_failed_window_that_plan_shows_and_a_later_run_tries_again(shop: Shop):
    shop.table(retries=3)
    shop.place(5)
    shop.run(1)
    shop.execute("DELETE FROM orders")
    shop.run(2)
    (item,) = shop.runner.plan(noon(2)).ready()
    assert "the source has no keys" in item.reason
    assert [row["error_count"] for row in shop.log()] == [0, 1]
    shop.place(6)
    shop.run(2)
    assert shop.ranges()[-1] == ("5", "6", DONE)


def test_no_source_starts_again_before_keys_were_read_of_it(shop: Shop):
    shop.table(default_start=1000)
    shop.place(1)
    assert failures(shop.run(1)) == []
    shop.execute("DELETE FROM orders")
    assert failures(shop.run(2)) == []
    assert shop.ranges() == [("1000", "1000", DONE)] * 2


@pytest.mark.parametrize("fields", [{"lag": 5}, {"window_size": 5}])
def test_keys_that_are_left_for_later_windows_are_no_restart(shop: Shop, fields: dict[str, Any]):
    shop.table(**fields)
    shop.place(1, 5, 10)
    for day in (1, 2, 3):
        assert failures(shop.run(day)) == []


def test_lag_allows_its_newest_keys_to_be_deleted(shop: Shop):
    shop.table(lag=5)
    shop.place(1, 5, 10)
    shop.run(1)
    shop.execute("DELETE FROM orders WHERE id > 5")
    assert failures(shop.run(2)) == []
    shop.execute("DELETE FROM orders WHERE id > 1")
    assert len(failures(shop.run(3))) == 1


def test_another_key_column_with_lower_keys_is_not_read_in_its_place(shop: Shop):
    shop.execute("CREATE TABLE sales (id BIGINT, seq BIGINT)")
    shop.execute("INSERT INTO sales VALUES (1000, 1)")
    shop.table({"table": "sales"})
    shop.run(1)
    shop.table({"table": "sales", "key_column": "seq"})
    (error,) = failures(shop.run(2))
    assert error.startswith("key_column seq of shop, sales: the greatest key is 1, but keys up to")


def test_a_query_of_a_database_starts_again_too(shop: Shop):
    shop.table({"table": None, "query": "SELECT * FROM orders WHERE id < 100"})
    shop.place(4, 200)
    shop.run(1)
    shop.execute("DELETE FROM orders WHERE id = 4")
    (error,) = failures(shop.run(2))
    assert error.startswith("key_column id of shop: the source has no keys")


def test_a_sequence_that_was_reset_is_found(tmp_path: Path, postgres_url: sa.URL):
    with null_engine():
        shop = opened(tmp_path, postgres_url)
        shop.execute("CREATE TABLE orders (id BIGINT GENERATED ALWAYS AS IDENTITY, item TEXT)")
        shop.execute("INSERT INTO orders (item) VALUES ('a'), ('b')")
        shop.run(1)
        shop.execute("TRUNCATE orders RESTART IDENTITY")
        shop.execute("INSERT INTO orders (item) VALUES ('c')")
        (error,) = failures(shop.run(2))
    assert "the greatest key is 1, but keys up to 2 were read" in error


@pytest.mark.usefixtures("long")
def test_sources_that_are_no_database_start_again_too(tmp_path: Path, spark: Any):
    shop = Shop(tmp_path, spark, f"sqlite:///{tmp_path / 'shop.db'}")
    sources = {
        "iceberg": {"type": "iceberg", "name": "theirs.orders"},
        "delta": {"type": "delta", "path": "delta"},
        "csv": {"type": "csv", "path": "orders.csv", "header": True},
        "parquet": {"type": "parquet", "path": "orders.parquet"},
    }
    for name, source in sources.items():
        step = {"step": "load", "source": {**source, "key_column": "id"}}
        values = {"table": name, "incremental_type": "auto_inc_id", "period": "1 day"}
        steps = [{**step, "target": {"type": "parquet"}}]
        shop.write(f"tables/{name}.yaml", yaml.safe_dump({**values, "steps": steps}))
    made(shop, [1, 2], [5])
    assert failures(shop.run(1)) == []
    assert failures(shop.run(2)) == []
    made(shop, [1, 2], [4])
    errors = failures(shop.run(3))
    assert [error.split(": ", 1)[1][:60] for error in errors] == [
        "the greatest key is 4, but keys up to 5 were read before. Th"
    ] * len(sources)
    for name in sources:
        assert [row[:2] for row in shop.ranges(name)] == [("0", "5"), ("5", "5"), ("5", None)]
        assert [int(row) for row in shop.ids(name)] == [1, 2, 5]


def made(shop: Shop, *files: list[int]) -> None:
    """Make new tables and files, in place of those that are there."""
    catalog = open_catalog(load_project(shop.root))
    catalog.create_namespace_if_not_exists("theirs")
    if catalog.table_exists("theirs.orders"):
        catalog.drop_table("theirs.orders")
    table = catalog.create_table("theirs.orders", pa.schema([("id", pa.int64())]))
    shutil.rmtree(shop.root / "delta", ignore_errors=True)
    for keys in files:
        rows = pa.table({"id": keys})
        table.append(rows)
        write_deltalake(shop.root / "delta", rows, mode="append")
    every = [key for keys in files for key in keys]
    shop.write("orders.csv", "\n".join(["id", *map(str, every)]))
    parquet.write_table(pa.table({"id": every}), shop.root / "orders.parquet")
