"""Keys of upserts, compared by Arrow: the same matches as by Spark, for the types that it takes."""

from datetime import datetime, timezone

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from logdriven_dagster.engine.arrow.keys import (
    add_window_start,
    build_key_schema,
    find_bad_key,
    find_values,
    match_keys,
)

END = datetime(2022, 1, 3, tzinfo=timezone.utc)


def day(n: int) -> datetime:
    return datetime(2022, 1, n, tzinfo=timezone.utc)


def keys(*rows: tuple[int | None, str | None]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [[], []]
    return pa.table({"id": pa.array(columns[0], pa.int32()), "name": pa.array(columns[1], "str")})


def batch(*rows: tuple[int | None, str | None, datetime | None]) -> pa.RecordBatch:
    fields = add_window_start(keys().schema)
    columns = zip(zip(*rows, strict=True), fields, strict=True)
    arrays = [pa.array(column, field.type) for column, field in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=fields)


def schema(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


@pytest.mark.parametrize(
    "kind",
    [DoubleType(), FloatType(), StringType("UTF8_LCASE"), StructType([])],
    ids=lambda kind: kind.simpleString(),
)
def test_spark_compares_types_whose_equality_differs_in_arrow(kind: DataType):
    assert build_key_schema(schema(ID=kind), ["id"]) is None


def test_names_match_in_any_case_and_a_missing_column_is_for_spark():
    columns = schema(ID=DecimalType(9, 2), at=TimestampType(), v=StringType())
    found = build_key_schema(columns, ["id", "At"])
    assert found == pa.schema([("id", pa.decimal128(9, 2)), ("at", pa.timestamp("us", tz="UTC"))])
    assert build_key_schema(columns, ["other"]) is None


def test_a_key_that_is_null_or_occurs_twice_is_found():
    assert find_bad_key(keys((1, "a"), (1, "b"))) is None
    assert find_bad_key(keys((1, "a"), (2, "b"), (1, "a"))) == ({"id": 1, "name": "a"}, 2)
    assert find_bad_key(keys((1, None))) == ({"id": 1, "name": None}, 1)
    assert find_bad_key(keys()) is None


def test_the_values_are_distinct_and_ascending():
    assert find_values(keys((3, "b"), (1, "c"), (3, "c")), "id") == [1, 3]


def test_keys_match_rows_of_files_by_older_and_newer_windows():
    old = [
        ("one", batch((1, "a", day(1)), (2, "a", day(3)), (9, "z", day(1)))),
        ("two", batch((9, "a", day(1)), (None, "a", day(1)))),
        ("three", batch((3, "a", None))),
    ]
    found = match_keys(keys((1, "a"), (2, "a"), (3, "a"), (4, "a")), old, END)
    assert found.files == {"one", "three"}
    assert (found.older, found.newer) == (2, 1)


def test_a_key_in_several_rows_counts_once_and_is_newer_if_one_of_them_is():
    old = [("one", batch((1, "a", day(1)))), ("two", batch((1, "a", day(3))))]
    found = match_keys(keys((1, "a")), old, END)
    assert (found.files, found.older, found.newer) == ({"one", "two"}, 0, 1)


def test_without_matches_there_are_no_files():
    found = match_keys(keys((5, "a")), [("one", batch((1, "a", day(1))))], END)
    assert (found.files, found.older, found.newer) == (frozenset(), 0, 0)
