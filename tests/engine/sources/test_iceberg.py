"""Iceberg tables that others fill, as sources: read right, counted, and no further than needed."""

from datetime import datetime, timezone
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, TimestamptzType

from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.foreign_tables import append, data_files, deleted_rows, foreign_table
from tests.engine.laboratory import Lab

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "at", TimestamptzType()))
SOURCE = {"type": "iceberg", "name": "sales.eu.orders", "window_column": "at"}
PARQUET = {"type": "parquet"}


@pytest.fixture
def orders(lab: Lab) -> Any:
    """Three days, of which each has a file."""
    table = foreign_table(lab, SCHEMA, name="sales.eu.orders")
    for n in (1, 2, 3):
        append(table, *({"id": 10 * n + hour, "at": at(n, hour)} for hour in range(3)))
    return table


def at(n: int, hour: int) -> datetime:
    return datetime(2022, 1, n, hour, tzinfo=timezone.utc)


@pytest.mark.usefixtures("long")
def test_a_window_reads_the_rows_of_its_days_files(lab: Lab, orders: Any):
    deleted_rows(orders, data_files(orders)[1], [0])
    with orders.update_schema() as update:
        update.rename_column("id", "number")
    lab.table("ods.t", {"source": SOURCE, "target": PARQUET})
    ran = lab.run("ods.t", day(2))
    assert [row[0] for row in lab.rows("ods.t")] == [21, 22]
    assert (ran.counts.source, ran.counts.success) == (2, 2)


def test_the_files_of_other_days_are_not_opened(lab: Lab, orders: Any):
    for file in data_files(orders)[::2]:
        orders.io.delete(file.file_path)
    lab.table("ods.t", {"source": SOURCE, "target": PARQUET})
    lab.run("ods.t", day(2))
    assert [row[0] for row in lab.rows("ods.t")] == [20, 21, 22]


def test_rows_that_belong_to_no_window_are_found_in_files_of_other_days(lab: Lab, orders: Any):
    append(orders, {"id": 1, "at": datetime(2021, 1, 1, tzinfo=timezone.utc)})
    lab.table("ods.t", {"source": SOURCE, "target": PARQUET}, rows_outside="fail")
    with pytest.raises(TerminalStepError, match="rows_outside: fail"):
        lab.run("ods.t", day(2))


def test_a_table_that_is_not_there_is_named(lab: Lab, orders: Any):
    lab.table("ods.t", {"source": {**SOURCE, "name": "sales.none"}, "target": PARQUET})
    with pytest.raises(TerminalStepError, match=r"sales\.none does not exist in the"):
        lab.run("ods.t", day(1))
