"""ORC by pyorc."""

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import pyorc
from manifest import Case, Format, write_all

AT = datetime(2022, 1, 2, 3, 4, 5, 123456)


def case(kind, *values, name=None, read=None):
    return Case(name or kind, (kind, [*values, None]), read or [*values, None])


def cases():
    yield Case("boolean", ("boolean", [True, False, None]), [True, False, None])
    for name, bits in (("tinyint", 8), ("smallint", 16), ("int", 32), ("bigint", 64)):
        yield case(name, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    yield case("float", 1.5, float("inf"))
    yield case("double", 0.1, float("-inf"))
    yield case("decimal(9,2)", Decimal("1.50"), Decimal("-1234567.89"))
    digits = Decimal("1.5000000000"), Decimal("-1234567890123456789012345678.0123456789")
    yield case("decimal(38,10)", *digits)
    yield case("string", "", "Zürich 東京 😀")
    yield case("varchar(9)", "a", "Zürich")
    yield case("char(3)", "a", "abc")
    yield case("binary", b"", b"\x00\xff")
    yield case("date", date(2022, 1, 2), date(1583, 1, 1))
    yield case("date", date(1500, 1, 1), date(1, 1, 2), name="date of 1500")
    yield case("timestamp", AT, datetime(1970, 12, 31, 23, 59, 59, 500000))
    old = datetime(1969, 12, 31, 23, 59, 58, 500000), datetime(1969, 12, 31, 12)
    yield case("timestamp", *old, name="timestamp before 1970")
    utc = AT.replace(tzinfo=timezone.utc)
    yield case("timestamp with local time zone", utc, utc.replace(year=1969))
    yield case("array<bigint>", [1, None], [])
    yield case("array<timestamp>", [AT, None], [])
    yield case("map<string,int>", {"a": 1}, {})
    yield case(
        "struct<a:int,b:string>",
        (1, "x"),
        (None, None),
        read=[{"a": 1, "b": "x"}, {"a": None, "b": None}, None],
    )
    yield case("uniontype<int,string>", 1, "a")
    yield case("int", None, None, name="int, all NULL")
    yield case("struct<a:int,b:string>", None, None, name="struct, all NULL")


def write(path, columns):
    declared = "".join(f",{name}:{kind}" for name, (kind, _) in columns.items())
    rows = zip(range(3), *(values for _, values in columns.values()), strict=True)
    with Path(path).open("wb") as file, pyorc.Writer(file, f"struct<n:int{declared}>") as writer:
        for row in rows:
            writer.write(row)


write_all("pyorc", pyorc.__version__, [Format("orc", write, list(cases()))])
