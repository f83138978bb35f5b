"""Iceberg tables of many files, which Spark is given as a list: read, upserted, compacted."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, TimestamptzType

from logdriven_dagster.engine.storage import file_lists
from logdriven_dagster.engine.targets import upserted_files
from logdriven_dagster.engine.targets.upkeep import compact_files
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.upkeep import Compaction
from tests.builders import day
from tests.engine.foreign_tables import (
    as_pyiceberg_reads,
    data_files,
    deleted_rows,
    foreign_table,
    in_parquet,
    put,
)
from tests.engine.laboratory import Lab

pytestmark = pytest.mark.connect

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "at", TimestamptzType()))
MANY = 48
FIRST = datetime(2022, 1, 1, tzinfo=timezone.utc)
ORDERS = {"type": "iceberg", "name": "sales.orders"}


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The length of each list that Spark was given."""
    lengths = []
    before = file_lists.FileLists.write_list

    def listing(self: Any, sizes: Any) -> str:
        lengths.append(len(sizes))
        return before(self, sizes)

    monkeypatch.setattr(file_lists.FileLists, "write_list", listing)
    return lengths


@pytest.fixture
def orders(lab: Lab) -> Any:
    """Two days of 48 files of two rows each, a file for each hour."""
    table = foreign_table(lab, SCHEMA, name="sales.orders")
    table.add_files([put(table, f"hive/part {n}.parquet", hour(n)) for n in range(MANY)])
    return table


def hour(n: int) -> bytes:
    at = FIRST + timedelta(hours=n)
    rows = [{"id": 2 * n, "at": at}, {"id": 2 * n + 1, "at": at}]
    return in_parquet(pa.Table.from_pylist(rows, pa.schema(SCHEMA.as_arrow()).remove_metadata()))


def ids(table: Any) -> list[int]:
    return sorted(row[0] for row in as_pyiceberg_reads(table))


@pytest.mark.usefixtures("long")
def test_a_source_is_read_and_counted_whole(lab: Lab, orders: Any, listed: list[int]):
    deleted_rows(orders, data_files(orders)[3], [1])
    lab.table("ods.t", {"source": ORDERS, "target": {"type": "parquet"}})
    ran = lab.run("ods.t", day(1))
    assert sorted(row[0] for row in lab.rows("ods.t")) == [n for n in range(2 * MANY) if n != 7]
    assert (ran.counts.source, ran.counts.target) == (95, 95)
    assert listed == [MANY]


def test_an_upsert_finds_the_files_of_its_keys(
    lab: Lab, orders: Any, listed: list[int], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(upserted_files, "FEW_ROWS", -1)  # Spark compares the keys
    sql = "SELECT id, :data_range_start AS at FROM range(0, 200, 7)"
    lab.table("ods.t", {"sql": sql, "target": {**ORDERS, "mode": "upsert", "key": ["id"]}})
    (merged,) = (each.merged for each in lab.run("ods.t", day(1)).published)
    assert (merged.inserted, merged.updated) == (15, 14)
    assert ids(orders) == [*range(96), *range(98, 200, 7)]
    assert MANY in listed


@pytest.mark.usefixtures("long")
def test_a_window_leaves_existing_rows_in_their_files(lab: Lab, orders: Any, listed: list[int]):
    for file in data_files(orders):
        deleted_rows(orders, file, [])  # whoever does that writes files anew, whatever they hold
    sql = "SELECT 1000L AS id, :data_range_start AS at"
    lab.table("ods.t", {"sql": sql, "target": {**ORDERS, "window_column": "at"}})
    lab.run("ods.t", day(1))
    assert ids(orders) == [*range(48, 96), 1000]


def test_a_file_that_is_gone_is_named(lab: Lab, orders: Any):
    orders.io.delete(f"{orders.location()}/hive/part 7.parquet")
    lab.table("ods.t", {"source": ORDERS, "target": {"type": "parquet"}})
    with pytest.raises(TerminalStepError, match=r"part 7\.parquet"):
        lab.run("ods.t", day(1))


def test_small_files_become_one(lab: Lab, orders: Any, listed: list[int]):
    upsert = {**ORDERS, "mode": "upsert", "key": ["id"]}  # the table is one window
    lab.table("ods.t", {"sql": "SELECT 1L AS id, :data_range_start AS at", "target": upsert})
    done = compact_files(lab.project, lab.spark, "ods.t", Compaction())
    assert (done.rows, done.files) == (2 * MANY, MANY)
    assert ids(orders.refresh()) == list(range(2 * MANY))
    assert listed == [MANY]
    assert len(data_files(orders)) == 1
