"""Parquet, CSV and JSON by polars."""

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import polars as pl
from manifest import Case, Format, write_all

AT = datetime(2022, 1, 2, 3, 4, 5, 123456)
OLD = datetime(1500, 3, 1, 12)
DAYS = [date(2022, 1, 2), date(1500, 1, 1), None]
LAST = timedelta(days=2, seconds=3, milliseconds=4)
BERLIN = "Europe/Berlin"


def case(name, values, kind, **more):
    series = pl.Series("v", values, dtype=kind)
    return Case(name, series, series.to_list(), **more)


def whole(bits, sign="Int"):
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if sign == "Int" else (0, 2**bits - 1)
    return [low, high, None]


def times(unit):
    millis = [AT.replace(microsecond=123000), datetime(1969, 12, 31, 23, 59, 59, 999000), None]
    return millis if unit == "ms" else [AT, datetime(1969, 12, 31, 23, 59, 59, 999999), None]


def durations():
    for unit, per_second in (("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        most = 2 * 86400 * per_second + 3004 * per_second // 1000
        numbers = [most, -per_second, None]
        yield case(
            f"Duration({unit})",
            [LAST, -timedelta(seconds=1), None],
            pl.Duration(unit),
            numbers=numbers,
        )
        yield Case(
            f"List(Duration({unit}))",
            pl.Series("v", [[LAST], [], None], dtype=pl.List(pl.Duration(unit))),
            [[LAST], [], None],
            numbers=[[most], [], None],
        )


def in_parquet():
    yield case("Boolean", [True, False, None], pl.Boolean)
    for bits in (8, 16, 32, 64):
        yield case(f"Int{bits}", whole(bits), getattr(pl, f"Int{bits}"))
        yield case(f"UInt{bits}", whole(bits, "UInt"), getattr(pl, f"UInt{bits}"))
    sizes = {"Int128": [2**100, -1], "UInt128": [2**127, 1]}
    for name, values in sizes.items():
        held = [(value % 2**128).to_bytes(16, "little") for value in values]
        yield case(name, [*values, None], getattr(pl, name), numbers=[*held, None])
    if hasattr(pl, "Float16"):
        yield case("Float16", [1.5, float("inf"), None], pl.Float16)
    yield case("Float32", [1.5, float("nan"), None], pl.Float32)
    yield case("Float64", [0.1, float("-inf"), None], pl.Float64)
    yield case("Decimal(9, 2)", [Decimal("1.50"), Decimal("-1234567.89"), None], pl.Decimal(9, 2))
    yield case("Decimal(38, 10)", [Decimal("1.5"), Decimal(10**20), None], pl.Decimal(38, 10))
    yield case("String", ["", "Zürich 東京 😀", None], pl.String)
    yield case("Binary", [b"", b"\x00\xff", None], pl.Binary)
    yield case("Date", DAYS, pl.Date)
    yield case("Time", [time(3, 4, 5, 123456), time(0), None], pl.Time)
    for unit in ("ms", "us", "ns"):
        yield case(f"Datetime({unit})", times(unit), pl.Datetime(unit))
        yield case(
            f"Datetime({unit}, UTC)",
            [at and at.replace(tzinfo=timezone.utc) for at in times(unit)],
            pl.Datetime(unit, "UTC"),
        )
    yield case("Datetime(us) of 1500", [OLD, datetime(1, 1, 1), None], pl.Datetime("us"))
    berlin = pl.Series("v", [AT, OLD, None], dtype=pl.Datetime("us")).dt.replace_time_zone(BERLIN)
    yield Case("Datetime(us, Europe/Berlin)", berlin, berlin.to_list())
    below = pl.Series("v", [1641092645123456789, 0, None], dtype=pl.Datetime("ns"))
    yield Case(
        "Datetime(ns), digits below a microsecond",
        below,
        ["2022-01-02 03:04:05.123456789", "1970-01-01 00:00:00", None],
        numbers=[1641092645123456789, 0, None],
    )
    yield from durations()
    yield case("Categorical", ["a", "b", None], pl.Categorical)
    yield case("Enum", ["a", "b", None], pl.Enum(["a", "b"]))
    yield case("List(Int64)", [[1, None], [], None], pl.List(pl.Int64))
    yield case("List(String)", [["a", None], [], None], pl.List(pl.String))
    yield case("List(List(UInt32))", [[[2**32 - 1], None], [], None], pl.List(pl.List(pl.UInt32)))
    yield case("Array(Int64, 2)", [[1, 2], [3, None], None], pl.Array(pl.Int64, 2))
    pair = pl.Struct({"a": pl.Int64, "b": pl.Datetime("ns")})
    yield case("Struct", [{"a": 1, "b": AT}, {"a": None, "b": None}, None], pair)
    yield case("List(Struct)", [[{"a": 1, "b": AT}], [], None], pl.List(pair))
    yield case("Null", [None, None, None], pl.Null)
    yield case("List(Null)", [[None, None], [], None], pl.List(pl.Null))


def in_text(form):
    yield case("Boolean", [True, False, None], pl.Boolean, declared="BOOLEAN")
    yield case("UInt64", whole(64, "UInt"), pl.UInt64, declared="DECIMAL(20, 0)")
    yield case("Int128", [2**100, -1, None], pl.Int128, declared="DECIMAL(38, 0)")
    yield case("Float64", [0.1, 1e300, None], pl.Float64, declared="DOUBLE")
    # In JSON polars writes null for them.
    endless, nan = [float("inf"), float("-inf"), None], [float("nan"), 1.0, None]
    inf_read, nan_read = (endless, nan) if form == "csv" else ([None] * 3, [None, 1.0, None])
    yield Case("Float64, infinite", pl.Series(endless), inf_read, declared="DOUBLE")
    yield Case("Float64, NaN", pl.Series(nan), nan_read, declared="DOUBLE")
    cents = [Decimal("1.50"), Decimal("-1234567.89"), None]
    yield case("Decimal(9, 2)", cents, pl.Decimal(9, 2), declared="DECIMAL(9, 2)")
    texts = ["", 'a "b",\\n', None]
    yield case("String", texts, pl.String, declared="STRING")
    yield case("Date", DAYS, pl.Date, declared="DATE")
    clock = pl.Series([time(3, 4, 5, 123456), time(0), None], dtype=pl.Time)
    of_csv = ["03:04:05.123456000", "00:00:00.000000000", None]
    shown = of_csv if form == "csv" else None
    yield Case("Time", clock, shown or clock.to_list(), declared="STRING")
    naive = {"declared": "TIMESTAMP_NTZ"}
    yield case("Datetime(us)", times("us"), pl.Datetime("us"), **naive)
    yield case("Datetime(ms)", times("ms"), pl.Datetime("ms"), **naive)
    yield case(
        "Datetime(us, UTC)",
        [at and at.replace(tzinfo=timezone.utc) for at in times("us")],
        pl.Datetime("us", "UTC"),
        declared="TIMESTAMP",
    )
    if form == "csv":
        return  # polars writes no durations, lists and structs to CSV
    last = [LAST, -timedelta(seconds=1), None]
    yield Case(
        "Duration(us)",
        pl.Series("v", last, dtype=pl.Duration("us")),
        ["PT172803.004S", "-PT1S", None],
        declared="STRING",
    )
    yield case("List(Int64)", [[1, None], [], None], pl.List(pl.Int64), declared="ARRAY<BIGINT>")
    pair = pl.Struct({"a": pl.Int64, "b": pl.String})
    yield case(
        "Struct",
        [{"a": 1, "b": "x"}, {"a": None, "b": None}, None],
        pair,
        declared="STRUCT<a: BIGINT, b: STRING>",
    )


def in_avro():
    yield case("Boolean", [True, False, None], pl.Boolean)
    yield case("Int32", [-(2**31), 2**31 - 1, None], pl.Int32)
    yield case("Int64", [-(2**63), 2**63 - 1, None], pl.Int64)
    yield case("Float32", [1.5, float("inf"), None], pl.Float32)
    yield case("Float64", [0.1, float("nan"), None], pl.Float64)
    yield case("String", ["", "Zürich 東京 😀", None], pl.String)
    yield case("Binary", [b"", b"\x00\xff", None], pl.Binary)
    yield case("Date", [date(2022, 1, 2), date(1500, 1, 1), None], pl.Date)
    yield case("Datetime(us)", [AT, AT.replace(year=1969), None], pl.Datetime("us"))
    yield case("List(Int64)", [[1, None], [], None], pl.List(pl.Int64))


def numbered(columns):
    return pl.DataFrame({"n": pl.Series([0, 1, 2], dtype=pl.Int32), **columns})


def parquet(path, columns):
    numbered(columns).write_parquet(path)


def csv(path, columns):
    numbered(columns).write_csv(path)


def lines(path, columns):
    numbered(columns).write_ndjson(path)


def avro(path, columns):
    numbered(columns).write_avro(path)


write_all(
    "polars",
    pl.__version__,
    [
        Format("parquet", parquet, list(in_parquet())),
        Format("csv", csv, list(in_text("csv")), source={"header": True}),
        Format("json", lines, list(in_text("json"))),
        Format("avro", avro, list(in_avro())),
    ],
)
