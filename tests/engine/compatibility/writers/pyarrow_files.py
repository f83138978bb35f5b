"""Parquet and ORC by PyArrow."""

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
from manifest import Case, Format, write_all

BOOLS = True, False
AT = datetime(2022, 1, 2, 3, 4, 5, 123456)
MILLIS = AT.replace(microsecond=123000)
SECONDS = AT.replace(microsecond=0)
OLD = datetime(1500, 3, 1, 12)
NOON = datetime(1970, 12, 31, 12)
ID = UUID("0f8fad5b-d9cb-469f-a165-70867728950e")
CENTS = Decimal("1.50"), Decimal("-1234567.89")
DIGITS = Decimal("1.5"), Decimal("-1234567890123456789012345678.0123456789")
TEXTS = "", "Zürich 東京 😀"


def case(kind, *values, name=None, read=None, **more):
    """Return a case of values of a type; NULL is the last."""
    column = pa.array([*values, None], kind)
    return Case(name or str(kind), column, read or [*values, None], **more)


def utc(at):
    return at.replace(tzinfo=timezone.utc)


def whole(sign):
    for bits in (8, 16, 32, 64):
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if sign == "int" else (0, 2**bits - 1)
        yield case(getattr(pa, f"{sign}{bits}")(), low, high)


def plain():
    yield case(pa.bool_(), *BOOLS)
    yield from whole("int")
    yield case(pa.float32(), 1.5, float("inf"))
    yield case(pa.float64(), 0.1, float("nan"))
    yield case(pa.decimal128(9, 2), *CENTS)
    yield case(pa.decimal128(38, 10), *DIGITS)
    yield case(pa.string(), *TEXTS)
    yield case(pa.large_string(), *TEXTS)
    yield case(pa.binary(), b"", b"\x00\xff")
    yield case(pa.large_binary(), b"", b"\x00\xff")
    yield case(pa.binary(2), b"ab", b"\x00\xff", name="fixed_size_binary[2]")
    yield case(pa.list_(pa.int64()), [1, None], [])
    yield case(pa.large_list(pa.int64()), [1, None], [])
    yield case(pa.list_(pa.int64(), 2), [1, 2], [3, None])
    yield case(pa.map_(pa.string(), pa.int64()), [("a", 1)], [], read=[{"a": 1}, {}, None])
    pair = pa.struct([("a", pa.int64()), ("b", pa.string())])
    yield case(pair, {"a": 1, "b": "x"}, {"a": None, "b": None}, name="struct")


def times():
    yield case(pa.date32(), date(2022, 1, 2), date(1583, 1, 1))
    for unit, at in (("s", SECONDS), ("ms", MILLIS), ("us", AT)):
        yield case(pa.timestamp(unit), at, NOON)
        yield case(pa.timestamp(unit, "UTC"), utc(at), utc(NOON))
    yield case(pa.timestamp("ns"), AT, NOON)
    yield case(pa.timestamp("ns", "Europe/Berlin"), utc(AT), utc(NOON))


def dictionaries():
    for kind, values in (
        (pa.string(), TEXTS),
        (pa.int64(), (1, 2**40)),
        (pa.date32(), (date(2022, 1, 2), date(1583, 1, 1))),
    ):
        column = pa.array([*values, None], kind).dictionary_encode()
        yield Case(f"dictionary of {kind}", column, [*values, None])


def extensions():
    def stored(kind, *values):
        return pa.ExtensionArray.from_storage(kind, pa.array([*values, None], kind.storage_type))

    yield Case("uuid", stored(pa.uuid(), ID.bytes, bytes(16)), [ID, UUID(int=0), None])
    yield Case("json", stored(pa.json_(), '{"a": 1}', "[]"), ['{"a": 1}', "[]", None])
    yield Case("bool8", stored(pa.bool8(), 1, 0), [True, False, None], numbers=[1, 0, None])
    tensor = stored(pa.fixed_shape_tensor(pa.int32(), [2]), [1, 2], [3, 4])
    yield Case("fixed_shape_tensor", tensor, [[1, 2], [3, 4], None])


def in_parquet():
    yield from plain()
    yield from whole("uint")
    yield case(pa.float16(), 1.5, float("inf"))
    yield case(pa.decimal32(9, 2), *CENTS)
    yield case(pa.decimal64(18, 2), *CENTS)
    yield case(pa.decimal256(38, 10), *DIGITS)
    large = Decimal(10**47), Decimal("-1.50")
    held = [int(value * 100).to_bytes(21, "big", signed=True) for value in large]
    yield case(pa.decimal256(50, 2), *large, numbers=[*held, None])
    yield case(pa.string_view(), *TEXTS)
    yield case(pa.binary_view(), b"", b"\x00\xff")
    yield from times()
    yield case(pa.date64(), date(2022, 1, 2), date(1500, 1, 1))
    yield case(pa.date32(), date(2022, 1, 2), date(1500, 1, 1), name="date32[day] of 1500")
    yield case(pa.timestamp("us"), AT, OLD, name="timestamp[us] of 1500")
    yield case(
        pa.timestamp("ns"),
        1641092645123456789,
        0,
        name="timestamp[ns], digits below a microsecond",
        read=["2022-01-02 03:04:05.123456789", "1970-01-01 00:00:00", None],
        numbers=[1641092645123456789, 0, None],
    )
    for kind in (pa.time32("s"), pa.time32("ms")):
        yield case(kind, time(3, 4, 5), time(0))
    for kind in (pa.time64("us"), pa.time64("ns")):
        yield case(kind, time(3, 4, 5, 123456), time(0))
    for unit, per_second in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        last = timedelta(days=2, seconds=3)
        numbers = [172803 * per_second, -per_second, None]
        yield case(pa.duration(unit), last, timedelta(seconds=-1), numbers=numbers)
    yield case(pa.list_view(pa.int64()), [1, None], [])
    inner = pa.struct([("at", pa.timestamp("ns")), ("t", pa.time64("ns")), ("u", pa.uint64())])
    nested = {"at": AT, "t": time(3, 4, 5, 123456), "u": 2**64 - 1}
    yield case(
        pa.list_(inner), [nested], [], name="list<struct of timestamp[ns], time64[ns], uint64>"
    )
    entries = pa.map_(pa.string(), pa.timestamp("ns", "UTC"))
    yield case(
        entries,
        [("a", utc(AT))],
        [],
        name="map of timestamp[ns, tz=UTC]",
        read=[{"a": utc(AT)}, {}, None],
    )
    yield from dictionaries()
    yield from extensions()
    yield Case("null", pa.nulls(3), [None] * 3)


def options():
    """Yield formats of a file, with the types whose bytes depend on the option."""
    numbers = [*whole("int"), *whole("uint")]
    at = [case(pa.timestamp("us"), AT, OLD), case(pa.timestamp("us", "UTC"), utc(AT), utc(OLD))]
    texts = [case(pa.string(), *TEXTS)]
    decimals = [case(pa.decimal128(9, 2), *CENTS), case(pa.decimal128(18, 4), *CENTS)]
    nanos = [
        case(pa.timestamp("ns"), AT, NOON),
        case(pa.timestamp("ns", "UTC"), utc(AT), utc(NOON)),
    ]
    lists = [case(pa.list_(pa.int64()), [1, None], [])]
    singles = [case(pa.float32(), 1.5, -1.5), case(pa.float64(), 0.1, float("nan"))]
    yield "use_dictionary=False", {"use_dictionary": False}, [*numbers, *at, *texts]
    yield "data_page_version 2.0", {"data_page_version": "2.0"}, [*numbers, *texts, *lists]
    yield "version 1.0", {"version": "1.0"}, [*numbers, *nanos]
    yield "INT96", {"use_deprecated_int96_timestamps": True}, [*nanos]
    yield "flavor spark", {"flavor": "spark"}, [*nanos]
    yield (
        "store_schema=False",
        {"store_schema": False},
        [
            *numbers,
            *nanos,
            case(pa.duration("us"), timedelta(seconds=1), timedelta(0), numbers=[10**6, 0, None]),
        ],
    )
    yield "use_byte_stream_split", {"use_byte_stream_split": True, "use_dictionary": False}, singles
    delta = {"use_dictionary": False, "column_encoding": "DELTA_BINARY_PACKED"}
    yield (
        "DELTA_BINARY_PACKED",
        delta,
        [case(pa.int32(), 1, -(2**31)), case(pa.int64(), 1, -(2**63)), *at],
    )
    for encoding in ("DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"):
        yield encoding, {"use_dictionary": False, "column_encoding": encoding}, texts
    yield "store_decimal_as_integer", {"store_decimal_as_integer": True}, decimals
    yield "use_compliant_nested_type=False", {"use_compliant_nested_type": False}, lists
    for codec in ("gzip", "zstd", "lz4", "brotli", "none"):
        yield f"compression {codec}", {"compression": codec}, texts


def parquet(**chosen):
    def write(path, columns):
        table = pa.table({"n": pa.array([0, 1, 2], pa.int32()), **columns})
        given = dict(chosen)
        if "column_encoding" in given:
            given["column_encoding"] = dict.fromkeys(columns, given["column_encoding"])
        pq.write_table(table, path, **given)

    return write


def in_orc():
    yield from plain()
    yield from times()
    yield case(pa.date32(), date(1500, 1, 1), date(1, 1, 2), name="date32[day] of 1500")
    yield case(pa.timestamp("us", "UTC"), utc(OLD), utc(OLD), name="timestamp[us, tz=UTC] of 1500")
    yield case(pa.timestamp("us"), OLD, OLD, name="timestamp[us] of 1500")
    yield case(
        pa.timestamp("ns"),
        1641092645123456789,
        0,
        name="timestamp[ns], digits below a microsecond",
        read=["2022-01-02 03:04:05.123456789", "1970-01-01 00:00:00", None],
    )


def orc(path, columns):
    pyarrow.orc.write_table(pa.table({"n": pa.array([0, 1, 2], pa.int32()), **columns}), path)


def all_formats():
    yield Format("parquet", parquet(), list(in_parquet()))
    for name, chosen, cases in options():
        copies = [
            Case(f"{each.name}, {name}", each.column, each.values, each.numbers) for each in cases
        ]
        yield Format("parquet", parquet(**chosen), copies)
    yield Format("orc", orc, list(in_orc()))


write_all("PyArrow", pa.__version__, list(all_formats()))
