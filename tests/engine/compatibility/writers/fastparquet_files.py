"""Parquet by fastparquet, of pandas' columns."""

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import fastparquet
import numpy as np
import pandas as pd
from manifest import Case, Format, write_all

BOOLS = True, False
AT = datetime(2022, 1, 2, 3, 4, 5, 123456)
NOON = datetime(1969, 12, 31, 12)
LAST = timedelta(days=2, seconds=3, milliseconds=4)
CENTS = Decimal("1.50"), Decimal("-1234567.89")


def case(name, dtype, *values, read=None, **more):
    """Return a case of values of a dtype; None is the last."""
    return Case(name, pd.Series([*values, None], dtype=dtype), read or [*values, None], **more)


def whole():
    for bits in (8, 16, 32, 64):
        least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        yield case(f"nullable int (Int{bits})", f"Int{bits}", least, most)
        yield case(f"nullable int (UInt{bits})", f"UInt{bits}", 0, 2**bits - 1)


def times():
    for unit in ("ms", "us", "ns"):
        at = AT.replace(microsecond=123000) if unit == "ms" else AT
        column = pd.Series([at, NOON, None]).astype(f"datetime64[{unit}]")
        yield Case(f"datetime64[{unit}]", column, [at, NOON, None])
        utc = [each.replace(tzinfo=timezone.utc) for each in (at, NOON)]
        yield Case(f"datetime64[{unit}, UTC]", column.dt.tz_localize("UTC"), [*utc, None])
    at = pd.Timestamp(AT, tz="Europe/Berlin")
    berlin = pd.Series([at, at, None], dtype="datetime64[ns, Europe/Berlin]")
    yield Case("datetime64[ns, Europe/Berlin]", berlin, [at, at, None])


def in_parquet():
    yield Case("bool", pd.Series([True, False, True]), [True, False, True])
    yield case("nullable bool (boolean)", "boolean", *BOOLS)
    yield from whole()
    yield case("float16, which fastparquet writes as FLOAT", "float16", 1.5, float("inf"))
    yield case("float32", "float32", 1.5, float("inf"))
    yield case("float64", "float64", 0.1, float("-inf"))
    yield case("nullable float (Float64)", "Float64", 0.1, float("-inf"))
    yield case("string", "string", "", "Zürich 東京 😀")
    yield case("object of str", object, "", "Zürich 東京 😀")
    yield case("object of bool", object, *BOOLS)
    yield case("object of int", object, 1, 2**60)
    yield case("object of bytes", object, b"", b"\x00\xff")
    floats = [*map(float, CENTS), None]
    yield case("object of Decimal, which fastparquet writes as DOUBLE", object, *CENTS, read=floats)
    texts = ['{"a":1,"b":"x"}', "{}", None]
    yield case(
        "object of dict, which fastparquet writes as JSON",
        object,
        {"a": 1, "b": "x"},
        {},
        read=texts,
    )
    yield case(
        "object of list, which fastparquet writes as JSON",
        object,
        [1, None],
        [],
        read=["[1,null]", "[]", None],
    )
    yield case("category of str", "category", "a", "b")
    yield case("category of int", pd.CategoricalDtype([1, 2]), 1, 2)
    yield from times()
    # fastparquet writes a duration as a time of day.
    day = [timedelta(hours=3, seconds=4), timedelta(0), None]
    column = pd.Series(day).astype("timedelta64[ns]")
    read = ["03:00:04", "00:00:00", None]
    yield Case("timedelta64[ns] below a day, which fastparquet writes as TIME", column, read)
    lasts = [LAST, timedelta(seconds=-1), None]
    column = pd.Series(lasts).astype("timedelta64[ns]")
    yield Case("timedelta64[ns]", column, lasts, numbers=[172803004000, -1000000, None])


def numbered(columns):
    return pd.DataFrame({"n": np.array([0, 1, 2], "int32"), **columns})


def parquet(**options):
    def write(path, columns):
        fastparquet.write(path, numbered(columns), **options)

    return write


def with_option(name, cases):
    return [Case(f"{each.name}, {name}", each.column, each.values) for each in cases]


def in_a_folder(path, columns):
    fastparquet.write(str(Path(path).parent), numbered(columns), file_scheme="hive")


def of_nanoseconds():
    """Yield times in nanoseconds: fastparquet writes others as INT96 of another day."""
    yield from (each for each in times() if "[ns" in each.name)


write_all(
    "fastparquet",
    fastparquet.__version__,
    [
        Format("parquet", parquet(), list(in_parquet())),
        Format("parquet", parquet(times="int96"), with_option("times int96", of_nanoseconds())),
        Format("parquet", in_a_folder, with_option("file_scheme hive", whole())),
        Format("parquet", parquet(compression="ZSTD"), [*with_option("compression ZSTD", whole())]),
    ],
)
