"""Targets in SQLite, PostgreSQL and MariaDB: one suite over all three."""

import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from logdriven_dagster.engine.targets.jdbc.table import JdbcTable
from logdriven_dagster.errors import TerminalStepError, TransientStepError
from logdriven_dagster.model.runs import Merged
from tests.builders import day
from tests.engine.laboratory import Lab, held
from tests.spark_session import MODE

SECRET = "correct-horse"
TARGET = {"type": "jdbc", "connection": "db", "table": "t"}
QUERY = "SELECT int(day(:data_range_start)) AS day, v FROM VALUES (1), (2) AS t(v)"


@pytest.fixture
def db_lab(lab: Lab, database_url: sa.URL, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv("LAB_PASSWORD", database_url.password or "")
    url = database_url.render_as_string(hide_password=False)
    if database_url.password:
        url = url.replace(f":{database_url.password}@", ":${env:LAB_PASSWORD}@")
    lab.settings["connections"] = {"db": {"url": url}}
    return lab


@pytest.fixture
def query(db_lab: Lab) -> Callable[[str], list[Any]]:
    def run(sql: str) -> list[Any]:
        engine = sa.create_engine(db_lab.project.connection("db").url, poolclass=sa.NullPool)
        with engine.begin() as conn:
            result = conn.execute(sa.text(sql))
            return [tuple(row) for row in result] if result.returns_rows else []

    return run


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["append", "overwrite_window"])
def test_windows_add_up_and_repeating_one_leaves_the_same_rows(db_lab: Lab, query, mode: str):
    db_lab.table("ods.t", {"sql": QUERY, "target": {**TARGET, "mode": mode}})
    for window in (day(1), day(2), day(1)):
        counts = db_lab.run("ods.t", window).counts
        assert (counts.target, counts.success, counts.failure) == (2, 2, 0)
    assert db_lab.rows("ods.t") == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert db_lab.rows("ods.t", day(2)) == [(2, 1), (2, 2)]
    assert query("SELECT DISTINCT _window_start FROM t ORDER BY 1") == [
        ("2022-01-01T00:00:00Z",),
        ("2022-01-02T00:00:00Z",),
    ]


@pytest.mark.sampled
def test_upserts_keep_the_rows_of_newer_windows(db_lab: Lab):
    target = {**TARGET, "mode": "upsert", "key": ["id"]}
    for n, values in (
        (2, "('a', 'new')"),
        (1, "('a', 'old'), ('b', 'old')"),
        (3, "('b', 'newest')"),
    ):
        db_lab.table(
            "ods.t", {"sql": f"SELECT * FROM VALUES {values} AS t(id, v)", "target": target}
        )
        db_lab.run("ods.t", day(n))
    assert db_lab.rows("ods.t") == [("a", "new"), ("b", "newest")]


@pytest.mark.sampled
@pytest.mark.parametrize("column", ["", ", _window_start VARCHAR(32)"], ids=["without", "empty"])
def test_an_upsert_updates_rows_that_were_there_before(db_lab: Lab, query, column: str):
    query(f"CREATE TABLE t (id INTEGER PRIMARY KEY, v VARCHAR(20), note VARCHAR(20){column})")
    query("INSERT INTO t (id, v, note) VALUES (1, 'old', 'kept'), (2, 'old', 'kept')")
    query("CREATE TABLE details (id INTEGER REFERENCES t (id) ON DELETE CASCADE)")
    query("INSERT INTO details VALUES (1)")
    db_lab.table(
        "ods.t",
        {
            "sql": "SELECT * FROM VALUES (1, 'new'), (3, 'new') AS t(id, v)",
            "target": {**TARGET, "mode": "upsert", "key": ["id"]},
        },
    )
    done = db_lab.run("ods.t", day(1)).published[0].merged
    rows = [(1, "new", "kept"), (2, "old", "kept"), (3, "new", None)]
    assert (done, db_lab.rows("ods.t")) == (Merged(inserted=1, updated=1), rows)
    assert query("SELECT * FROM details") == [(1,)]


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["upsert", "overwrite"])
def test_windows_published_at_once_see_each_others_rows(db_lab: Lab, mode: str):
    target = {**TARGET, "mode": mode} | ({"key": ["id"]} if mode == "upsert" else {})
    sql = "SELECT 1 AS id, '${DATA_RANGE_START}' AS v"
    db_lab.table("ods.t", {"sql": sql, "target": target})
    db_lab.run("ods.t", day(1))  # the table is there
    step = db_lab.project.table("ods.t").steps[0]
    with db_lab.session("ods.t", day(2)) as older, db_lab.session("ods.t", day(3)) as newer:
        older.stage(step)
        newer.stage(step)
        other = threading.Thread(target=newer.publish, args=("step_1", held))

        def publish_the_other() -> None:
            if other.ident is None:
                other.start()
                other.join(0.5)
                assert other.is_alive()

        older.publish("step_1", publish_the_other)
        other.join()
    assert db_lab.rows("ods.t") == [(1, "2022-01-03 00:00:00")]


@pytest.mark.sampled
def test_every_plain_type_comes_back_as_it_was(db_lab: Lab):
    sql = (
        "SELECT true AS bool, 3 AS i, 5000000000 AS l, float(1.5) AS f, 2.5D AS d, "
        "CAST(1.25 AS DECIMAL(10, 2)) AS n, 'it''s “x”' AS t, DATE'2022-01-02' AS day, "
        "TIMESTAMP'2022-01-02 03:04:05.123' AS at, CAST(NULL AS STRING) AS nothing, X'00ff' AS bin"
    )
    db_lab.table("ods.t", {"sql": sql, "target": TARGET})
    db_lab.run("ods.t", day(1))
    assert db_lab.rows("ods.t") == [tuple(db_lab.spark.sql(sql).first())]


TRICKY = [r"\.", "a\n\\.\nb", "", '"', "a,b", "\\N", "\t\r\n", "'", None]
"""What means something in CSV or to COPY."""


@pytest.mark.sampled
@pytest.mark.parametrize("columns", ["v", "v, 1 AS n"], ids=["alone", "beside another"])
def test_texts_come_back_as_they_were(db_lab: Lab, columns: str):
    texts = ["NULL" if t is None else f"decode(X'{t.encode().hex()}', 'UTF-8')" for t in TRICKY]
    rows = " UNION ALL ".join(f"SELECT CAST({text} AS STRING) AS v" for text in texts)
    db_lab.table("ods.t", {"sql": f"SELECT {columns} FROM ({rows})", "target": TARGET})
    db_lab.run("ods.t", day(1))
    found = [row[0] for row in db_lab.rows("ods.t")]
    assert sorted(map(repr, found)) == sorted(map(repr, TRICKY))


def test_numbers_come_back_from_postgresql_to_the_last_digit(lab: Lab, postgres_url: sa.URL):
    url = postgres_url.render_as_string(hide_password=False)
    lab.settings["connections"] = {"db": {"url": url}}
    sql = (
        "SELECT float(0.1) AS f, 0.1D + 0.2D AS d, 1.0E-300D AS small, double('NaN') AS none, "
        "-double('Infinity') AS least, CAST('-1E-37' AS DECIMAL(38, 37)) AS tiny"
    )
    lab.table("ods.t", {"sql": sql, "target": TARGET})
    lab.run("ods.t", day(1))
    ((*found,), (*expected,)) = lab.rows("ods.t")[0], lab.spark.sql(sql).first()
    assert list(map(repr, found)) == list(map(repr, expected))


def test_postgresql_refuses_days_that_it_cannot_read(lab: Lab, postgres_url: sa.URL):
    url = postgres_url.render_as_string(hide_password=False)
    lab.settings["connections"] = {"db": {"url": url}}
    lab.table("ods.t", {"sql": "SELECT DATE'-0043-03-15' AS day", "target": TARGET})
    with pytest.raises(TerminalStepError, match=r"t: column day: .*-0043-03-15") as caught:
        lab.run("ods.t", day(1))
    assert "column day" in str(caught.value)


def test_an_option_of_the_target_is_one_of_spark(lab: Lab, postgres_url: sa.URL):
    """Who gives one wants Spark's own writer, also where rows are copied otherwise."""
    url = postgres_url.render_as_string(hide_password=False)
    lab.settings["connections"] = {"db": {"url": url}}
    lab.table("ods.t", {"sql": QUERY, "target": {**TARGET, "options": {"batchsize": 1}}})
    lab.run("ods.t", day(1))
    assert lab.rows("ods.t") == [(1, 1), (1, 2)]


@pytest.mark.sampled
@pytest.mark.skipif(MODE == "connect", reason="a server's JVM is in the time zone of its project")
def test_instants_survive_another_time_zone(db_lab: Lab):
    db_lab.settings["timezone"] = "Asia/Tokyo"
    db_lab.table(
        "ods.t",
        {
            "sql": "SELECT :data_range_start AS at, string(:data_range_start) AS text",
            "target": {**TARGET, "window_column": "at"},
        },
    )
    window = db_lab.project.table("ods.t").grid.window(3)
    db_lab.run("ods.t", window)
    db_lab.run("ods.t", window)
    assert [text for _, text in db_lab.rows("ods.t", window)] == ["2022-01-04 00:00:00"]
    ((at, _),) = db_lab.rows("ods.t")
    assert at.timestamp() == window.start.timestamp()


@pytest.mark.sampled
def test_added_columns_alter_the_table(db_lab: Lab):
    db_lab.table("ods.t", {"sql": "SELECT 1 AS a", "target": TARGET})
    db_lab.run("ods.t", day(1))
    db_lab.table("ods.t", {"sql": "SELECT 2 AS a, 'x' AS `order by`", "target": TARGET})
    db_lab.run("ods.t", day(2))
    assert db_lab.rows("ods.t") == [(1, None), (2, "x")]


@pytest.mark.sampled
def test_a_table_that_the_user_made_is_used_as_it_is(db_lab: Lab, query):
    query("CREATE TABLE t (v VARCHAR(20) NOT NULL, day INTEGER, _window_start VARCHAR(32))")
    db_lab.table("ods.t", {"sql": "SELECT 1 AS day, 'x' AS v", "target": TARGET})
    db_lab.run("ods.t", day(1))
    assert query("SELECT v, day FROM t") == [("x", 1)]


def test_mariadb_changes_no_row_and_loses_none(lab: Lab, mariadb_url: sa.URL):
    url = mariadb_url.render_as_string(hide_password=False)
    lab.settings["connections"] = {"db": {"url": url}}
    engine = sa.create_engine(mariadb_url, poolclass=sa.NullPool)
    values = {"TEXT": "repeat('x', 70000)", "ENUM('10', '20')": "'1'"}
    with engine.begin() as conn:
        conn.exec_driver_sql("CREATE TABLE myisam (v INT, CHECK (v < 9)) ENGINE=MyISAM")
        for n, kind in enumerate(values):
            conn.exec_driver_sql(f"CREATE TABLE t{n} (v {kind}, _window_start VARCHAR(32))")
    lab.table("ods.t", {"sql": "SELECT 9 AS v", "target": {**TARGET, "table": "myisam"}})
    with pytest.raises(TerminalStepError, match="engine MyISAM has no transactions"):
        lab.run("ods.t", day(1))
    for n, value in enumerate(values.values()):
        target = {**TARGET, "table": f"t{n}"}
        lab.table("ods.t", {"sql": f"SELECT {value} AS v", "target": target})
        with pytest.raises(TerminalStepError, match=f"t{n}: column v .*Nothing was written"):
            lab.run("ods.t", day(1))
        assert lab.rows("ods.t") == []


@pytest.mark.sampled
def test_statements_before_the_rows_belong_to_the_transaction(db_lab: Lab, query):
    db_lab.table("ods.t", {"sql": QUERY, "target": TARGET})
    db_lab.run("ods.t", day(1))
    before = ["DELETE FROM t WHERE v = ${bad}", "INSERT INTO nowhere VALUES (1)"]
    db_lab.table(
        "ods.t", {"sql": QUERY, "target": {**TARGET, "pre_sql": before}}, variables={"bad": 2}
    )
    with pytest.raises(TerminalStepError, match="nowhere"):
        db_lab.run("ods.t", day(2))
    assert db_lab.rows("ods.t") == [(1, 1), (1, 2)]
    db_lab.table(
        "ods.t", {"sql": QUERY, "target": {**TARGET, "pre_sql": before[:1]}}, variables={"bad": 2}
    )
    db_lab.run("ods.t", day(2))
    assert db_lab.rows("ods.t") == [(1, 1), (2, 1), (2, 2)]


@pytest.mark.sampled
def test_a_commit_leaves_its_marker_and_no_staging_table(db_lab: Lab, query):
    db_lab.table("ods.t", {"sql": QUERY, "target": TARGET})
    db_lab.run("ods.t", day(1), job_id=41)
    db_lab.run("ods.t", day(1), job_id=42)
    columns = "target_table, data_range_start, data_range_end, table_name, job_id, row_count"
    assert query(f"SELECT {columns} FROM logdriven_commit") == [
        ("t", "20220101000000", "20220102000000", "ods.t", 42, 2)
    ]
    engine = sa.create_engine(db_lab.project.connection("db").url)
    assert sorted(sa.inspect(engine).get_table_names()) == ["logdriven_commit", "t"]
    engine.dispose()


@pytest.mark.sampled
def test_a_runner_that_dies_after_the_commit_does_no_harm(db_lab: Lab, monkeypatch):
    db_lab.table("ods.t", {"sql": QUERY, "target": {**TARGET, "mode": "append"}})
    with db_lab.session("ods.t", day(1)) as session:
        session.stage(db_lab.project.table("ods.t").steps[0])
        keeper, staged = session._staged["step_1"]
        with monkeypatch.context() as patch:
            patch.setattr(sa.Table, "drop", lambda *_, **__: None)  # dead before the clean-up
            keeper.publish(staged, held)
        keeper.publish(staged, held)
    assert isinstance(keeper, JdbcTable)
    assert db_lab.rows("ods.t") == [(1, 1), (1, 2)]


@pytest.mark.sampled
def test_a_source_in_a_database_is_filtered_there_and_counted(db_lab: Lab, query):
    query("CREATE TABLE s (id BIGINT, at TIMESTAMP NULL)")
    for n in (1, 2, 3):
        query(f"INSERT INTO s VALUES ({n}000000000, '2022-01-0{n} 05:00:00.000')")
    source = {"type": "jdbc", "connection": "db", "table": "s", "window_column": "at"}
    db_lab.table("ods.t", {"source": source, "target": {"type": "parquet"}})
    ran = db_lab.run("ods.t", day(2))
    assert (ran.counts.source, ran.counts.target) == (1, 1)
    assert [row[0] for row in db_lab.rows("ods.t")] == [2_000_000_000]


def test_a_value_that_cannot_be_staged_is_reported_with_table_column_and_fix(
    lab: Lab, mariadb_url: sa.URL
):
    lab.settings["connections"] = {"db": {"url": mariadb_url.render_as_string()}}
    with sa.create_engine(mariadb_url, poolclass=sa.NullPool).begin() as conn:
        conn.exec_driver_sql(
            "CREATE TABLE t (at TIMESTAMP NULL, v VARCHAR(9) CHARACTER SET latin1,"
            " w DATETIME, _window_start VARCHAR(32))"
        )
    cases = {
        "TIMESTAMP'2040-01-01 00:00:00' AS at": r"t: .*'2040-01-01 00:00:00' for column `at`\. ",
        "'日' AS v": r"t: Incorrect string value.* for column `v`\. ",
        "TIMESTAMP_NTZ'0000-12-31 00:00:00' AS w": "column w: 0000-12-31 .* years 1 to 9999",
    }
    for query, problem in cases.items():
        lab.table("ods.t", {"sql": f"SELECT {query}", "target": {**TARGET, "mode": "append"}})
        with pytest.raises(TerminalStepError, match=problem) as error:
            lab.run("ods.t", day(1))
        assert " w" in query or "convert the value in the step's SQL" in str(error.value)


def test_the_password_shows_nowhere(lab: Lab, monkeypatch, capfd):
    monkeypatch.setenv("LAB_PASSWORD", SECRET)
    url = "postgresql://u:${env:LAB_PASSWORD}@127.0.0.1:1/x"
    lab.settings["connections"] = {"db": {"url": url}}
    source = {"type": "jdbc", "connection": "db", "table": "s"}
    for step in (
        {"source": source, "target": {"type": "parquet"}},
        {"sql": QUERY, "target": TARGET},
    ):
        lab.table("ods.t", step)
        with pytest.raises(TransientStepError) as caught:
            lab.run("ods.t", day(1))
        text = "".join(traceback.format_exception(caught.value))
        assert SECRET not in text
    assert SECRET not in "".join(capfd.readouterr())


def test_the_iceberg_catalog_may_live_in_a_database(lab: Lab, postgres_url: sa.URL, monkeypatch):
    monkeypatch.setenv("LAB_PASSWORD", postgres_url.password or "")
    url = postgres_url.render_as_string(hide_password=False)
    lab.settings["catalog"] = url.replace(f":{postgres_url.password}@", ":${env:LAB_PASSWORD}@")
    lab.table("ods.t", {"sql": QUERY, "target": {"type": "iceberg"}})
    for window in (day(1), day(2), day(1)):
        lab.run("ods.t", window)
    assert lab.rows("ods.t") == [(1, 1), (1, 2), (2, 1), (2, 2)]
