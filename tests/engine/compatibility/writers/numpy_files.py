"""Lines of fixed width by numpy's savetxt, of numpy's columns."""

from datetime import date

import numpy as np
from manifest import Case, Format, write_all

BOOLS = True, False, True
WIDTH = 26
"""The number of characters of each column, as in loading.py; the one of row numbers has two."""


def case(name, dtype, form, declared, *values, read=None):
    """Return a case of three values, and the % format of savetxt."""
    return Case(name, (np.array(values, dtype), form), read or [*values], declared=declared)


def cases():
    yield case("bool, %26s", "bool", f"%{WIDTH}s", "BOOLEAN", *BOOLS)
    yield case("int8, %26d", "int8", f"%{WIDTH}d", "TINYINT", -128, 127, 0)
    yield case("int64, %26d", "int64", f"%{WIDTH}d", "BIGINT", -(2**63), 2**63 - 1, 0)
    zeros = f"%0{WIDTH}d"
    yield case("uint64, %026d", "uint64", zeros, "DECIMAL(20, 0)", 0, 2**64 - 1, 1)
    texts = ["1.500", "-0.125", "1000000.000"]
    yield case("float64, %26.3f", "float64", f"%{WIDTH}.3f", "DECIMAL(12, 3)", *texts)
    yield case("float64, %26.17g", "float64", f"%{WIDTH}.17g", "DOUBLE", 0.1, 1e300, float("nan"))
    yield case("float64, %26.3f, in INT", "float64", f"%{WIDTH}.3f", "INT", 1, 2, 3)
    words = "a b", "Zürich 東京 😀", ""
    yield case("str, %-26s", "str", f"%-{WIDTH}s", "STRING", *words, read=[*words[:2], None])
    days = [np.datetime64("2022-01-02"), np.datetime64("1500-01-01"), np.datetime64("1969-12-31")]
    read = [date(2022, 1, 2), date(1500, 1, 1), date(1969, 12, 31)]
    yield case("datetime64[D], %26s", "datetime64[D]", f"%{WIDTH}s", "DATE", *days, read=read)
    us = np.array(["2022-01-02T03:04:05.123456", "1969-12-31T23:59:59", "1500-03-01T12"], "M8[us]")
    text = [str(each).replace("T", " ") for each in us]
    texts = [each.rstrip("0").rstrip(".") if "." in each else each for each in text]
    kind = "TIMESTAMP_NTZ"
    yield case("datetime64[us], %26s", "M8[us]", f"%{WIDTH}s", kind, *us, read=texts)


def write(path, columns):
    arrays = [np.arange(3), *(values for values, _ in columns.values())]
    rows = np.array(list(zip(*arrays, strict=True)), object)
    np.savetxt(path, rows, ["%2d", *(form for _, form in columns.values())], "", encoding="utf-8")


write_all("numpy", np.__version__, [Format("fixed_width", write, list(cases()))])
