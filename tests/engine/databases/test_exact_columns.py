"""No value of a database changes on its way into Spark, or it is an error that names the column."""

from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pyspark.sql.types import StringType, StructField

from logdriven_dagster.engine.databases.exact_values import refuse_undeclared
from logdriven_dagster.engine.sources.readers import Reading, read_source
from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab

Read = Callable[..., list[Any]]


class Table:
    """A table `s` of one column `v`, made by SQL, and what a plain source reads of it."""

    def __init__(self, lab: Lab, url: sa.URL) -> None:
        self._lab, self._url = lab, url
        lab.settings["connections"] = {"db": {"url": url.render_as_string(hide_password=False)}}

    def fill(self, kind: str, *values: str) -> "Table":
        engine = sa.create_engine(self._url, poolclass=sa.NullPool)
        with engine.begin() as conn:
            conn.exec_driver_sql("DROP TABLE IF EXISTS s")
            conn.exec_driver_sql(f"CREATE TABLE s (v {kind})")
            for value in values:
                conn.exec_driver_sql(f"INSERT INTO s VALUES ({value})")
        return self

    def frame(self, **source: Any) -> Any:
        origin = {} if "query" in source else {"table": "s"}
        source = {"type": "jdbc", "connection": "db", **origin, **source}
        self._lab.table("ods.t", {"source": source, "target": {"type": "parquet"}})
        run = self._lab.window_run("ods.t", day(2))
        project = self._lab.project
        (step,) = project.table("ods.t").steps
        assert step.source is not None
        _ = self._lab.engine  # which sets the zone of Java
        return read_source(Reading(project, self._lab.spark, run, lambda: None), step.source)

    def read(self, **source: Any) -> tuple[str, list[Any]]:
        """The type of the column, and its values, times as text."""
        frame = self.frame(**source)
        kind = frame.dtypes[0][1]
        if kind == "timestamp":
            frame = frame.selectExpr("CAST(v AS STRING) AS v")
        return kind, [row[0] for row in frame.collect()]

    def refuses(self, kind: str, value: str) -> None:
        """A window that reads the value fails, and says in which column it is and what to do."""
        self.fill(kind, value).frame()
        with pytest.raises(TerminalStepError, match=r"column v .*customSchema: `v` STRING"):
            self._lab.run("ods.t", day(2))


@pytest.fixture
def lite(lab: Lab, tmp_path: Path) -> Table:
    return Table(lab, sa.make_url(f"sqlite:///{tmp_path}/exact.db"))


@pytest.fixture
def postgres(lab: Lab, postgres_url: sa.URL) -> Table:
    return Table(lab, postgres_url)


@pytest.fixture
def maria(lab: Lab, mariadb_url: sa.URL) -> Table:
    return Table(lab, mariadb_url)


@pytest.mark.parametrize("kind", ["DATETIME", "TIMESTAMP", '"timestamp with time zone"'])
def test_times_of_sqlite_keep_the_values_of_their_texts(lite: Table, kind: str):
    texts = {
        "2022-01-02": "2022-01-02 00:00:00",
        "2022-01-02 03:04": "2022-01-02 03:04:00",
        "2022-01-02T03:04:05.5": "2022-01-02 03:04:05.5",
        "2022-01-02 03:04:05.123456": "2022-01-02 03:04:05.123456",
        "2022-01-02T03:04:05.123456789Z": "2022-01-02 03:04:05.123456",
        "2022-01-02 03:04:05+02": "2022-01-02 01:04:05",
        "2022-01-02 03:04:05 +05:30": "2022-01-01 21:34:05",
        "0001-01-01 00:00:00": "0001-01-01 00:00:00",
        "1582-10-10 00:00:00": "1582-10-10 00:00:00",
        "9999-12-31 23:59:59.999999": "9999-12-31 23:59:59.999999",
    }
    lite.fill(kind, *(f"'{text}'" for text in texts), "NULL")
    assert lite.read() == ("timestamp", [*texts.values(), None])


def test_times_of_sqlite_without_a_zone_are_in_the_projects(lab: Lab, lite: Table):
    lab.settings["timezone"] = "Asia/Tokyo"
    lite.fill("DATETIME", "'2022-01-02'", "'2022-01-02T03:04:05.5'", "'2022-01-02 03:04:05Z'")
    utc = ["2022-01-01 15:00:00", "2022-01-01 18:04:05.5", "2022-01-02 03:04:05"]
    assert lite.read() == ("timestamp", utc)  # to the laboratory's session, which is in UTC


def test_dates_of_sqlite_are_days(lite: Table):
    lite.fill("DATE", "'0001-01-01'", "'9999-12-31'", "'2022-01-02 00:00:00.000'", "NULL")
    assert lite.read() == ("date", [date(1, 1, 1), date(9999, 12, 31), date(2022, 1, 2), None])


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("DATETIME", "1641092645"),  # seconds, milliseconds, days? nobody knows
        ("DATETIME", "2459581.5"),
        ("DATETIME", "'yesterday'"),
        ("DATETIME", "'2022-13-01'"),
        ("DATE", "'2022-01-02 03:00:00'"),
        ("BOOLEAN", "5"),
        ("DECIMAL(10,2)", "1.255"),
    ],
)
def test_what_sqlite_lets_into_a_column_of_another_type_is_refused(
    lite: Table, kind: str, value: str
):
    lite.refuses(kind, value)


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("FLOAT", "123456789.123", ("double", [123456789.123])),
        ("JSON", """'{"a": 1}'""", ("string", ['{"a": 1}'])),
        ("TIME", "'03:04:05.123456'", ("string", ["03:04:05.123456"])),
        ("BIGINT", "9223372036854775807", ("bigint", [2**63 - 1])),
        ("NUMERIC(40,2)", "1.25", ("decimal(38,2)", [Decimal("1.25")])),
        ("DECIMAL(10,2)", "12345678.9", ("decimal(10,2)", [Decimal("12345678.9")])),
        ("BOOLEAN", "'true'", ("boolean", [True])),
        ("TEXT", "'a' || char(0) || 'ü😀'", ("string", ["a\0ü😀"])),
    ],
)
def test_other_columns_of_sqlite_keep_their_values(lite: Table, kind: str, value: str, read: Any):
    assert lite.fill(kind, value).read() == read


def test_a_window_of_sqlite_is_looked_for_in_the_database(lite: Table, capsys):
    texts = [f"'2022-01-{n:02}T23:30:00-01:00'" for n in range(1, 10)]
    lite.fill("DATETIME", *texts)
    frame = lite.frame(window_column="v")  # the second of January, in UTC
    assert [str(row[0]) for row in frame.collect()] == ["2022-01-02 00:30:00"]
    frame.explain()
    assert "2021-12-31" in capsys.readouterr().out.split("PushedFilters")[1]
    lite.fill("DATETIME", "'2022-01-02'", "1641092645")
    with pytest.raises(Exception, match="column v"):
        lite.frame(window_column="v").collect()


@pytest.mark.parametrize(
    ("kind", "values", "read"),
    [
        ("numeric(40,2)", ["1.25", "-0.01"], "decimal(38,2)"),
        ("numeric(65,30)", ["1.123456789012345678901234567891"], "decimal(38,30)"),
        ("numeric", ["1.5", "0.000000000000000001", "12345678901234567890"], "decimal(38,18)"),
        ("numeric(5,-2)", ["12300"], "decimal(38,0)"),
    ],
)
def test_long_decimals_keep_their_fraction(
    postgres: Table, kind: str, values: Sequence[str], read: str
):
    assert postgres.fill(kind, *values).read() == (read, [Decimal(value) for value in values])


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("numeric", "0.1234567890123456789"),
        ("numeric", "1e25"),
        ("numeric", "'NaN'"),
        ("numeric(40,2)", "12345678901234567890123456789012345678.25"),
        ("numeric(50,40)", "1.0000000000000000000000000000000000000001"),
        ("numeric(50,0)", "1e38"),
        ("numeric(50,0)[]", "'{1e38}'"),
    ],
)
def test_decimals_that_spark_cannot_hold_are_refused(postgres: Table, kind: str, value: str):
    postgres.refuses(kind, value)


def test_a_users_custom_schema_wins(postgres: Table):
    postgres.fill("numeric", "0.1234567890123456789")
    read = postgres.read(options={"customSchema": "V STRING"})
    assert read == ("string", ["0.1234567890123456789"])


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("time", "'03:04:05.123456'", "03:04:05.123456"),
        ("timetz", "'03:04:05.123456+02'", "03:04:05.123456+02"),
        ("time[]", "'{03:04:05.123456}'", "{03:04:05.123456}"),
        ("numeric[]", "'{1.5,NULL}'", [Decimal("1.5"), None]),
        ("numeric(50,0)", "99999999999999999999999999999999999999", Decimal("9" * 38)),
        ("bit(3)", "B'101'", "101"),
        ("bit(3)[]", "'{101,NULL}'", ["101", None]),
        ("bit(1)", "B'1'", True),
    ],
)
def test_times_and_arrays_of_postgresql(postgres: Table, kind: str, value: str, read: Any):
    assert postgres.fill(kind, value).read()[1] == [read]


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("decimal(65,30)", "1.123456789012345678901234567891", "1.123456789012345678901234567891"),
        ("decimal(40,2)", "1.25", "1.25"),
        ("time(6)", "'-838:59:58.123456'", "-838:59:58.123456"),
        ("year", "2022", 2022),
        ("bit(8)", "b'10101010'", 170),
        ("float", "16777217", 16777216.0),
        ("float", "1.2345678", 1.2345677614212036),
        ("tinyint(1)", "1", True),
        ("char(5)", "'ab'", "ab"),
        ("bigint unsigned", "18446744073709551615", "18446744073709551615"),
    ],
)
def test_columns_of_mariadb_keep_their_values(maria: Table, kind: str, value: str, read: Any):
    (found,) = maria.fill(kind, value).read()[1]
    assert found == (Decimal(read) if isinstance(found, Decimal) else read)


@pytest.mark.sampled
@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
@pytest.mark.parametrize("kind", ["timestamp", "timestamptz", "date"])
@pytest.mark.parametrize(
    "value", ["'infinity'", "'-infinity'", "'0044-03-15 BC'", "'10001-01-01'", "'1582-10-10'"]
)
def test_times_of_postgresql_that_spark_has_not_are_refused(
    lab: Lab, postgres: Table, kind: str, value: str, zone: str
):
    lab.settings["timezone"] = zone
    if (kind, value, zone) == ("timestamp", "'1582-10-10'", "Asia/Shanghai"):
        assert postgres.fill(kind, value).read()[1] == ["1582-10-09 15:54:17"]
    else:
        postgres.refuses(kind, value)


@pytest.mark.sampled
@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
@pytest.mark.parametrize("kind", ["datetime", "date"])
@pytest.mark.parametrize("value", ["'0000-00-00'", "'2022-01-00'", "'2022-00-10'", "'0000-12-31'"])
def test_zero_dates_of_mariadb_are_refused(
    lab: Lab, maria: Table, kind: str, value: str, zone: str
):
    lab.settings["timezone"] = zone
    maria.refuses(kind, value)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["timestamp[]", "timestamptz[]", "date[]"])
def test_an_array_of_postgresql_that_holds_one_of_them_is_refused(postgres: Table, kind: str):
    postgres.fill(kind, "'{2022-01-02,NULL}'", "'{}'", "NULL")
    assert len(postgres.frame().collect()) == 3
    postgres.refuses(kind, "'{2022-01-02,infinity}'")


def test_an_array_of_instants_before_1900_is_refused_where_spark_moves_them(
    lab: Lab, postgres: Table
):
    lab.settings["timezone"] = "Europe/Berlin"
    postgres.fill("timestamptz[]", "'{1900-02-01 00:00+00}'")
    assert len(postgres.frame().collect()) == 1
    postgres.refuses("timestamptz[]", "'{1800-01-02 00:00+00}'")


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz", "date"])
@pytest.mark.parametrize(
    "fix",
    [
        {"options": {"customSchema": "v STRING"}},
        {"query": "SELECT NULLIF(v, 'infinity') AS v FROM s"},
    ],
)
def test_and_read_as_its_error_advises(postgres: Table, kind: str, fix: Any):
    postgres.fill(kind, "'infinity'")
    assert postgres.read(**fix)[1] == ["infinity" if "options" in fix else None]


@pytest.mark.parametrize("kind", ["datetime", "date"])
@pytest.mark.parametrize(
    "fix", [{"options": {"customSchema": "v STRING"}}, {"query": "SELECT NULLIF(v, 0) AS v FROM s"}]
)
def test_so_are_zero_dates(maria: Table, kind: str, fix: Any):
    maria.fill(kind, "'0000-00-00'")
    (found,) = maria.read(**fix)[1]
    assert found is None if "query" in fix else found.startswith("0000-00-00")


def test_the_error_of_such_a_time_is_one_sentence(lab: Lab, postgres: Table):
    postgres.fill("date", "'infinity'").frame()
    with pytest.raises(TerminalStepError, match=r"^column v \(DATE\) holds a time .* in query\n"):
        lab.run("ods.t", day(2))


def test_the_last_and_the_first_times_that_spark_has_are_read(postgres: Table):
    instants = ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"]
    postgres.fill("timestamp", *(f"'{text}'" for text in instants), "NULL")
    assert postgres.read() == ("timestamp", [*instants, None])


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz", "date"])
def test_a_query_still_filters_times_in_the_database(postgres: Table, capsys, kind: str):
    postgres.fill(kind, "'2022-01-01'", "'2022-01-02'")
    frame = postgres.frame().where("v >= '2022-01-02'")
    assert frame.count() == 1
    frame.explain()
    pushed = capsys.readouterr().out.split("PushedFilters")[1]
    assert "GreaterThanOrEqual(v," in pushed


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("text[]", "'{{a,b},{c,d}}'"),
        ("text[][]", "'{a,b}'"),
        ("int[]", "'{{1,2},{3,4}}'"),
        ("numeric(20,2)", "'NaN'"),
        ("numeric(20,2)[]", "'{NaN}'"),
        ("numeric[]", "'{NaN}'"),
    ],
)
def test_what_ends_sparks_job_or_arrives_as_a_java_object_is_refused(
    postgres: Table, kind: str, value: str
):
    postgres.refuses(kind, value)
    assert postgres.read(options={"customSchema": "v STRING"})[1] == [value.strip("'")]


def test_a_time_in_an_array_of_arrays_is_refused(postgres: Table):
    postgres.refuses("timestamp[]", "'{{2022-01-02}}'")


def test_arrays_of_the_declared_depth_and_empty_ones_are_read(postgres: Table):
    postgres.fill("text[][]", "'{{a,b},{c,d}}'", "'{}'", "NULL")
    assert postgres.read()[1] == [[["a", "b"], ["c", "d"]], [], None]


def test_a_query_may_end_with_a_comment_or_a_semicolon(postgres: Table):
    postgres.fill("int", "5")
    assert postgres.read(query="SELECT v FROM s; ")[1] == [5]
    assert postgres.read(query="SELECT v FROM s -- all of it")[1] == [5]


@pytest.mark.parametrize("origin", [{}, {"query": "SELECT 1 AS one, v FROM s"}])
def test_a_column_of_a_type_that_spark_lacks_is_named(postgres: Table, origin: dict[str, str]):
    postgres.fill("money[]", "'{1.5}'")
    with pytest.raises(TerminalStepError, match=r"^column v: Spark cannot read the type money\[\]"):
        postgres.frame(**origin)
    assert postgres.read(query="SELECT CAST(v AS TEXT) AS v FROM s")[1] == ["{$1.50}"]
    postgres.fill("numeric(5,-2)[]", "'{12300}'")
    with pytest.raises(TerminalStepError, match=r"^column v: Spark cannot read .* numeric\[\]"):
        postgres.frame(**origin)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("date", "'2026-00-10'", "2026-00-10"),
        ("bit(8)", "b'10101010'", "170"),
        ("bit(64)", "18446744073709551615", "18446744073709551615"),
        ("year", "2022", "2022"),
        ("float", "16777217", "16777216"),
        ("tinyint(1) unsigned", "255", "255"),
    ],
)
def test_read_as_text_a_value_of_mariadb_is_what_it_is(
    maria: Table, kind: str, value: str, text: str
):
    maria.fill(kind, value)
    assert maria.read(options={"customSchema": "v STRING"}) == ("string", [text])


def test_a_number_of_more_digits_than_sparks_decimals_is_refused_with_its_column(maria: Table):
    maria.fill("decimal(65,0)", "99999999999999999999999999999999999999")
    assert maria.read()[1] == [Decimal("9" * 38)]
    maria.refuses("decimal(65,0)", "100000000000000000000000000000000000000")


@pytest.mark.parametrize("kind", ["tinyint(1)", "tinyint(1) unsigned"])
def test_a_number_is_no_boolean(maria: Table, kind: str):
    maria.refuses(kind, "2" if kind == "tinyint(1)" else "255")


def test_nor_are_64_bits_a_negative_one(maria: Table):
    maria.refuses("bit(64)", "18446744073709551615")


EXTREMES = {
    "boolean": ("true", "false"),
    "int": ("2147483647", "-2147483648"),
    "bigint": ("9223372036854775807L", "-9223372036854775807L - 1L"),
    "double": ("1.7976931348623157E308D", "5E-324D", "0.1D + 0.2D"),
    "float": ("float('1.5')", "float('-0.25')"),
    "string": ("''", "' ünï '", r"'a\\b''c\n'"),
    "binary": ("X''", "X'00ff'"),
    "date": ("DATE'0001-01-01'", "DATE'9999-12-31'", "DATE'1500-03-01'"),
    "timestamp": (
        "TIMESTAMP'1000-01-01 00:00:00'",
        "TIMESTAMP'9999-12-31 23:59:59.999999'",
        "TIMESTAMP'2022-01-02 03:04:05.123456'",
        "TIMESTAMP'2022-01-02 03:04:05.120000'",
    ),
    "decimal": ("CAST('12345.67' AS DECIMAL(10, 2))", "CAST('-0.01' AS DECIMAL(10, 2))"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("kind", EXTREMES)
def test_what_a_target_wrote_is_what_sources_and_readers_see(
    lab: Lab, database_url: sa.URL, kind: str
):
    made = Table(lab, database_url)
    query = " UNION ALL ".join(f"SELECT {n} AS n, {v} AS v" for n, v in enumerate(EXTREMES[kind]))
    target = {"type": "jdbc", "connection": "db", "table": "s"}
    lab.table("ods.w", {"sql": query, "target": target})
    lab.run("ods.w", day(1))
    as_text = ["n", "CAST(v AS STRING)" if kind == "timestamp" else "v"]
    wanted = [tuple(row) for row in lab.spark.sql(query).selectExpr(*as_text).collect()]
    for frame in (made.frame(), lab.engine.read("ods.w", None)):
        found = frame.orderBy("n").selectExpr(*as_text).collect()
        assert [tuple(row) for row in found] == wanted


@pytest.mark.parametrize(
    "value", ["CAST('12345678901234567890.12' AS DECIMAL(38, 2))", "double('NaN')"]
)
def test_a_number_that_sqlite_would_change_is_not_written(lab: Lab, value: str):
    target = {"type": "jdbc", "connection": "lite", "table": "s"}
    lab.table("ods.w", {"sql": f"SELECT {value} AS v", "target": target})
    with pytest.raises(TerminalStepError, match=r"column v: SQLite cannot store this"):
        lab.run("ods.w", day(1))


def test_a_spark_that_hides_what_the_database_has_is_refused():
    known = StructField("a", StringType(), metadata={"jdbcClientType": "text"})
    refuse_undeclared([known])
    with pytest.raises(TerminalStepError, match=r"database types of b, .* Spark 4\.1"):
        refuse_undeclared([known, StructField("b", StringType())])


def test_a_name_with_a_backtick_is_read_from_and_written_to_mariadb(
    lab: Lab, maria: Table, mariadb_url: sa.URL
):
    with sa.create_engine(mariadb_url, poolclass=sa.NullPool).begin() as conn:
        conn.exec_driver_sql("CREATE TABLE s (`a``b` INT)")
        conn.exec_driver_sql("INSERT INTO s VALUES (1)")
    assert [row.asDict() for row in maria.frame().collect()] == [{"a`b": 1}]
    target = {"type": "jdbc", "connection": "db", "table": "w", "mode": "append"}
    lab.table("ods.w", {"sql": "SELECT 2 AS `a``b`", "target": target})
    lab.run("ods.w", day(2))
    assert lab.rows("ods.w") == [(2,)]
