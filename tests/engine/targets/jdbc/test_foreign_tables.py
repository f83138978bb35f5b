"""Tables that other people made: rows are in them as they were staged, or nothing is written.

The rows are staged without Spark, as its writers leave them, and published by the target's code.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from pyspark.sql import types as spark

from logdriven_dagster.config.models.types.jdbc import JdbcTarget
from logdriven_dagster.engine.databases.declarations import (
    collations_of,
    refuse_without_transactions,
)
from logdriven_dagster.engine.databases.tables import define, reflect_table, schema_for, split_name
from logdriven_dagster.engine.queries.common_types import MisfitError, common_type
from logdriven_dagster.engine.targets.jdbc.commit_markers import publishing_transaction
from logdriven_dagster.engine.targets.jdbc.copying import copy_in
from logdriven_dagster.engine.targets.jdbc.growth import grow_table
from logdriven_dagster.engine.targets.jdbc.publishing import move_rows
from logdriven_dagster.engine.targets.jdbc.upsert import refuse_bad_keys
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.runs import Merged, WindowRun
from tests.builders import day
from tests.servers import database_of

TEXT, BYTES, FLAG = spark.StringType(), spark.BinaryType(), spark.BooleanType()
INT, LONG, DOUBLE = spark.IntegerType(), spark.LongType(), spark.DoubleType()
DAY, INSTANT, WALL = spark.DateType(), spark.TimestampType(), spark.TimestampNTZType()
START, STAGING = "_window_start", "t__staging_1_abcdef"
MIDNIGHT = datetime(2022, 1, 1)
LATE = datetime(2022, 1, 1, 23, 59, 59, 900_000)
REFUSED = "column v .*Nothing was written"


def cents(places: int = 2) -> spark.DecimalType:
    return spark.DecimalType(10, places)


class Shop:
    """A database with a table `t` that others made, and windows that are written into it."""

    def __init__(self, url: sa.URL) -> None:
        self.engine = sa.create_engine(url, poolclass=sa.NullPool)
        self.backend = self.engine.dialect.name

    def run(self, *statements: str) -> None:
        with self.engine.begin() as conn:
            for statement in statements:
                conn.exec_driver_sql(statement)

    def rows(self, query: str = "SELECT v FROM t") -> list[Any]:
        with self.engine.connect() as conn:
            rows = [tuple(row) for row in conn.exec_driver_sql(query)]
        return [row[0] if len(row) == 1 else row for row in rows]

    def clear(self) -> None:
        """Drop all tables and views."""
        views = sa.inspect(self.engine).get_view_names()
        self.run(*(f"DROP VIEW {name}" for name in views))
        tables = sa.MetaData()
        tables.reflect(self.engine)
        tables.drop_all(self.engine)

    def publish(
        self,
        rows: Sequence[Mapping[str, Any]],
        kinds: Mapping[str, spark.DataType],
        window: int = 1,
        **config: Any,
    ) -> Merged | None:
        """Stage the rows of a day of January 2022 and publish them."""
        target = JdbcTarget.model_validate(
            {"type": "jdbc", "connection": "db", "table": "t", "mode": "append"} | config
        )
        start = {} if target.window_column else {START: f"2022-01-0{window}T00:00:00Z"}
        kinds = {**kinds, **dict.fromkeys(start, TEXT)}
        schema = spark.StructType([spark.StructField(*each) for each in kinds.items()])
        with self.engine.begin() as conn:
            named = sa.Table("t", sa.MetaData())
            collations = collations_of(conn, named)
            staging = define(STAGING, None, schema, self.backend, target.key, collations)
            staging.drop(conn, checkfirst=True)
            staging.create(conn)
            if rows:
                conn.execute(staging.insert(), [{**row, **start} for row in rows])
        with self.engine.connect() as conn:
            known = reflect_table("t", None, conn)
            if target.key:
                refuse_bad_keys(conn, staging, target, known)
        assert known is not None
        run = WindowRun(table="ods.t", window=day(window), job_id=1, fencing_token=1)
        with publishing_transaction(self.engine, timedelta(minutes=1)) as conn:
            return move_rows(conn, staging, known, run, target)

    def publish_values(self, declared: str, kind: spark.DataType, *values: Any) -> list[Any]:
        """Publish a table of one column `v`, made by this declaration; what it holds then."""
        self.run(f"CREATE TABLE t (v {declared}, {START} VARCHAR(32))")
        self.publish([{"v": value} for value in values], {"v": kind})
        return self.rows()


@contextmanager
def shop_of(kind: str, request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Shop]:
    with database_of(kind, request, tmp_path) as url:
        yield Shop(url)


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def shop(request, tmp_path) -> Iterator[Shop]:
    """A shop in each kind of database."""
    with shop_of(request.param, request, tmp_path) as made:
        yield made


@pytest.fixture(params=["postgresql", "mariadb"])
def server_shop(request, tmp_path) -> Iterator[Shop]:
    with shop_of(request.param, request, tmp_path) as made:
        yield made


@pytest.fixture
def pg(server_urls, request, tmp_path) -> Iterator[Shop]:
    with shop_of("postgresql", request, tmp_path) as made:
        yield made


@pytest.fixture
def maria(server_urls, request, tmp_path) -> Iterator[Shop]:
    with shop_of("mariadb", request, tmp_path) as made:
        made.run("ALTER DATABASE CHARACTER SET utf8mb4")
        yield made


A_UUID = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
ODD_IN_POSTGRESQL: list[tuple[str, spark.DataType, Any, Any]] = [
    ("varchar(5)", TEXT, "ab ", "ab "),
    ("varchar(3)", TEXT, "éé€", "éé€"),
    ("varchar", TEXT, "ab ", "ab "),
    ("char(3)", TEXT, "NLD", "NLD"),
    ("numeric", cents(), Decimal("1.25"), Decimal("1.25")),
    ("numeric(20,8)", cents(8), Decimal("1.25"), Decimal("1.25")),
    ("real", DOUBLE, 1.5, 1.5),
    ("smallint", INT, 5, 5),
    ("timestamp(0)", WALL, MIDNIGHT, MIDNIGHT),
    ("uuid", TEXT, A_UUID.upper(), A_UUID),
    ("jsonb", TEXT, '{"a":1}', '{"a": 1}'),
    ("json", TEXT, '{"a":1}', '{"a":1}'),
    ("inet", TEXT, "10.0.0.1", "10.0.0.1/32"),
    ("cidr", TEXT, "10.0.0.0/8", "10.0.0.0/8"),
    ("time", TEXT, "12:30", "12:30:00"),
    ("interval", TEXT, "2 hours", "02:00:00"),
    ("bit(4)", TEXT, "1010", "1010"),
    ("varbit", TEXT, "101", "101"),
    ("text[]", TEXT, "{a, b}", "{a,b}"),
    ("int[]", TEXT, "{{1,2},{3,4}}", "{{1,2},{3,4}}"),
    ("numeric(4,2)[]", TEXT, "{1.25}", "{1.25}"),
    ("mood", TEXT, "glad", "glad"),
    ("short", TEXT, "abc", "abc"),
    ("tenths", cents(1), Decimal("1.5"), Decimal("1.5")),
    ("money", TEXT, "$1.20", "$1.20"),
    ("xml", TEXT, "<a>1</a>", "<a>1</a>"),
    ("int4range", TEXT, "[1,5)", "[1,5)"),
    ("point", TEXT, "(1,2)", "(1,2)"),
    ("bytea", BYTES, b"a\0", b"a\0"),
    ("oid", LONG, 5, 5),
    ("timestamptz", DAY, MIDNIGHT.date(), "2022-01-01 00:00:00+00"),
    ("bigint GENERATED BY DEFAULT AS IDENTITY", LONG, 0, 0),
]
"""Declaration, the type in Spark, a value, and what the column's text is then."""
REFUSED_BY_POSTGRESQL: list[tuple[str, spark.DataType, Any]] = [
    ("varchar(3)", TEXT, "abc "),
    ("varchar(3)", TEXT, "abcd"),
    ("varchar(3)", TEXT, "éé€ "),
    ("char(3)", TEXT, "NL"),
    ("real", DOUBLE, 0.1),
    ("float(10)", DOUBLE, 0.1),
    ("numeric(10,1)", cents(), Decimal("1.25")),
    ("timestamp(0)", WALL, LATE),
    ("timestamptz(3)", INSTANT, LATE.replace(microsecond=1, tzinfo=timezone.utc)),
    ("uuid", TEXT, "none"),
    ("time", TEXT, "12:00:00.1234567"),
    ("time", TEXT, "2022-01-01 12:00"),
    ("time(0)", TEXT, "12:00:00.5"),
    ("interval", TEXT, "0.1234567 seconds"),
    ("interval(0)", TEXT, "0.5 seconds"),
    ("bit(4)", TEXT, "1"),
    ("numeric(4,2)[]", TEXT, "{1.255}"),
    ("mood", TEXT, "sad"),
    ("short", TEXT, "abcd"),
    ("tenths", cents(), Decimal("1.25")),
    ("money", TEXT, "1.234"),
    ("name", TEXT, "x" * 64),
    ('"char"', TEXT, "ab"),
    ("tsvector", TEXT, "b a a"),
]
ODD_IN_MARIADB: list[tuple[str, spark.DataType, Any, Any]] = [
    ("TEXT", TEXT, "x" * 65_535, "x" * 65_535),
    ("TEXT", TEXT, "é" * 20_000, "é" * 20_000),
    ("TINYTEXT", TEXT, "é ", "é "),
    ("TINYTEXT", TEXT, "é" * 127, "é" * 127),
    ("VARCHAR(3)", TEXT, "ab ", "ab "),
    ("VARCHAR(3)", TEXT, "éé€", "éé€"),
    ("VARCHAR(3) CHARACTER SET latin1", TEXT, "éé ", "éé "),
    ("CHAR(3)", TEXT, "ab", "ab"),
    ("BINARY(3)", BYTES, b"abc", b"abc"),
    ("VARBINARY(3)", BYTES, b"a\0", b"a\0"),
    ("DATETIME", WALL, MIDNIGHT, MIDNIGHT),
    ("TIMESTAMP NOT NULL", INSTANT, MIDNIGHT, MIDNIGHT),
    ("TIME", TEXT, "12:00:00", timedelta(hours=12)),
    ("YEAR", TEXT, "2024", 2024),
    ("ENUM('10','20')", TEXT, "10", "10"),
    ("ENUM('5','6')", INT, 5, "5"),
    ("SET('a','b')", TEXT, "a,b", "a,b"),
    ("SET('2','4')", LONG, 2, "2"),
    ("DATETIME", DAY, MIDNIGHT.date(), MIDNIGHT),
    ("BIT(8)", TEXT, "5", b"\x05"),
    ("FLOAT", DOUBLE, 1.5, 1.5),
    ("DOUBLE(5,2)", DOUBLE, 1.5, 1.5),
    ("INT AUTO_INCREMENT PRIMARY KEY", INT, 5, 5),
    ("BIGINT UNSIGNED", LONG, 5, 5),
    ("DECIMAL(65,30)", cents(), Decimal("1.25"), Decimal("1.25")),
    ("UUID", TEXT, A_UUID, A_UUID),
    ("INET6", TEXT, "::1", "::1"),
    ("JSON", TEXT, '{"a":1}', '{"a":1}'),
]
REFUSED_BY_MARIADB: list[tuple[str, spark.DataType, Any]] = [
    ("TEXT", TEXT, "x" * 70_000),
    ("TEXT", TEXT, "x" * 65_536),
    ("TINYTEXT", TEXT, "x" * 256),
    ("TINYTEXT", TEXT, "é" * 128),
    ("BLOB", BYTES, b"x" * 70_000),
    ("VARCHAR(3)", TEXT, "abc "),
    ("VARCHAR(3)", TEXT, "éé€ "),
    ("VARCHAR(3) CHARACTER SET latin1", TEXT, "ééé "),
    ("CHAR(3)", TEXT, "ab "),
    ("BINARY(3)", BYTES, b"ab"),
    ("DATETIME", WALL, LATE),
    ("TIMESTAMP", INSTANT, LATE),
    ("TIMESTAMP NOT NULL", INSTANT, None),
    ("TIME", TEXT, "12:00:00.5"),
    ("YEAR", TEXT, "24"),
    ("ENUM('10','20')", TEXT, "1"),
    ("ENUM('5','6')", INT, 1),
    ("ENUM('5','6')", DOUBLE, 1.0),
    ("SET('a','b')", TEXT, "3"),
    ("SET('2','4')", LONG, 3),
    ("BIT(8)", TEXT, "x"),
    ("FLOAT", DOUBLE, 0.1),
    ("DOUBLE(5,2)", DOUBLE, 1.255),
    ("DECIMAL(10,1)", cents(), Decimal("1.25")),
    ("INT AUTO_INCREMENT PRIMARY KEY", INT, 0),
]


@pytest.mark.filterwarnings("ignore:Did not recognize type")
def test_a_column_of_any_type_of_postgresql_holds_what_it_was_given(pg: Shop):
    pg.run(*TYPES_OF_POSTGRESQL)
    for declared, kind, value, shown in ODD_IN_POSTGRESQL:
        pg.publish_values(declared, kind, value, None if "IDENTITY" not in declared else 7)
        found = pg.rows("SELECT v::text FROM t WHERE v IS NOT NULL")
        if not isinstance(shown, str):
            found = pg.rows("SELECT v FROM t WHERE v IS NOT NULL")
        assert found[0] == shown, declared
        pg.run("DROP TABLE t")


def test_a_value_that_postgresql_would_change_is_refused_by_name(pg: Shop):
    pg.run(*TYPES_OF_POSTGRESQL)
    for declared, kind, value in REFUSED_BY_POSTGRESQL:
        with pytest.raises(TerminalStepError, match=REFUSED):
            pytest.fail(f"{declared}: {pg.publish_values(declared, kind, None, value)}")
        assert pg.rows() == []
        pg.run("DROP TABLE t")


@pytest.mark.filterwarnings("ignore:Did not recognize type")
def test_a_column_of_any_type_of_mariadb_holds_what_it_was_given(maria: Shop):
    for declared, kind, value, found in ODD_IN_MARIADB:
        assert maria.publish_values(declared, kind, value) == [found], declared
        maria.run("DROP TABLE t")


def test_a_value_that_mariadb_would_change_is_refused_by_name(maria: Shop):
    for declared, kind, value in REFUSED_BY_MARIADB:
        with pytest.raises(TerminalStepError, match=REFUSED):
            pytest.fail(f"{declared}: {maria.publish_values(declared, kind, value)}")
        assert maria.rows() == []
        maria.run("DROP TABLE t")


def test_sqlite_refuses_a_value_that_an_affinity_changes(tmp_path):
    shop = Shop(sa.make_url(f"sqlite:///{tmp_path}/shop.db"))
    assert shop.publish_values("UUID", TEXT, "a-1") == ["a-1"]
    for declared, kind, value in (("UUID", TEXT, "010"), ("INTEGER PRIMARY KEY", LONG, None)):
        shop.run("DROP TABLE t")
        with pytest.raises(TerminalStepError, match=REFUSED):
            shop.publish_values(declared, kind, value)
        assert shop.rows() == []


TYPES_OF_POSTGRESQL = (
    "CREATE TYPE mood AS ENUM ('glad')",
    "CREATE DOMAIN short AS varchar(3)",
    "CREATE DOMAIN tenths AS numeric(10,1)",
)
BEFORE = [{"id": 1, "v": "old"}, {"id": 2, "v": "old"}]
KINDS = {"id": INT, "v": TEXT}


@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_window", "upsert"])
def test_a_refused_window_leaves_every_row_as_it_was(server_shop: Shop, mode: str):
    key = {"key": ["id"]} if mode == "upsert" else {}
    server_shop.run(f"CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(5), {START} VARCHAR(32))")
    server_shop.publish(BEFORE, KINDS, mode=mode, **key)
    rows = [{"id": 2, "v": "new"}, {"id": 3, "v": "new     "}]
    with pytest.raises(TerminalStepError, match=r"column v .*'new     '"):
        server_shop.publish(rows, KINDS, mode=mode, **key)
    assert server_shop.rows("SELECT id, v FROM t ORDER BY id") == [(1, "old"), (2, "old")]


@pytest.mark.parametrize("mode", ["append", "overwrite_window", "upsert"])
def test_texts_that_fit_their_column_are_proven_without_a_scan_of_the_target(
    server_shop: Shop, mode: str
):
    key = {"key": ["id"]} if mode == "upsert" else {}
    server_shop.run(f"CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(5), {START} VARCHAR(32))")
    ran: list[str] = []
    sa.event.listen(
        server_shop.engine, "before_cursor_execute", lambda *given: ran.append(given[2])
    )
    server_shop.publish([{"id": 1, "v": None}, {"id": 2, "v": "five "}], KINDS, mode=mode, **key)
    assert ran
    assert not [statement for statement in ran if "published" in statement]


@pytest.mark.parametrize(("declared", "backend"), [("timestamp(0)", "pg"), ("DATETIME", "maria")])
def test_a_window_column_of_less_precision_moves_no_row(
    server_urls, request, declared: str, backend: str
):
    shop: Shop = request.getfixturevalue(backend)
    shop.run(f"CREATE TABLE t (v {declared})")
    config = {"mode": "overwrite_window", "window_column": "v"}
    with pytest.raises(TerminalStepError, match=REFUSED):
        shop.publish([{"v": LATE}], {"v": WALL}, **config)
    shop.publish([{"v": MIDNIGHT}], {"v": WALL}, **config)
    assert shop.rows() == [MIDNIGHT]


FUNCTION = "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS "
AFTER_ALL = """CREATE CONSTRAINT TRIGGER g AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION f()"""
HIDING = {
    "a trigger that drops rows": [
        FUNCTION + "'BEGIN RETURN NULL; END'",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
    ],
    "a trigger that changes them": [
        FUNCTION + "'BEGIN NEW.v := upper(NEW.v); RETURN NEW; END'",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
    ],
    "a trigger that changes texts which fit": [
        "ALTER TABLE t ALTER v TYPE varchar(9)",
        FUNCTION + "'BEGIN NEW.v := upper(NEW.v); RETURN NEW; END'",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
    ],
    "a deferred trigger": [
        FUNCTION + "'BEGIN UPDATE t SET v = upper(v); RETURN NULL; END'",
        AFTER_ALL,
    ],
    "a rule": ["CREATE RULE g AS ON INSERT TO t DO INSTEAD NOTHING"],
    "a view": ["ALTER TABLE t RENAME TO b", "CREATE VIEW t AS SELECT * FROM b WHERE id < 0"],
}


@pytest.mark.parametrize("mode", ["append", "overwrite", "upsert"])
@pytest.mark.parametrize("statements", HIDING.values(), ids=HIDING)
def test_rows_that_are_not_there_are_not_counted_as_written(
    pg: Shop, statements: list[str], mode: str
):
    pg.run(f"CREATE TABLE t (id INT, v TEXT, {START} VARCHAR(32))", *statements)
    key = {"key": ["id"]} if mode == "upsert" else {}
    with pytest.raises(TerminalStepError, match=r"t: .*Nothing was written"):
        pg.publish(BEFORE, KINDS, mode=mode, **key)
    assert pg.rows("SELECT count(*) FROM t") == [0]


def test_a_trigger_that_adds_hours_to_a_day_is_found(pg: Shop):
    pg.run(
        f"CREATE TABLE t (v timestamp, {START} VARCHAR(32))",
        FUNCTION + "'BEGIN NEW.v := NEW.v + interval ''1 hour''; RETURN NEW; END'",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
    )
    with pytest.raises(TerminalStepError, match=REFUSED):
        pg.publish([{"v": MIDNIGHT.date()}], {"v": DAY})
    assert pg.rows() == []


def test_rows_that_a_trigger_puts_elsewhere_are_there_if_readers_see_them(pg: Shop):
    pg.run(
        f"CREATE TABLE t (id INT, v TEXT, {START} VARCHAR(32))",
        "CREATE TABLE part () INHERITS (t)",
        FUNCTION + "'BEGIN INSERT INTO part SELECT NEW.*; RETURN NULL; END'",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
    )
    pg.publish(BEFORE, KINDS)
    assert pg.rows("SELECT count(*) FROM part") == [2]


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.v = UPPER(NEW.v)"],
        [
            "ALTER TABLE t MODIFY v VARCHAR(9)",
            "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.v = UPPER(NEW.v)",
        ],
        ["RENAME TABLE t TO b", "CREATE VIEW t AS SELECT * FROM b WHERE id < 0"],
    ],
    ids=["trigger", "trigger on texts which fit", "view"],
)
def test_triggers_and_views_of_mariadb_change_and_hide_nothing(maria: Shop, statements):
    maria.run(f"CREATE TABLE t (id INT, v LONGTEXT, {START} VARCHAR(32))", *statements)
    with pytest.raises(TerminalStepError, match=r"t: .*Nothing was written"):
        maria.publish(BEFORE, KINDS)
    assert maria.rows("SELECT count(*) FROM t") == [0]


def test_triggers_of_mariadb_are_found_where_the_user_may_not_see_them(maria: Shop):
    maria.run(
        f"CREATE TABLE t (id INT, v LONGTEXT, {START} VARCHAR(32))",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.v = UPPER(NEW.v)",
        "CREATE OR REPLACE USER clerk IDENTIFIED BY 'x'",
        f"GRANT ALL ON {maria.engine.url.database}.* TO clerk",
        f"REVOKE TRIGGER ON {maria.engine.url.database}.* FROM clerk",
    )
    clerk = Shop(maria.engine.url.set(username="clerk", password="x"))
    with pytest.raises(TerminalStepError, match=REFUSED):
        clerk.publish(BEFORE, KINDS)
    maria.run("DROP USER clerk")


def test_null_is_refused_by_name_where_a_column_is_not_null(maria: Shop):
    for declared, kind in (("INT NOT NULL", INT), ("VARCHAR(9) NOT NULL", TEXT)):
        with pytest.raises(TerminalStepError, match=r"Column 'v' cannot be null.*COALESCE"):
            maria.publish_values(declared, kind, None)
        assert maria.rows() == []
        maria.run("DROP TABLE t")


CONSTRAINTS = {
    "postgresql": [
        ("CREATE TABLE t (v int CHECK (v > 0), {s})", "t_v_check", "change the constraint"),
        ("CREATE TABLE t (v int PRIMARY KEY, {s}); INSERT INTO t VALUES (0)", "(v)=(0)", "upsert"),
        ("CREATE TABLE t (v int REFERENCES p, {s})", "Key (v)=(0) is not present", "referenced"),
        (
            "CREATE TABLE t (v int REFERENCES p DEFERRABLE INITIALLY DEFERRED, {s})",
            "Key (v)=(0) is not present",
            "referenced",
        ),
        (
            (
                "CREATE TABLE t (v int PRIMARY KEY, {s}); CREATE TABLE c (v int REFERENCES t);"
                "INSERT INTO t VALUES (1, '2022-01-01T00:00:00Z'); INSERT INTO c VALUES (1)"
            ),
            "still referenced",
            "mode: upsert",
        ),
        ("CREATE TABLE t (v int, w int NOT NULL, {s})", 'null value in column "w"', "default"),
        (
            "CREATE TABLE t (v int, {s}) PARTITION BY LIST (v)",
            "(v) = (0)",
            "create a partition",
        ),
        ("CREATE TABLE t (v int GENERATED ALWAYS AS IDENTITY, {s})", '"v"', "leave the column out"),
        (
            "CREATE DOMAIN d AS int CHECK (VALUE > 0); CREATE TABLE t (v d, {s})",
            "d_check",
            "filter",
        ),
        (
            (
                "CREATE TABLE b (v int, {s});"
                "CREATE VIEW t AS SELECT * FROM b WHERE v > 0 WITH CHECK OPTION"
            ),
            'check option for view "t"',
            "filter",
        ),
        (
            "CREATE TABLE b (v int, {s}); CREATE VIEW t AS SELECT DISTINCT * FROM b",
            'view "t"',
            "table behind the view",
        ),
    ],
    "mysql": [
        ("CREATE TABLE t (v int CHECK (v > 0), {s})", "`t.v` failed", "change the constraint"),
        ("CREATE TABLE t (v int PRIMARY KEY, {s}); INSERT INTO t VALUES (0, '')", "'0'", "upsert"),
        ("CREATE TABLE t (v int, {s}, FOREIGN KEY (v) REFERENCES p (id))", "(`v`)", "referenced"),
        (
            (
                "CREATE TABLE t (v int PRIMARY KEY, {s});"
                "CREATE TABLE c (v int, FOREIGN KEY (v) REFERENCES t (v));"
                "INSERT INTO t VALUES (1, '2022-01-01T00:00:00Z'); INSERT INTO c VALUES (1)"
            ),
            "(`v`)",
            "mode: upsert",
        ),
        ("CREATE TABLE t (v int, w int NOT NULL, {s})", "Field 'w'", "default"),
        (
            "CREATE TABLE t (v int, {s}) PARTITION BY LIST (v) (PARTITION p1 VALUES IN (2))",
            "no partition for value 0",
            "create a partition",
        ),
        ("CREATE TABLE t (v int AS (1) STORED, {s})", "'v'", "leave the column out"),
        (
            (
                "CREATE TABLE b (v int, {s});"
                "CREATE VIEW t AS SELECT * FROM b WHERE v > 0 WITH CHECK OPTION"
            ),
            "CHECK OPTION failed",
            "filter",
        ),
        (
            (
                "CREATE TABLE t (v int, {s}); CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW "
                "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no zero'"
            ),
            "no zero",
            "change the trigger",
        ),
        ("CREATE TABLE t (v tinyint, {s})", "'v'", "change the column"),
    ],
    "sqlite": [
        ("CREATE TABLE t (v int CHECK (v > 0), {s})", "v > 0", "change the constraint"),
        ("CREATE TABLE t (v int, w int NOT NULL, {s})", "t.w", "default"),
        ("CREATE TABLE t (v int PRIMARY KEY, {s}); INSERT INTO t VALUES (0, '')", "t.v", "upsert"),
    ],
}
"""Statements, the problem in the message, and the fix."""


def test_rows_that_a_constraint_rejects_are_reported_with_a_fix(shop: Shop):
    for statements, problem, fix in CONSTRAINTS[shop.backend]:
        made = statements.format(s=f"{START} VARCHAR(32)").split(";")
        shop.run("CREATE TABLE p (id int PRIMARY KEY)", *made)
        rows = [{"v": 1000 if "tinyint" in statements else 0}]
        with pytest.raises(TerminalStepError) as error:
            shop.publish(rows, {"v": INT}, mode="overwrite_window")
        sentence, _, advice = str(error.value).partition(". Nothing was written; ")
        assert sentence.startswith("t: "), statements
        assert problem in sentence, statements
        assert fix in advice, statements
        shop.clear()


def test_a_key_that_its_type_rejects_is_reported_with_its_column(pg: Shop):
    pg.run(f"CREATE TABLE t (v uuid PRIMARY KEY, {START} VARCHAR(32))")
    with pytest.raises(TerminalStepError, match=r"t: column v \(uuid\): invalid input.*Nothing"):
        pg.publish([{"v": "none"}], {"v": TEXT}, mode="upsert", key=["v"])


@pytest.mark.parametrize("engine", ["MyISAM", "Aria", "MEMORY", "CSV"])
def test_a_table_whose_engine_has_no_transactions_is_refused(maria: Shop, engine: str):
    maria.run(f"CREATE TABLE t (v INT NOT NULL) ENGINE={engine}", "CREATE TABLE fine (v INT)")
    with maria.engine.connect() as conn:
        refuse_without_transactions(conn, None, "fine")
        with pytest.raises(TerminalStepError, match=f"t: the engine {engine} has no transactions"):
            refuse_without_transactions(conn, None, "t")


def test_so_is_a_view_of_such_a_table(maria: Shop):
    maria.run(
        "CREATE TABLE `od``d` (v INT) ENGINE=MyISAM",
        "CREATE VIEW inner_view AS SELECT v AS w FROM `od``d` AS o",
        "CREATE VIEW t AS SELECT w AS v FROM inner_view WHERE w > 0",
        "CREATE TABLE fine (v INT)",
        "CREATE VIEW good AS SELECT v FROM fine",
    )
    with maria.engine.connect() as conn:
        refuse_without_transactions(conn, None, "good")
        with pytest.raises(TerminalStepError, match="od`d: the engine MyISAM has no transactions"):
            refuse_without_transactions(conn, None, "t")


def test_tables_of_ours_have_transactions_with_any_default_engine(maria: Shop):
    schema = spark.StructType([spark.StructField("v", INT)])
    made = define("t", None, schema, maria.backend, ())
    with maria.engine.begin() as conn:
        conn.exec_driver_sql("SET default_storage_engine = MyISAM")
        made.create(conn)
        refuse_without_transactions(conn, None, "t")


def test_keys_of_an_upsert_are_compared_as_the_target_compares_them(maria: Shop):
    """Whatever the collation of the database is, by which tables of ours would compare them."""
    rows, config = [{"id": "a", "v": "1"}, {"id": "A", "v": "2"}], {"mode": "upsert", "key": ["id"]}
    kinds = {"id": TEXT, "v": TEXT}
    start = f"v TEXT, {START} VARCHAR(32)"
    for collation in ("utf8mb4_bin", "utf8mb4_german2_ci"):
        maria.run(f"CREATE TABLE t (id VARCHAR(9) COLLATE {collation} PRIMARY KEY, {start})")
        if collation == "utf8mb4_bin":
            assert maria.publish(rows, kinds, **config) == Merged(inserted=2, updated=0)
        else:
            with pytest.raises(TerminalStepError, match="2 rows have one key"):
                maria.publish(rows, kinds, **config)
        maria.publish(rows[:1], kinds, **config)
        assert maria.publish([{"id": "a", "v": "3"}], kinds, **config) == Merged(0, 1)
        maria.run("DROP TABLE t")


def test_keys_of_types_of_postgresql_find_their_rows(pg: Shop):
    pg.run(f"CREATE TABLE t (id uuid PRIMARY KEY, v TEXT, {START} VARCHAR(32))")
    kinds, config = {"id": TEXT, "v": TEXT}, {"mode": "upsert", "key": ["id"]}
    rows = [{"id": A_UUID, "v": "1"}]
    assert pg.publish(rows, kinds, **config) == Merged(inserted=1, updated=0)
    again = [{"id": A_UUID.upper(), "v": "2"}]
    assert pg.publish(again, kinds, **config) == Merged(inserted=0, updated=1)
    with pytest.raises(TerminalStepError, match="2 rows have one key"):
        pg.publish(rows + again, kinds, **config)
    assert pg.rows() == ["2"]


def test_a_name_with_a_dot_is_quoted():
    assert split_name('shop."daily.sales"') == ("shop", "daily.sales")
    assert split_name("`daily.sales`") == (None, "daily.sales")
    assert split_name("shop.sales") == ("shop", "sales")
    assert split_name("sales") == (None, "sales")


def test_names_with_percent_signs_are_copied_added_and_published(pg: Shop, tmp_path):
    percent = [spark.StructField(name, INT) for name in ("rate%", "new%: x")]
    schema = spark.StructType([*percent, spark.StructField(START, TEXT)])
    staging, wanted = (define(name, None, schema, pg.backend, ()) for name in (STAGING, "daily.t%"))
    with pg.engine.begin() as conn:
        conn.execute(sa.text(f'CREATE TABLE "daily.t%" ("rate%" smallint, {START} varchar(32))'))
        staging.create(conn)
    file = tmp_path / "rows.parquet"
    row = {"rate%": 1, "new%: x": 2, START: "2022-01-01T00:00:00Z"}
    parquet.write_table(pa.Table.from_pylist([row]), file)
    target = grow_table(pg.engine, wanted, ())
    config = JdbcTarget(type="jdbc", connection="db", table='"daily.t%"', mode="append")
    run = WindowRun(table="ods.t", window=day(1), job_id=1, fencing_token=1)
    storage: Any = SimpleNamespace(open=pa.OSFile)
    with pg.engine.begin() as conn:
        assert copy_in(conn, staging, [str(file)], storage) == 1
        move_rows(conn, staging, target, run, config)
        rows = conn.execute(sa.text('SELECT * FROM "daily.t%"')).all()
    assert [(row[0], row[2]) for row in rows] == [(1, 2)]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("precision", "scale", "taken"),
    [(None, None, (10, 2)), (65, 30, (10, 2)), (20, 8, (20, 8)), (65, 1, (38, 1))],
)
def test_a_decimal_without_spark_limits_takes_decimals_as_they_are(precision, scale, taken):
    table = sa.Table("t", sa.MetaData(), sa.Column("v", sa.Numeric(precision, scale)))
    given = spark.StructType([spark.StructField("v", cents())])
    (field,) = schema_for(table, "postgresql", given).fields
    assert field.dataType == spark.DecimalType(*taken)


@pytest.mark.parametrize(
    ("old", "taken"), [((20, 8), (20, 8)), ((10, 8), None), ((10, 1), None), ((12, 2), (12, 2))]
)
def test_a_decimal_column_takes_narrower_ones_of_fewer_places(
    old: tuple[int, int], taken: tuple[int, int] | None
):
    column = spark.StructField("v", spark.DecimalType(*old))
    if taken is None:
        with pytest.raises(MisfitError):
            common_type(column, cents(), lost="allow")
    else:
        assert common_type(column, cents(), lost="allow") == spark.DecimalType(*taken)


EXAMPLES = int(os.environ.get("LOGDRIVEN_EXAMPLES", "6"))
NUMBERS = st.sampled_from([0.1, 1.5, 16_777_217.0]) | st.floats(-1000, 1000)
NUMBERS |= st.floats(-1000, 1000, width=32)
WHOLE_FLOAT = {"real": "v::float8", "FLOAT": "v + 0E0"}
"""How to read all digits of a short float, of which databases print some."""
CENTS = st.integers(-99_999, 99_999).map(lambda n: Decimal(n).scaleb(-2))
TIMES = st.datetimes(datetime(2022, 1, 1), datetime(2022, 1, 1, 23, 59, 59, 999_999))
TEXTS = st.text(st.characters(exclude_characters="\0", max_codepoint=255), max_size=6)
RANDOM: dict[str, list[tuple[str, spark.DataType, st.SearchStrategy[Any]]]] = {
    "postgresql": [
        *((kind, DOUBLE, NUMBERS) for kind in ("real", "double precision")),
        *((kind, cents(), CENTS) for kind in ("numeric", "numeric(10,1)", "numeric(4,2)")),
        *((f"timestamp({n})", WALL, TIMES) for n in (0, 3, 6)),
        *((kind, TEXT, TEXTS) for kind in ("varchar(3)", "char(3)", "text", "name")),
        ("smallint", INT, st.integers(-(2**17), 2**17)),
        ("bytea", BYTES, st.binary(max_size=9)),
    ],
    "mariadb": [
        *((kind, DOUBLE, NUMBERS) for kind in ("FLOAT", "DOUBLE", "DOUBLE(9,2)")),
        *((kind, cents(), CENTS) for kind in ("DECIMAL(20,8)", "DECIMAL(10,1)", "DECIMAL(4,2)")),
        *((f"DATETIME({n})", WALL, TIMES) for n in (0, 3, 6)),
        *((kind, TEXT, TEXTS) for kind in ("VARCHAR(3)", "CHAR(3)", "TINYTEXT")),
        *((f"{kind}('0','2','4','10')", INT, st.integers(-1, 11)) for kind in ("ENUM", "SET")),
        ("SMALLINT UNSIGNED", INT, st.integers(-(2**17), 2**17)),
        *((kind, BYTES, st.binary(max_size=5)) for kind in ("BINARY(3)", "VARBINARY(3)")),
    ],
}


@settings(
    max_examples=EXAMPLES,
    database=None,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_random_values_are_there_as_they_were_written_or_refused_by_name(server_shop: Shop, data):
    kind = "mariadb" if server_shop.backend == "mysql" else "postgresql"
    declared, spark_type, values = data.draw(st.sampled_from(RANDOM[kind]))
    mode = data.draw(st.sampled_from(["append", "overwrite", "overwrite_window", "upsert"]))
    given_values = data.draw(st.lists(st.none() | values, min_size=1, max_size=3))
    rows = [{"id": n, "v": value} for n, value in enumerate(given_values)]
    key = {"key": ["id"]} if mode == "upsert" else {}
    server_shop.run("DROP TABLE IF EXISTS t")
    server_shop.run(f"CREATE TABLE t (id INT, v {declared}, {START} VARCHAR(32))")
    expected, problem = given_values, "column v"
    try:
        server_shop.publish(rows, {"id": INT, "v": spark_type}, mode=mode, **key)
    except (TerminalStepError, sa.exc.DBAPIError) as error:
        expected, problem = [], str(error)
    assert re.search(r"column (\S+[.]`)?'?v\b", problem), (declared, problem)
    if declared.startswith(("ENUM", "SET")):  # a number is the label with its digits
        expected = [value if value is None else str(value) for value in expected]
    read = WHOLE_FLOAT.get(declared, "v")
    assert server_shop.rows(f"SELECT {read} FROM t ORDER BY id") == expected, declared
