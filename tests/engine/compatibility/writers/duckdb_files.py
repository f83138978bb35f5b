"""Parquet, CSV and JSON by DuckDB."""

import math
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import duckdb
from manifest import Case, Format, write_all

AT = datetime(2022, 1, 2, 3, 4, 5, 123456)
OLD = datetime(1500, 3, 1, 12)
ID = UUID("0f8fad5b-d9cb-469f-a165-70867728950e")
NULL = "NULL", None
BOOLS = ("true", True), ("false", False)
LARGE = Decimal("-1234567890123456789012345678.0123456789")
ENDLESS = "'infinity'", "'-infinity'"


def case(kind, *rows, name=None, numbers=None, declared=""):
    """Return a case of pairs of an SQL literal and the value it stands for; NULL is the last."""
    literals, values = zip(*rows, NULL, strict=True)
    return Case(name or kind, (kind, literals), values, numbers, declared)


def text(value):
    return f"'{value}'", value


def utc(at):
    return at.replace(tzinfo=timezone.utc)


def whole():
    for name, bits in (("TINYINT", 8), ("SMALLINT", 16), ("INTEGER", 32), ("BIGINT", 64)):
        least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        yield case(name, text(least), text(most))
        yield case(f"U{name}", text(0), text(2**bits - 1))


def times():
    yield case("DATE", text(date(2022, 1, 2)), text(date(1500, 1, 1)))
    old = f"'{OLD}'", OLD
    yield case("TIMESTAMP", text(AT), old)
    yield case("TIMESTAMP_S", text(AT.replace(microsecond=0)), old)
    yield case("TIMESTAMP_MS", text(AT.replace(microsecond=123000)), old)
    yield case("TIMESTAMP_NS", text(AT), text(datetime(1969, 12, 31, 23, 59, 59, 999999)))
    yield case("TIMESTAMPTZ", (f"'{AT}'", utc(AT)), (f"'{OLD}'", utc(OLD)))
    yield case(
        "TIMESTAMPTZ_NS",
        (f"'{AT}'", utc(AT)),
        (f"'{AT.replace(year=1969)}'", utc(AT.replace(year=1969))),
    )


def in_parquet():
    yield case("BOOLEAN", *BOOLS)
    yield from whole()
    # DuckDB itself writes these as DOUBLE.
    large = 2**126, 1
    for name in ("HUGEINT", "UHUGEINT"):
        yield case(
            name,
            *((f"'{value}'", float(value)) for value in large),
            name=f"{name}, which DuckDB writes as DOUBLE",
        )
    yield case("BIGNUM", text(str(10**50)), text("-1"))
    yield case("FLOAT", ("1.5", 1.5), ("'nan'", math.nan))
    yield case("DOUBLE", ("0.1", 0.1), ("'-infinity'", -math.inf))
    for kind in ("DECIMAL(4, 1)", "DECIMAL(9, 2)", "DECIMAL(18, 4)"):
        yield case(kind, ("1.5", Decimal("1.5")), ("-1", Decimal(-1)))
    yield case("DECIMAL(38, 10)", ("1.5", Decimal("1.5")), (str(LARGE), LARGE))
    yield case("VARCHAR", text(""), text("Zürich 東京 😀"))
    yield case("BLOB", ("''", b""), (r"'\x00\xFF'", b"\x00\xff"))
    yield case("BIT", text("101"), text("0"))
    yield case("UUID", text(ID), text(UUID(int=0)))
    yield case("ENUM('a', 'b')", text("a"), text("b"), name="ENUM")
    yield case("JSON", text('{"a": 1}'), text("[]"))
    yield from times()
    yield case("TIME", text(time(3, 4, 5, 123456)), text(time(0)))
    yield case(
        "TIME",
        ("'24:00:00'", "24:00:00"),
        text(time(0)),
        name="TIME of 24:00:00",
        numbers=[86400 * 10**6, 0, None],
    )
    yield case("TIME_NS", text("03:04:05.123456789"), ("'00:00'", time(0)))
    # In the file, it is the time in UTC.
    yield case("TIMETZ", ("'03:04:05.5+02'", time(1, 4, 5, 500000)), ("'00:00:00+00'", time(0)))
    yield case(
        "TIMESTAMP_NS",
        text("2022-01-02 03:04:05.123456789"),
        ("'epoch'", "1970-01-01 00:00:00"),
        name="TIMESTAMP_NS, digits below a microsecond",
        numbers=[1641092645123456789, 0, None],
    )
    for kind, most in (("DATE", 2**31 - 1), ("TIMESTAMP", 2**63 - 1), ("TIMESTAMPTZ", 2**63 - 1)):
        pairs = ((each, each.strip("'")) for each in ENDLESS)
        yield case(kind, *pairs, name=f"{kind}, infinity", numbers=[most, -most, None])
    yield case(
        "INTERVAL",
        ("'14 months 3 days 1.5 seconds'", "14 months 3 days 1.5 seconds"),
        ("'0 days'", timedelta()),
        numbers=[b"\x0e\0\0\0\x03\0\0\0\xdc\x05\0\0", bytes(12), None],
    )
    yield case("BIGINT[]", ("[1, NULL]", [1, None]), ("[]", []))
    yield case("VARCHAR[][]", ("[['a'], NULL]", [["a"], None]), ("[]", []))
    yield case("BIGINT[2]", ("[1, 2]", [1, 2]), ("[3, NULL]", [3, None]))
    yield case(
        "STRUCT(a BIGINT, b TIMESTAMP_NS)",
        (f"{{'a': 1, 'b': '{AT}'}}", {"a": 1, "b": AT}),
        ("{'a': NULL, 'b': NULL}", {"a": None, "b": None}),
        name="STRUCT",
    )
    yield case("MAP(VARCHAR, BIGINT)", ("MAP {'a': 1}", {"a": 1}), ("MAP {}", {}), name="MAP")
    # DuckDB writes the number of the member that is set, and a column of each.
    members = {"element1": 0, "a": 1, "b": None}, {"element1": 1, "a": None, "b": "x"}
    yield case(
        "UNION(a INTEGER, b VARCHAR)",
        ("1", members[0]),
        ("'x'", members[1]),
        name="UNION",
    )
    # Spark shows such a value as JSON.
    yield case("VARIANT", ("1", 1), ("'x'", '"x"'))
    point = "0101000000000000000000F03F0000000000000040"
    yield case(
        "GEOMETRY", ("'POINT(1 2)'", bytes.fromhex(point)), ("'POINT(1 2)'", bytes.fromhex(point))
    )
    yield case('"NULL"', NULL, NULL, name="NULL")


def in_text(form):
    yield case("BOOLEAN", *BOOLS, declared="BOOLEAN")
    yield case("UBIGINT", text(0), text(2**64 - 1), declared="DECIMAL(20, 0)")
    yield case("HUGEINT", text(2**100), text(-1), declared="DECIMAL(38, 0)")
    yield case("DOUBLE", ("0.1", 0.1), ("1e300", 1e300), declared="DOUBLE")
    yield case(
        "DOUBLE",
        ("'inf'", math.inf),
        ("'-inf'", -math.inf),
        name="DOUBLE, infinite",
        declared="DOUBLE",
    )
    yield case("DOUBLE", ("'nan'", math.nan), ("1", 1.0), name="DOUBLE, NaN", declared="DOUBLE")
    yield case(
        "DECIMAL(9, 2)",
        ("1.5", Decimal("1.5")),
        text(Decimal("-1234567.89")),
        declared="DECIMAL(9, 2)",
    )
    yield case(
        "DECIMAL(38, 10)", ("1.5", Decimal("1.5")), (str(LARGE), LARGE), declared="DECIMAL(38, 10)"
    )
    yield case("VARCHAR", text(""), text('a "b",\\n'), declared="STRING")
    yield case(
        "BLOB", ("''", ""), (r"'\x00\xFF'", r"\x00\xFF"), name="BLOB, as text", declared="STRING"
    )
    yield case("UUID", text(ID), text(UUID(int=0)), declared="STRING")
    yield case("DATE", text(date(2022, 1, 2)), text(date(1500, 1, 1)), declared="DATE")
    yield case(
        "DATE",
        *((each, each.strip("'")) for each in ENDLESS),
        name="DATE, infinity",
        declared="DATE",
    )
    yield case("TIME", text(time(3, 4, 5, 123456)), text(time(0)), declared="STRING")
    naive = "TIMESTAMP_NTZ"
    yield case("TIMESTAMP", text(AT), text(OLD), declared=naive)
    yield case(
        "TIMESTAMP_NS",
        text("2022-01-02 03:04:05.123456789"),
        text(OLD.replace(year=1969)),
        declared="STRING",
        name="TIMESTAMP_NS, as text",
    )
    yield case(
        "TIMESTAMP",
        *((each, each.strip("'")) for each in ENDLESS),
        name="TIMESTAMP, infinity",
        declared=naive,
    )
    yield case("TIMESTAMPTZ", (f"'{AT}'", utc(AT)), (f"'{OLD}'", utc(OLD)), declared="TIMESTAMP")
    yield case("INTERVAL", text("1 year 2 months"), text("3 days 00:00:01.5"), declared="STRING")
    if form == "csv":
        yield case(
            "BIGINT[]",
            ("[1, NULL]", "[1, NULL]"),
            ("[]", "[]"),
            name="BIGINT[], as text",
            declared="STRING",
        )
        return
    yield case("JSON", ("'{\"a\": 1}'", '{"a":1}'), text("[]"), declared="STRING")
    yield case("BIGINT[]", ("[1, NULL]", [1, None]), ("[]", []), declared="ARRAY<BIGINT>")
    yield case(
        "STRUCT(a BIGINT, b VARCHAR)",
        ("{'a': 1, 'b': 'x'}", {"a": 1, "b": "x"}),
        ("{'a': NULL, 'b': NULL}", {"a": None, "b": None}),
        name="STRUCT",
        declared="STRUCT<a: BIGINT, b: STRING>",
    )
    yield case(
        "MAP(VARCHAR, BIGINT)",
        ("MAP {'a': 1}", {"a": 1}),
        ("MAP {}", {}),
        name="MAP",
        declared="MAP<STRING, BIGINT>",
    )


def writer(options):
    def write(path, columns):
        rows = []
        for n in range(3):
            values = (f"({of_rows[n]})::{kind}" for kind, of_rows in columns.values())
            rows.append(f"({n}::INTEGER, {', '.join(values)})")
        with duckdb.connect() as base:
            base.execute("SET TimeZone = 'UTC'")
            query = f"SELECT * FROM (VALUES {', '.join(rows)}) AS t(n, {', '.join(columns)})"
            base.execute(f"COPY ({query}) TO '{path}' ({options})")

    return write


def in_version_2():
    """Return cases of types that this version of the format encodes in another way."""
    for each in (
        *whole(),
        case("VARCHAR", text(""), text("Zürich")),
        case("DOUBLE", ("0.1", 0.1), ("1", 1.0)),
        case("TIMESTAMP", text(AT), text(OLD)),
    ):
        each.name += ", PARQUET_VERSION V2"
        yield each


def in_folders():
    for each in (
        case("VARCHAR", text("a b/c=1%"), text("Zürich")),
        case("VARCHAR", text("01234"), text("1.10"), name="VARCHAR of digits"),
        case("BIGINT", text(-1), text(2**60)),
        case("DATE", text(date(2022, 1, 2)), text(date(1500, 1, 1))),
        case("TIMESTAMP", text(AT), text(AT.replace(year=1969))),
    ):
        each.name += ", PARTITION_BY"
        yield each


def partitioned(path, columns):
    writer(f"FORMAT parquet, PARTITION_BY ({', '.join(columns)})")(path, columns)


write_all(
    "DuckDB",
    duckdb.__version__,
    [
        Format("parquet", writer("FORMAT parquet"), list(in_parquet())),
        Format("parquet", writer("FORMAT parquet, PARQUET_VERSION V2"), list(in_version_2())),
        Format("parquet", partitioned, list(in_folders())),
        Format("csv", writer("FORMAT csv, HEADER"), list(in_text("csv")), source={"header": True}),
        Format("json", writer("FORMAT json"), list(in_text("json"))),
    ],
)
