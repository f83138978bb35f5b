"""Iceberg tables by PyIceberg, of PyArrow's columns, in a catalog in the folder."""

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyiceberg
from manifest import Case, Format, write_all
from pyiceberg.catalog.sql import SqlCatalog

AT = datetime(2022, 1, 2, 3, 4, 5, 123456)
UTC = AT.replace(tzinfo=timezone.utc)
OLD = datetime(1500, 3, 1, 12)
ID = UUID("0f8fad5b-d9cb-469f-a165-70867728950e")


def case(name, kind, *values, read=None):
    return Case(name, pa.array([*values, None], kind), read or [*values, None])


def cases():
    yield Case("boolean", pa.array([0, 1, None], pa.int8()).cast("bool"), [False, True, None])
    yield case("int", pa.int32(), -(2**31), 2**31 - 1)
    yield case("long", pa.int64(), -(2**63), 2**63 - 1)
    yield case("float", pa.float32(), 1.5, float("inf"))
    yield case("double", pa.float64(), 0.1, float("nan"))
    yield case("decimal(9, 2)", pa.decimal128(9, 2), Decimal("1.50"), Decimal("-1234567.89"))
    digits = Decimal("1.5"), Decimal("-1234567890123456789012345678.0123456789")
    yield case("decimal(38, 10)", pa.decimal128(38, 10), *digits)
    yield case("string", pa.string(), "", "Zürich 東京 😀")
    yield case("binary", pa.binary(), b"", b"\x00\xff")
    ids = pa.array([ID.bytes, bytes(16), None], pa.binary(16))
    stored = pa.ExtensionArray.from_storage(pa.uuid(), ids)
    yield Case("uuid", stored, [ID, UUID(int=0), None])
    yield case("date", pa.date32(), date(2022, 1, 2), date(1500, 1, 1))
    yield case("timestamptz", pa.timestamp("us", "UTC"), UTC, OLD.replace(tzinfo=timezone.utc))
    yield case("timestamp", pa.timestamp("us"), AT, OLD)
    yield case("list<long>", pa.list_(pa.int64()), [1, None], [])
    yield case("list<long>, elements all NULL", pa.list_(pa.int64()), [None, None], [])
    pair = pa.struct([("a", pa.int32()), ("b", pa.timestamp("us", "UTC"))])
    yield case("struct", pair, {"a": 1, "b": UTC}, {"a": None, "b": None})
    entries = pa.map_(pa.string(), pa.int64())
    yield case("map<string, long>", entries, [("a", 1)], [], read=[{"a": 1}, {}, None])


PARTITIONS = {
    "string, identity": ("identity", pa.string(), "a b/c=1%", "Zürich"),
    "date, month": ("month", pa.date32(), date(2022, 1, 2), date(1969, 12, 31)),
    "timestamptz, hour": ("hour", pa.timestamp("us", "UTC"), UTC, UTC.replace(year=1969)),
    "timestamp, day": ("day", pa.timestamp("us"), AT, AT.replace(year=1969)),
    "long, bucket[4]": ("bucket[4]", pa.int64(), 7, -7),
    "string, truncate[2]": ("truncate[2]", pa.string(), "abc", "😀😀😀"),
}


def write(path, columns, transform=None):
    place = Path(path).parent
    folder = place.parent
    catalog = SqlCatalog(
        "logdriven", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}"
    )
    catalog.create_namespace_if_not_exists("w")
    rows = pa.table({"n": pa.array([0, 1, 2], pa.int32()), **columns})
    table = catalog.create_table(f"w.{place.name}", rows.schema)
    if transform:
        with table.update_spec() as update:
            for name in columns:
                update.add_field(name, transform, f"p_{name}")
    table.append(rows)


def partitioned(name):
    transform, *column = PARTITIONS[name]

    def write_partitioned(path, columns):
        write(path, columns, transform)

    return Format("iceberg", write_partitioned, [case(f"{name}, a partition", *column)])


write_all(
    "PyIceberg",
    pyiceberg.__version__,
    [Format("iceberg", write, list(cases())), *map(partitioned, PARTITIONS)],
)
