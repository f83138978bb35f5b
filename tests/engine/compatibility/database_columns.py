"""Types of columns that PostgreSQL and MariaDB have, with values in SQL and in Python."""

from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

AT = datetime(2022, 1, 2, 3, 4, 5, 123456)
UTC = AT.replace(tzinfo=timezone.utc)
OLD = datetime(1700, 3, 1, 12)
ID = UUID("0f8fad5b-d9cb-469f-a165-70867728950e")
DIGITS = Decimal("-1234567890123456789012345678.0123456789")
Value = tuple[str, Any]
"""A literal of SQL, and its value."""


def quoted(value: Any) -> Value:
    return f"'{value}'", value


def whole(bits: int) -> tuple[Value, Value]:
    return quoted(-(2 ** (bits - 1))), quoted(2 ** (bits - 1) - 1)


def below(bits: int) -> tuple[Value, Value]:
    return quoted(0), quoted(2**bits - 1)


@dataclass(frozen=True)
class Column:
    """A type of column with up to two values, before NULL."""

    name: str
    declared: str
    values: tuple[Value, ...]


def column(declared: str, *values: Value, name: str = "") -> Column:
    return Column(name or declared, declared, values)


BOOLS = ("true", True), ("false", False)
TEXTS = quoted(""), quoted("Zürich 東京 😀")
CENTS = quoted(Decimal("1.50")), quoted(Decimal("-1234567.89"))
OF_POINT = bytes.fromhex("000000000101000000000000000000f03f0000000000000040")
"""A point's reference system, and its Well-Known Binary."""
DAYS = quoted(date(2022, 1, 2)), quoted(date(1700, 1, 1))
ENDLESS = quoted("infinity"), quoted("-infinity")
OF_POSTGRESQL = [
    column("boolean", *BOOLS),
    column("smallint", *whole(16)),
    column("integer", *whole(32)),
    column("bigint", *whole(64)),
    column("oid", *below(32)),
    column("real", ("1.5", 1.5), ("'infinity'", float("inf"))),
    column("double precision", ("0.1", 0.1), ("'nan'", float("nan"))),
    column("numeric(9, 2)", *CENTS),
    column("numeric(38, 10)", quoted(Decimal("1.5")), quoted(DIGITS)),
    column("numeric", quoted(Decimal("1.5")), quoted(Decimal("0.000000000000000001"))),
    column("numeric", quoted(Decimal("0.0000000000000000001")), name="numeric, 19 decimal places"),
    column("numeric", quoted("NaN"), name="numeric, NaN"),
    column("numeric(50, 2)", quoted(Decimal("1.50")), quoted(Decimal("-0.01"))),
    column("numeric(50, 2)", quoted(Decimal(10**47)), name="numeric(50, 2), 48 digits"),
    column("money", ("1.5", "$1.50")),
    column("text", *TEXTS),
    column("varchar(12)", *TEXTS),
    column("char(3)", ("'a'", "a  "), quoted("abc")),
    column("name", *TEXTS),
    column("bytea", (r"'\x'", b""), (r"'\x00ff'", b"\x00\xff")),
    column("date", *DAYS),
    column("date", *ENDLESS, name="date, infinity"),
    column("time", quoted("03:04:05.123456"), quoted("24:00:00")),
    column("timetz", quoted("03:04:05.123456+02"), quoted("00:00:00+00")),
    column("timestamp", quoted(AT), quoted(OLD)),
    column("timestamp", *ENDLESS, name="timestamp, infinity"),
    column("timestamptz", (f"'{AT}Z'", UTC), (f"'{OLD}Z'", OLD.replace(tzinfo=timezone.utc))),
    column("timestamptz", *ENDLESS, name="timestamptz, infinity"),
    column("interval", quoted("1 year 2 mons 3 days 04:05:06.7"), quoted("-00:00:01")),
    column("uuid", quoted(ID), quoted(UUID(int=0))),
    column("json", quoted('{"a": 1, "a": 2}'), quoted("[]")),
    column("jsonb", quoted('{"a": 1}'), quoted("[]")),
    column("xml", quoted("<a/>"), quoted("<b>x</b>")),
    column("inet", quoted("10.0.0.1/24"), quoted("::1")),
    column("cidr", quoted("10.0.0.0/8")),
    column("macaddr", quoted("08:00:2b:01:02:03")),
    column("bit(4)", quoted("1010")),
    column("bit varying(8)", quoted("101"), quoted("")),
    column("point", quoted("(1,2)")),
    column("tsvector", ("'''a'' ''b'''", "'a' 'b'")),
    column("int4range", quoted("[1,5)"), quoted("empty")),
    column("mood", quoted("glad"), name="enum"),
    column("short", quoted("abc"), name="domain of varchar(3)"),
    column("pair", quoted("(1,x)"), name="composite type"),
    column("integer[]", ("'{1,NULL}'", [1, None]), ("'{}'", [])),
    column("text[]", ("'{a,NULL}'", ["a", None]), ("'{}'", [])),
    column("text[]", quoted("{{a,b},{c,d}}"), name="text[], two dimensions"),
    column("numeric(9, 2)[]", ("'{1.5,NULL}'", [Decimal("1.50"), None]), ("'{}'", [])),
    column("timestamptz[]", (f"'{{{AT}Z}}'", [UTC]), ("'{}'", [])),
    column("uuid[]", (f"'{{{ID}}}'", [ID]), ("'{}'", [])),
    column("money[]", ("'{1.5}'", ["$1.50"])),
]
OF_MARIADB = [
    column("BOOLEAN", *BOOLS),
    column("TINYINT(1)", ("2", 2), name="TINYINT(1), 2"),
    column("TINYINT", *whole(8)),
    column("TINYINT UNSIGNED", *below(8)),
    column("SMALLINT", *whole(16)),
    column("SMALLINT UNSIGNED", *below(16)),
    column("MEDIUMINT", *whole(24)),
    column("INT", *whole(32)),
    column("INT UNSIGNED", *below(32)),
    column("BIGINT", *whole(64)),
    column("BIGINT UNSIGNED", *below(64)),
    column("BIT(1)", ("b'1'", True), ("b'0'", False)),
    column("BIT(8)", ("b'10101010'", 170), ("b'0'", 0)),
    column("FLOAT", ("1.5", 1.5), ("1.2345678", 1.2345677614212036)),
    column("DOUBLE", ("0.1", 0.1), ("1e300", 1e300)),
    column("DECIMAL(9, 2)", *CENTS),
    column("DECIMAL(38, 10)", quoted(Decimal("1.5")), quoted(DIGITS)),
    column("DECIMAL(65, 30)", quoted(Decimal("1.123456789012345678901234567891"))),
    column("DECIMAL(65, 2)", quoted(Decimal(10**59)), name="DECIMAL(65, 2), 60 digits"),
    column("VARCHAR(12)", *TEXTS),
    column("CHAR(5)", quoted("ab"), quoted("abcde")),
    column("TEXT", *TEXTS),
    column("LONGTEXT", *TEXTS),
    column("BINARY(3)", ("'a'", b"a\0\0"), ("X'00FF00'", b"\x00\xff\x00")),
    column("VARBINARY(3)", ("''", b""), ("X'00FF'", b"\x00\xff")),
    column("BLOB", ("''", b""), ("X'00FF'", b"\x00\xff")),
    column("DATE", *DAYS),
    column("DATE", quoted("0000-00-00"), name="DATE, 0000-00-00"),
    column("TIME", quoted("03:04:05"), quoted("-838:59:59")),
    column("TIME(6)", quoted("03:04:05.123456"), quoted("838:59:58.123456")),
    column("DATETIME", quoted(AT.replace(microsecond=0)), quoted(OLD)),
    column("DATETIME(6)", quoted(AT), quoted(OLD)),
    column("DATETIME", quoted("0000-00-00 00:00:00"), name="DATETIME, 0000-00-00"),
    column(
        "TIMESTAMP(6)", (f"'{AT}'", UTC), (f"'{AT.replace(year=1999)}'", UTC.replace(year=1999))
    ),
    column("YEAR", quoted(2022), quoted(1901)),
    column("ENUM('a', 'b')", quoted("a"), quoted("b")),
    column("SET('a', 'b')", quoted("a,b"), quoted("")),
    column("JSON", quoted('{"a": 1}'), quoted("[]")),
    column("UUID", quoted(ID), quoted(UUID(int=0))),
    column("INET6", quoted("::1")),
    column("POINT", ("ST_PointFromText('POINT(1 2)')", OF_POINT), name="POINT, its bytes"),
]
BEFORE_POSTGRESQL = (
    "CREATE TYPE mood AS ENUM ('glad')",
    "CREATE DOMAIN short AS varchar(3)",
    "CREATE TYPE pair AS (a int, b text)",
)
"""Types of one's own, which columns name."""


@dataclass(frozen=True)
class Target:
    """A value of Spark that is written into a column of a declared type."""

    declared: str
    expression: str
    """The value in Spark's SQL."""
    shown: str
    """The text by which the database shows this very value."""

    @property
    def name(self) -> str:
        return f"{self.declared} of {self.expression}"


NOON = "2022-01-02 12:00:00"
INTO_POSTGRESQL = [
    Target("boolean", "true", "true"),
    Target("smallint", "7", "7"),
    Target("integer", "2147483648L", "2147483648"),
    Target("bigint", "7", "7"),
    Target("real", "1.5D", "1.5"),
    Target("real", "0.1D", "0.1 with 53 bits"),
    Target("double precision", "0.1D", "0.1"),
    Target("double precision", "double('NaN')", "NaN"),
    Target("numeric", "1.25", "1.25"),
    Target("numeric(20, 8)", "1.25", "1.25000000"),
    Target("numeric(10, 1)", "1.25", "1.25"),
    Target("numeric(3, 2)", "12.25", "12.25"),
    Target("varchar(5)", "'abcde'", "abcde"),
    Target("varchar(5)", "'abcdef'", "abcdef"),
    Target("varchar(5)", "'abcde '", "abcde "),
    Target("char(3)", "'abc'", "abc"),
    Target("char(3)", "'ab'", "ab"),
    Target("text", "''", ""),
    Target("bytea", "X'00FF'", r"\x00ff"),
    Target("date", "DATE'2022-01-02'", "2022-01-02"),
    Target("date", f"TIMESTAMP_NTZ'{NOON}'", NOON),
    Target("timestamp", f"TIMESTAMP_NTZ'{NOON}'", NOON),
    Target("timestamp", f"TIMESTAMP'{NOON}'", NOON),
    Target("timestamp(0)", f"TIMESTAMP_NTZ'{NOON}.5'", f"{NOON}.5"),
    Target("timestamptz", f"TIMESTAMP'{NOON}'", "2022-01-02 17:00:00+00"),
    Target("timestamptz", f"TIMESTAMP_NTZ'{NOON}'", "2022-01-02 17:00:00+00"),
    Target("time", "'12:00:00.5'", "12:00:00.5"),
    Target("time(0)", "'12:00:00.5'", "12:00:00.5"),
    Target("interval", "'1 day'", "1 day"),
    Target("uuid", f"'{ID}'", str(ID)),
    Target("uuid", "'x'", "x"),
    Target("json", """'{"a": 1}'""", '{"a": 1}'),
    Target("jsonb", """'{"a": 1}'""", '{"a": 1}'),
    Target("inet", "'10.0.0.1'", "10.0.0.1/32"),
    Target("bit(4)", "'1010'", "1010"),
    Target("bit(4)", "'1'", "1"),
    Target("text[]", "'{a,b}'", "{a,b}"),
    Target("mood", "'glad'", "glad"),
    Target("mood", "'sad'", "sad"),
    Target("short", "'abcd'", "abcd"),
]
INTO_MARIADB = [
    Target("TINYINT(1)", "true", "1"),
    Target("SMALLINT", "7", "7"),
    Target("INT", "2147483648L", "2147483648"),
    Target("INT UNSIGNED", "-1", "-1"),
    Target("BIGINT UNSIGNED", "7", "7"),
    Target("FLOAT", "1.5D", "1.5"),
    Target("FLOAT", "0.1D", "0.1 with 53 bits"),
    Target("DOUBLE", "0.1D", "0.1"),
    Target("DOUBLE", "double('NaN')", "NaN"),
    Target("DECIMAL(20, 8)", "1.25", "1.25000000"),
    Target("DECIMAL(10, 1)", "1.25", "1.25"),
    Target("VARCHAR(5)", "'abcde'", "abcde"),
    Target("VARCHAR(5)", "'abcdef'", "abcdef"),
    Target("VARCHAR(5)", "'abcde '", "abcde "),
    Target("CHAR(3)", "'ab'", "ab"),
    Target("CHAR(3)", "'ab '", "ab "),
    Target("TEXT", "''", ""),
    Target("TEXT", "repeat('x', 65536)", "65536 letters"),
    Target("BINARY(3)", "X'414243'", "ABC"),
    Target("BINARY(3)", "X'4142'", "AB"),
    Target("VARBINARY(3)", "X'4142'", "AB"),
    Target("DATE", "DATE'2022-01-02'", "2022-01-02"),
    Target("DATETIME", f"TIMESTAMP_NTZ'{NOON}'", NOON),
    Target("DATETIME", f"TIMESTAMP'{NOON}'", NOON),
    Target("DATETIME", f"TIMESTAMP_NTZ'{NOON}.5'", f"{NOON}.5"),
    Target("DATETIME(6)", f"TIMESTAMP_NTZ'{NOON}.5'", f"{NOON}.500000"),
    Target("TIMESTAMP", f"TIMESTAMP'{NOON}'", "2022-01-02 17:00:00"),
    Target("TIMESTAMP", "TIMESTAMP'2040-01-02 12:00:00'", "2040-01-02 17:00:00"),
    Target("TIME", "'12:00:00'", "12:00:00"),
    Target("TIME", "'12:00:00.5'", "12:00:00.5"),
    Target("YEAR", "'2024'", "2024"),
    Target("YEAR", "'24'", "24"),
    Target("ENUM('10', '20')", "'10'", "10"),
    Target("ENUM('10', '20')", "'1'", "1"),
    Target("SET('a', 'b')", "'a,b'", "a,b"),
    Target("BIT(8)", "'65'", "A"),
    Target("UUID", f"'{ID}'", str(ID)),
    Target("INET6", "'::1'", "::1"),
    Target("JSON", """'{"a": 1}'""", '{"a": 1}'),
]
