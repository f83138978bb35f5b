"""Parquet by PyArrow, CSV, JSON lines, Excel by openpyxl and XML, of pandas' columns."""

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import numpy as np
import pandas as pd
from manifest import Case, Format, write_all

BOOLS = True, False
AT = datetime(2022, 1, 2, 3, 4, 5, 123456)
OLD = datetime(1500, 3, 1, 12)
SECONDS = datetime(2022, 1, 2, 3, 4, 5), datetime(1969, 12, 31, 12)
LAST = timedelta(days=2, seconds=3, milliseconds=4)
ID = UUID("0f8fad5b-d9cb-469f-a165-70867728950e")
CENTS = Decimal("1.50"), Decimal("-1234567.89")
DAYS = date(2022, 1, 2), date(1500, 1, 1)


def case(name, dtype, *values, read=None, **more):
    """Return a case of values of a dtype; None is the last."""
    return Case(name, pd.Series([*values, None], dtype=dtype), read or [*values, None], **more)


def whole():
    for bits in (8, 16, 32, 64):
        least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        yield case(f"nullable int (Int{bits})", f"Int{bits}", least, most)
        yield case(f"nullable int (UInt{bits})", f"UInt{bits}", 0, 2**bits - 1)
    values = [0, 2**64 - 1, 1]
    yield Case("uint64", pd.Series(values, dtype="uint64"), values)
    yield Case("int64", pd.Series([-(2**63), 2**63 - 1, 0]), [-(2**63), 2**63 - 1, 0])
    yield case("int with None (float64)", None, 1, -1)


def times():
    for unit in ("s", "ms", "us", "ns"):
        values = (
            SECONDS if unit in ("s", "ms") else (AT, datetime(1969, 12, 31, 23, 59, 59, 999999))
        )
        column = pd.Series([*values, None]).astype(f"datetime64[{unit}]")
        yield Case(f"datetime64[{unit}]", column, [*values, None])
        utc = [at.replace(tzinfo=timezone.utc) for at in values]
        yield Case(f"datetime64[{unit}, UTC]", column.dt.tz_localize("UTC"), [*utc, None])
    old = pd.Series(np.array([str(OLD), "0001-01-01", "NaT"], "datetime64[us]"))
    yield Case("datetime64[us] of 1500", old, [OLD, datetime(1, 1, 1), None])
    at = pd.Timestamp(AT, tz="Europe/Berlin")
    berlin = pd.Series([at, at, None], dtype="datetime64[ns, Europe/Berlin]")
    yield Case("datetime64[ns, Europe/Berlin]", berlin, [at, at, None])
    below = pd.Series([1641092645123456789, 0, 1]).astype("datetime64[ns]")
    texts = [
        "2022-01-02 03:04:05.123456789",
        "1970-01-01 00:00:00",
        "1970-01-01 00:00:00.000000001",
    ]
    yield Case(
        "datetime64[ns], digits below a microsecond",
        below,
        texts,
        numbers=[1641092645123456789, 0, 1],
    )


def durations():
    for unit, per_second in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        last = timedelta(days=2) if unit == "s" else LAST
        numbers = [int(last / timedelta(milliseconds=1)) * per_second // 1000, -per_second, None]
        values = [last, timedelta(seconds=-1), None]
        column = pd.Series(values).astype(f"timedelta64[{unit}]")
        yield Case(f"timedelta64[{unit}]", column, values, numbers=numbers)


def objects():
    yield case("object of str", object, "", "Zürich 東京 😀")
    yield case("object of bool", object, *BOOLS)
    yield case("object of int", object, 1, 2**60)
    yield case("object of bytes", object, b"", b"\x00\xff")
    yield case("object of Decimal", object, *CENTS)
    yield case("object of date", object, *DAYS)
    yield case("object of time", object, time(3, 4, 5, 123456), time(0))
    yield case("object of list", object, [1, None], [])
    yield case("object of dict", object, {"a": 1, "b": "x"}, {"a": None, "b": None})
    yield case("object, all None", object, None, None)


def in_parquet():
    yield Case("bool", pd.Series([True, False, True]), [True, False, True])
    yield case("nullable bool (boolean)", "boolean", *BOOLS)
    yield from whole()
    yield case("float16", "float16", 1.5, float("inf"))
    yield case("float32", "float32", 1.5, float("inf"))
    # pandas writes NaN as NULL.
    yield case("float64", "float64", 0.1, float("nan"), read=[0.1, None, None])
    yield case("nullable float (Float64)", "Float64", 0.1, float("-inf"))
    yield case("string", "string", "", "Zürich 東京 😀")
    yield case("string[pyarrow]", "string[pyarrow]", "", "Zürich 東京 😀")
    yield case("category of str", "category", "a", "b")
    yield case("category of int", pd.CategoricalDtype([1, 2]), 1, 2)
    yield from times()
    yield from durations()
    months = pd.Series(pd.PeriodIndex(["2022-01", "1969-12", None], freq="M"))
    yield Case("period[M]", months, ["2022-01", "1969-12", None], numbers=[624, -1, None])
    days = pd.Series(pd.PeriodIndex(["2022-01-02", "1969-12-31", None], freq="D"))
    yield Case("period[D]", days, [*DAYS[:1], date(1969, 12, 31), None], numbers=[18994, -1, None])
    pairs = [(0, 1), (1, 2), None]
    intervals = pd.Series(pd.arrays.IntervalArray.from_tuples(pairs))
    bounds = [pair and dict(zip(("left", "right"), pair, strict=True)) for pair in pairs]
    yield Case("interval", intervals, ["(0.0, 1.0]", "(1.0, 2.0]", None], numbers=bounds)
    yield from objects()


def numbers_in_text(form):
    yield case("nullable bool (boolean)", "boolean", *BOOLS, declared="BOOLEAN")
    yield case("nullable int (Int64)", "Int64", -(2**63), 2**63 - 1, declared="BIGINT")
    yield case("nullable int (UInt64)", "UInt64", 0, 2**64 - 1, declared="DECIMAL(20, 0)")
    # pandas makes floats of such numbers, and writes 1.0.
    yield case("int with None (float64)", None, 1, -1, declared="INT")
    yield case("float64", "float64", 0.1, 1e300, declared="DOUBLE")
    endless = float("inf"), float("-inf")
    # In JSON pandas writes null for them.
    read = [*endless, None] if form == "csv" else [None] * 3
    yield case("float64, infinite", "float64", *endless, read=read, declared="DOUBLE")
    yield case(
        "float64, NaN", "float64", 1, float("nan"), read=[1.0, None, None], declared="DOUBLE"
    )
    yield case("object of Decimal", object, *CENTS, declared="DECIMAL(9, 2)")


def in_csv():
    yield from numbers_in_text("csv")
    # pandas writes an empty text as nothing, too.
    texts = "", 'a "b",\\n'
    yield case("string", "string", *texts, read=[None, texts[1], None], declared="STRING")
    yield case(
        "object of bytes",
        object,
        b"",
        b"\x00\xff",
        read=["b''", r"b'\x00\xff'", None],
        declared="STRING",
    )
    yield case("object of date", object, *DAYS, declared="DATE")
    yield case("object of time", object, "03:04:05.123456", "00:00:00", declared="STRING")
    naive = {"declared": "TIMESTAMP_NTZ"}
    for each in times():
        below = "below" in each.name
        each.declared = (
            "TIMESTAMP" if ", UTC" in each.name or "Berlin" in each.name else "TIMESTAMP_NTZ"
        )
        if below:
            each.declared = "STRING"
            each.values = [value if "." in value else f"{value}.000000000" for value in each.values]
        yield each
    midnights = pd.Series([datetime(2022, 1, 2), datetime(1969, 12, 31), None])
    yield Case(
        "datetime64, all at midnight",
        midnights,
        [datetime(2022, 1, 2), datetime(1969, 12, 31), None],
        **naive,
    )
    lasts = pd.Series([LAST, timedelta(seconds=-1), None])
    yield Case(
        "timedelta64",
        lasts,
        ["2 days 00:00:03.004000", "-1 days +23:59:59.000000", None],
        declared="STRING",
    )


def in_json():
    yield from numbers_in_text("json")
    yield case("string", "string", "", 'a "b",\\n/', declared="STRING")
    yield case("object of time", object, "03:04:05.123456", "00:00:00", declared="STRING")
    at = pd.Series([AT, datetime(1969, 12, 31, 12), None])
    millis = AT.replace(microsecond=123000)
    # pandas cuts its times to milliseconds.
    read = [millis, datetime(1969, 12, 31, 12), None]
    utc = [at and at.replace(tzinfo=timezone.utc) for at in read]
    yield Case("datetime64, date_format iso", at, read, declared="TIMESTAMP_NTZ")
    yield Case(
        "datetime64[UTC], date_format iso", at.dt.tz_localize("UTC"), utc, declared="TIMESTAMP"
    )
    lasts = pd.Series([LAST, timedelta(seconds=1), None])
    yield Case(
        "timedelta64, date_format iso",
        lasts,
        ["P2DT0H0M3.004S", "P0DT0H0M1S", None],
        declared="STRING",
    )
    yield case("object of list", object, [1, None], [], declared="ARRAY<BIGINT>")
    yield case(
        "object of dict",
        object,
        {"a": 1, "b": "x"},
        {"a": None, "b": None},
        declared="STRUCT<a: BIGINT, b: STRING>",
    )


def in_xml():
    yield case("nullable bool (boolean)", "boolean", *BOOLS, declared="BOOLEAN")
    yield case("nullable int (Int64)", "Int64", -(2**63), 2**63 - 1, declared="BIGINT")
    yield case("float64", "float64", 0.1, 1e300, declared="DOUBLE")
    yield case("object of Decimal", object, *CENTS, declared="DECIMAL(9, 2)")
    # pandas writes an empty element for an empty text and for None.
    texts = "", 'a <b> & "c"\n Zürich'
    yield case("string", "string", *texts, read=[*texts, ""], declared="STRING")
    yield case("object of date", object, *DAYS, declared="DATE")
    at = pd.Series([AT, datetime(1969, 12, 31, 12), None])
    yield Case("datetime64", at, [AT, datetime(1969, 12, 31, 12), None], declared="TIMESTAMP_NTZ")
    utc = [AT.replace(tzinfo=timezone.utc), datetime(1969, 12, 31, 12, tzinfo=timezone.utc), None]
    yield Case("datetime64[UTC]", at.dt.tz_localize("UTC"), utc, declared="TIMESTAMP")


def in_excel():
    yield case("nullable bool (boolean)", "boolean", *BOOLS, declared="BOOLEAN")
    yield case("nullable int (Int32)", "Int32", -(2**31), 2**31 - 1, declared="INT")
    # A cell has 15 digits.
    yield case("nullable int (Int64), 19 digits", "Int64", 2**63 - 1, 1, declared="BIGINT")
    yield case("float64", "float64", 0.1, 1e300, declared="DOUBLE")
    # pandas writes numbers.
    yield case("object of Decimal", object, *CENTS, declared="DECIMAL(9, 2)")
    # pandas writes an empty cell for an empty text and for None.
    texts = "", "a\n Zürich 東京 😀"
    yield case("string", "string", *texts, read=[None, texts[1], None], declared="STRING")
    yield case("string of digits", "string", "007", "1e5", declared="STRING")
    yield case("object of date", object, DAYS[0], date(1900, 3, 1), declared="DATE")
    old = date(1900, 2, 28), DAYS[0]
    yield case("object of date before March 1900", object, *old, declared="DATE")
    millis = AT.replace(microsecond=123000)
    at = pd.Series([millis, datetime(1969, 12, 31, 12), None])
    read = [millis, datetime(1969, 12, 31, 12), None]
    yield Case("datetime64", at, read, declared="TIMESTAMP_NTZ")
    # pandas writes a text for a time of day, and a number of days for a duration.
    clocks = ["03:04:05.500000", "00:00:00", None]
    times_of_day = time(3, 4, 5, 500000), time(0)
    yield case("object of time", object, *times_of_day, read=clocks, declared="STRING")
    lasts = pd.Series([timedelta(days=2, hours=12), timedelta(hours=-6), None])
    yield Case("timedelta64, in DOUBLE", lasts, [2.5, -0.25, None], declared="DOUBLE")


def in_json_of_epochs():
    at = pd.Series([AT, datetime(1969, 12, 31, 12), None])
    yield Case(
        "datetime64, date_format epoch", at, [1641092645123, -43200000, None], declared="BIGINT"
    )
    lasts = pd.Series([LAST, timedelta(seconds=-1), None])
    yield Case("timedelta64, date_format epoch", lasts, [172803004, -1000, None], declared="BIGINT")


def numbered(columns):
    return pd.DataFrame({"n": np.array([0, 1, 2], "int32"), **columns})


def parquet(path, columns):
    numbered(columns).to_parquet(path, engine="pyarrow")


def with_an_index(path, columns):
    ((_, index),) = columns.items()
    frame = pd.DataFrame({"n": np.array([0, 1, 2], "int32")}, index=pd.Index(index, name="v"))
    frame.to_parquet(path, engine="pyarrow")


def csv(path, columns):
    numbered(columns).to_csv(path, index=False)


def excel(path, columns):
    with Path(path).open("wb") as file:
        numbered(columns).to_excel(file, index=False, engine="openpyxl")


def xml(path, columns):
    numbered(columns).to_xml(path, index=False, parser="etree")


def json_of(date_format):
    def lines(path, columns):
        numbered(columns).to_json(path, orient="records", lines=True, date_format=date_format)

    return lines


write_all(
    "pandas",
    pd.__version__,
    [
        Format("parquet", parquet, list(in_parquet())),
        Format("parquet", with_an_index, [case("string, the index", object, "a", "b")]),
        Format("csv", csv, list(in_csv()), source={"header": True}),
        Format("json", json_of("iso"), list(in_json())),
        Format("json", json_of("epoch"), list(in_json_of_epochs())),
        Format("excel", excel, list(in_excel())),
        Format("xml", xml, list(in_xml()), source={"row_tag": "row"}),
    ],
)
