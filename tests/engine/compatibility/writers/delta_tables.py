"""Delta tables by delta-rs, of PyArrow's columns."""

from datetime import date, datetime, timezone
from decimal import Decimal

import deltalake
import pyarrow as pa
from manifest import Case, Format, write_all

AT = datetime(2022, 1, 2, 3, 4, 5, 123456)
UTC = AT.replace(tzinfo=timezone.utc)
OLD = datetime(1500, 3, 1, 12)


def case(kind, *values, name=None, read=None):
    return Case(name or str(kind), pa.array([*values, None], kind), read or [*values, None])


def cases():
    yield Case("bool", pa.array([0, 1, None], pa.int8()).cast("bool"), [False, True, None])
    for bits in (8, 16, 32, 64):
        least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        yield case(getattr(pa, f"int{bits}")(), least, most)
    yield case(pa.float32(), 1.5, float("inf"))
    yield case(pa.float64(), 0.1, float("nan"))
    yield case(pa.decimal128(9, 2), Decimal("1.50"), Decimal("-1234567.89"))
    yield case(
        pa.decimal128(38, 10), Decimal("1.5"), Decimal("-1234567890123456789012345678.0123456789")
    )
    yield case(pa.string(), "", "Zürich 東京 😀")
    yield case(pa.large_string(), "", "a")
    yield case(pa.string_view(), "", "a longer text than twelve bytes")
    yield case(pa.binary(), b"", b"\x00\xff")
    yield case(pa.date32(), date(2022, 1, 2), date(1500, 1, 1))
    yield case(pa.timestamp("us", "UTC"), UTC, OLD.replace(tzinfo=timezone.utc))
    yield case(pa.timestamp("us"), AT, OLD)
    yield case(pa.timestamp("ns", "UTC"), UTC, UTC)
    yield case(pa.timestamp("ms"), AT.replace(microsecond=123000), datetime(1969, 12, 31))
    yield case(pa.list_(pa.int64()), [1, None], [])
    pair = pa.struct([("a", pa.int32()), ("b", pa.timestamp("us", "UTC"))])
    yield case(pair, {"a": 1, "b": UTC}, {"a": None, "b": None}, name="struct")
    entries = pa.map_(pa.string(), pa.int64())
    yield case(entries, [("a", 1)], [], name="map", read=[{"a": 1}, {}, None])


def partitions():
    yield case(pa.string(), "a b/c=1%", "Zürich", name="string")
    yield case(pa.int32(), 1, -1, name="int32")
    yield case(pa.date32(), date(2022, 1, 2), date(1500, 1, 1), name="date32")
    yield case(pa.timestamp("us", "UTC"), UTC, UTC.replace(year=1969), name="timestamp[us, UTC]")
    yield case(pa.timestamp("us"), AT, AT.replace(year=1969), name="timestamp[us]")


def write(path, columns, **options):
    table = pa.table({"n": pa.array([0, 1, 2], pa.int32()), **columns})
    deltalake.write_deltalake(path, table, **options)


def partitioned(path, columns):
    write(path, columns, partition_by=list(columns))


def of_partitions():
    for each in partitions():
        each.name += ", a partition"
        yield each


write_all(
    "delta-rs",
    deltalake.__version__,
    [Format("delta", write, list(cases())), Format("delta", partitioned, list(of_partitions()))],
)
