"""Rows are divided as Iceberg's transforms place them; PyIceberg's own transforms tell how."""

import random
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pytest
from pyarrow import parquet
from pyiceberg import types as iceberg
from pyiceberg.partitioning import PartitionField, PartitionSpec, partition_record_value
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyspark.sql.types import StructType

from logdriven_dagster.engine.iceberg.partitions import partition_of, with_partition
from logdriven_dagster.engine.iceberg.schema import spark_type
from logdriven_dagster.engine.storage.staging import PARTITION
from logdriven_dagster.errors import TerminalStepError, TransientStepError

RANDOM = random.Random(7)
EPOCH = datetime(1970, 1, 1)
LONGS = [
    0,
    1,
    -1,
    34,
    2**31,
    -(2**31),
    2**62,
    -(2**62),
    *(RANDOM.randrange(10**12) for _ in range(9)),
]
INTS = [0, 1, -1, 34, 2**31 - 1, -(2**31)]
DATES = [date(1970, 1, 1), date(1969, 12, 31), date(1, 1, 1), date(2024, 2, 29), date(1969, 1, 31)]
TIMES = [
    EPOCH,
    EPOCH - timedelta(microseconds=1),
    datetime(2022, 3, 13, 2, 30, 0, 1),  # a time that New York's clocks skip
    datetime(2022, 11, 6, 1, 30),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(1900, 1, 1),
]
INSTANTS = [each.replace(tzinfo=timezone.utc) for each in TIMES]
TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "abcd",
    "abcde",
    "iceberg",
    "ä€😀x",
    "a/b=c%d:e",
    "NULL",
    " ",
    "x" * 99,
]
DECIMALS = [Decimal(text) for text in ("0.00", "10.65", "-10.65", "-0.01", "99999.99")]
BYTES = [b"", b"\x00", b"\xff\x01\x02\x03\x04", bytes(range(16))]
TIME_UNITS = ("day", "month", "year")
PLACED = [
    (iceberg.LongType(), LONGS, ("identity", "bucket[16]", "truncate[10]")),
    (iceberg.IntegerType(), INTS, ("identity", "bucket[7]", "truncate[3]")),
    (iceberg.DateType(), DATES, ("identity", "bucket[16]", *TIME_UNITS)),
    (iceberg.TimestampType(), TIMES, ("identity", "bucket[16]", "hour", *TIME_UNITS)),
    (iceberg.TimestamptzType(), INSTANTS, ("identity", "bucket[16]", "hour", *TIME_UNITS, "void")),
    (iceberg.StringType(), TEXTS, ("identity", "bucket[16]", "truncate[3]")),
    (iceberg.BinaryType(), BYTES, ("identity", "bucket[16]")),
    (iceberg.DecimalType(9, 2), DECIMALS, ("identity", "truncate[50]")),
    (iceberg.BooleanType(), [True, False], ("identity",)),
]


class Table:
    """As much of a table as a partition needs."""

    def __init__(self, kind: Any, transform: str) -> None:
        self._schema = Schema(iceberg.NestedField(1, "v", kind))
        field = PartitionField(1, 1000, parse_transform(transform), "p")
        self._spec = PartitionSpec(field, spec_id=3)
        self.default_spec_id = 3

    def schema(self) -> Schema:
        return self._schema

    def spec(self) -> PartitionSpec:
        return self._spec

    def name(self) -> tuple[str, ...]:
        return "ods", "t"


@pytest.mark.sampled
@pytest.mark.parametrize(("kind", "values", "transforms"), PLACED, ids=lambda it: str(it)[:12])
def test_a_row_is_placed_as_pyiceberg_places_it(
    spark: Any, kind: Any, values: list[Any], transforms: tuple[str, ...]
):
    schema = StructType().add("n", "integer").add("v", spark_type(kind))
    values = [*values, None]
    frame = spark.createDataFrame(list(enumerate(values)), schema)
    for transform in transforms:
        divided = with_partition(frame, stub(kind, transform))
        frame = divided.withColumnRenamed(PARTITION, transform)
    for row in frame.collect():
        for transform in transforms:
            table, value = stub(kind, transform), values[row.n]
            folder = f"{PARTITION}={quote(row[transform], safe='')}"
            found = partition_of(table, f"/x/{folder}/part-0.parquet")
            assert found is not None
            assert (value, transform, found[0]) == (value, transform, expected(table, kind, value))


def test_the_name_of_a_folder_keeps_every_text(spark: Any, tmp_path: Any):
    table = stub(iceberg.StringType(), "identity")
    frame = spark.createDataFrame([(each,) for each in [*TEXTS, None]], "v string")
    divided = with_partition(frame, table).coalesce(1)
    divided.write.partitionBy(PARTITION).parquet(str(tmp_path / "out"))
    found = {path: partition_of(table, str(path)) for path in tmp_path.glob("out/*/*.parquet")}
    held = {
        parquet.read_table(path, partitioning=None)["v"].to_pylist()[0]: known[0]
        for path, known in found.items()
        if known is not None
    }
    assert held == {each: each for each in [*TEXTS, None]}


def stub(kind: Any, transform: str) -> Any:
    return Table(kind, transform)


def expected(table: Any, kind: Any, value: Any) -> Any:
    """The value of a row's partition as PyIceberg has it."""
    field = table.spec().fields[0]
    known = partition_record_value(field, value, table.schema())
    return field.transform.transform(kind)(known)


@pytest.mark.parametrize(
    ("kind", "transform"),
    [(iceberg.DecimalType(9, 2), "bucket[4]"), (iceberg.DoubleType(), "identity")],
    ids=str,
)
def test_a_partition_that_cannot_be_computed_is_refused_by_name(
    spark: Any, kind: Any, transform: str
):
    frame = spark.createDataFrame([], StructType().add("v", spark_type(kind)))
    table = stub(kind, transform)
    with pytest.raises(TerminalStepError, match=r"ods\.t is partitioned by .*\(v\), a "):
        with_partition(frame, table)


def test_a_file_that_was_divided_for_other_partitions_is_written_again():
    table = stub(iceberg.LongType(), "identity")
    with pytest.raises(TransientStepError, match="a former partitioning of the table"):
        partition_of(table, f'/x/{PARTITION}=["2","7"]/part-0.parquet')
    assert partition_of(table, "/x/12-load/part-0.parquet") is None
