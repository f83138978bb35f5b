"""Avro files by fastavro, with the values that are given to it."""

from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import fastavro
from manifest import Case, Format, write_all

AT = datetime(2022, 1, 2, 3, 4, 5, 123456)
UTC = AT.replace(tzinfo=timezone.utc)
OLD = datetime(1500, 3, 1, 12)
BOOLS = True, False
ID = UUID("0f8fad5b-d9cb-469f-a165-70867728950e")
DAYS = date(2022, 1, 2), date(1500, 1, 1)
SPELLED = "2022-01-02 03:04:05.123456789"


def case(name, kind, *values, read=None):
    """Return a case of values of a type; None is the last."""
    return Case(name, (["null", kind], [*values, None]), read or [*values, None])


def logical(kind, logical_type, **fields):
    return {"type": kind, "logicalType": logical_type, **fields}


def simple():
    yield case("boolean", "boolean", *BOOLS)
    yield case("int", "int", -(2**31), 2**31 - 1)
    yield case("long", "long", -(2**63), 2**63 - 1)
    yield case("float", "float", 1.5, float("inf"))
    yield case("double", "double", 0.1, float("nan"))
    yield case("bytes", "bytes", b"", b"\x00\xff")
    yield case("string", "string", "", "Zürich 東京 😀")
    yield case("enum", {"type": "enum", "name": "e", "symbols": ["A", "B"]}, "A", "B")
    yield case("fixed", {"type": "fixed", "name": "f", "size": 2}, b"\x00\x01", b"\xff\xff")


def times():
    yield case("date", logical("int", "date"), *DAYS)
    clock = time(3, 4, 5, 123000)
    yield case("time-millis", logical("int", "time-millis"), clock, time(0))
    yield case("time-micros", logical("long", "time-micros"), AT.time(), time(0))
    old = OLD.replace(tzinfo=timezone.utc)
    millis = AT.replace(microsecond=123000)
    read = [millis.replace(tzinfo=timezone.utc), old, None]
    yield case("timestamp-millis", logical("long", "timestamp-millis"), UTC, old, read=read)
    yield case("timestamp-micros", logical("long", "timestamp-micros"), UTC, old)
    # fastavro converts no nanoseconds: they are given as numbers.
    nanos = 1641092645123456000
    yield case(
        "timestamp-nanos", logical("long", "timestamp-nanos"), nanos, nanos, read=[UTC, UTC, None]
    )
    yield case(
        "timestamp-nanos, digits below a microsecond",
        logical("long", "timestamp-nanos"),
        nanos + 789,
        0,
        read=[SPELLED, "1970-01-01 00:00:00", None],
    )
    kind = logical("long", "local-timestamp-millis")
    yield case("local-timestamp-millis", kind, AT, OLD, read=[millis, OLD, None])
    yield case("local-timestamp-micros", logical("long", "local-timestamp-micros"), AT, OLD)


def others():
    cents = Decimal("1.50"), Decimal("-1234567.89")
    yield case("decimal(9, 2) of bytes", logical("bytes", "decimal", precision=9, scale=2), *cents)
    digits = Decimal("1.5"), Decimal("-1234567890123456789012345678.0123456789")
    fixed = logical("fixed", "decimal", name="d", size=16, precision=38, scale=10)
    yield case("decimal(38, 10) of fixed", fixed, *digits)
    wide = logical("bytes", "decimal", precision=40, scale=2)
    yield case("decimal(40, 2)", wide, *cents)
    yield case("uuid of string", logical("string", "uuid"), ID, UUID(int=0))
    duration = logical("fixed", "duration", name="u", size=12)
    yield case("duration", duration, bytes(12), bytes(12))
    yield case("array", {"type": "array", "items": ["null", "long"]}, [1, None], [])
    yield case("map", {"type": "map", "values": "long"}, {"a": 1}, {})
    instant = logical("long", "timestamp-micros")
    fields = [{"name": "a", "type": ["null", "int"]}, {"name": "b", "type": ["null", instant]}]
    pair = {"type": "record", "name": "p", "fields": fields}
    yield case("record", pair, {"a": 1, "b": UTC}, {"a": None, "b": None})
    next_one = {"name": "next", "type": ["null", "l"]}
    yield case("record that contains itself", {"type": "record", "name": "l", "fields": [next_one]})
    for one, other, *values in (
        ("int", "long", 1, 2**40, 2),
        ("float", "double", 1.5, 0.1, 2.5),
        ("int", "string", 1, "x", 2),
    ):
        yield Case(f"union of {one} and {other}", ([one, other], values), values)


def write(path, columns, codec="null"):
    fields = [{"name": name, "type": kind} for name, (kind, _) in columns.items()]
    schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}, *fields]}
    rows = [{"n": n, **{name: v[n] for name, (_, v) in columns.items()}} for n in range(3)]
    with Path(path).open("wb") as file:
        fastavro.writer(file, schema, rows, codec=codec)


def with_codec(codec):
    def write_with_codec(path, columns):
        write(path, columns, codec)

    return Format("avro", write_with_codec, [case(f"string, codec {codec}", "string", "", "a")])


def three(values):
    return [*values, None, None][:3]


def cases():
    for each in [*simple(), *times(), *others()]:
        kind, values = each.column
        each.column = kind, three(values)
        each.values = three(each.values)
        yield each


CODECS = "deflate", "snappy", "zstandard", "bzip2", "xz", "lz4"
write_all(
    "fastavro",
    fastavro.__version__,
    [Format("avro", write, list(cases())), *map(with_codec, CODECS)],
)
