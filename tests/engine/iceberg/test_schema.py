"""Types of Iceberg columns that are not read: refused with table, column and the line to write."""

import re
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    FixedType,
    GeometryType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    TimeType,
    UnknownType,
    UUIDType,
)

from logdriven_dagster.engine.iceberg.schema import refuse_unreadable_types
from logdriven_dagster.errors import TerminalStepError

PAIR = StructType(NestedField(20, "t", TimeType()), NestedField(21, "n", LongType()))
UNREADABLE: dict[str, tuple[Any, str, str, str]] = {
    "time": (TimeType(), "v", "time", "string"),
    "fixed": (FixedType(16), "v", "fixed[16]", "binary"),
    "unknown": (UnknownType(), "v", "unknown", "string"),
    "geometry": (GeometryType(), "v", "geometry", "binary"),
    "field": (PAIR, "v.t", "time", "string"),
    "element": (ListType(10, FixedType(4)), "v.element", "fixed[4]", "binary"),
    "value": (MapType(10, StringType(), 11, PAIR), "v.value.t", "time", "string"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_type_that_is_not_read_is_refused_with_table_column_and_line(case: str):
    given, column, kind, fix = UNREADABLE[case]
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "v", given))
    problem = f"sales.orders: column {column} is a {kind}, which is not read here; write its values"
    line = (
        f"to a column of type {fix}, and drop it in the engine that writes the table: ALTER TABLE"
    )
    with pytest.raises(TerminalStepError) as caught:
        refuse_unreadable_types(schema, "sales.orders")
    assert re.sub(r"\(.*?\)", "", str(caught.value)) == (
        f"{problem} {line} sales.orders DROP COLUMN {column}"
    )


def test_types_that_are_read_are_not_refused():
    nanoseconds = (TimestampNanoType(), TimestamptzNanoType())
    kinds = (UUIDType(), DecimalType(9, 2), ListType(10, UUIDType()), StructType(), *nanoseconds)
    fields = [NestedField(number, f"c{number}", kind) for number, kind in enumerate(kinds, 1)]
    refuse_unreadable_types(Schema(*fields), "sales.orders")
