"""Data stay data: no value of a row reaches the environment, other files, or becomes SQL."""

import pytest
from sqlalchemy import create_engine, text

from logdriven_dagster.engine.queries.data_values import into_database, into_path, into_spark
from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab

TARGET = {"type": "iceberg"}
DAY = day(1)


def looping(lab: Lab, value: str, **step):
    """A step that runs for one row, whose `f` is this value."""
    lab.file("rows.txt", value)
    rows = {"type": "text", "path": "rows.txt", "columns": "f STRING"}
    lab.table("ods.t", {"source": rows}, {"loop_over": "step_1", "target": TARGET, **step})
    return lab.run("ods.t", DAY)


def csv(path: str):
    return {"type": "csv", "path": path, "columns": "line STRING"}


@pytest.fixture
def planted(monkeypatch):
    monkeypatch.setenv("PLANTED", "planted-value-9")
    return "planted-value-9"


def test_a_reference_in_data_is_not_resolved_in_a_path(lab: Lab, planted):
    with pytest.raises(TerminalStepError, match="not a plain path") as caught:
        looping(lab, "${env:PLANTED}", source=csv("data/${row_f}.csv"))
    assert planted not in str(caught.value)


@pytest.mark.sampled
@pytest.mark.parametrize("sql", ["SELECT '${row_f}' AS t", "SELECT :row_f AS t"])
def test_a_reference_in_data_is_not_resolved_in_a_query(lab: Lab, planted, sql):
    looping(lab, "${env:PLANTED}", sql=sql)
    assert lab.rows("ods.t") == [("${env:PLANTED}",)]


def test_a_name_in_data_is_no_variable(lab: Lab):
    lab.settings["variables"] = {"data": "in"}
    looping(lab, "${data}", sql="SELECT '${row_f}' AS t")
    assert lab.rows("ods.t") == [("${data}",)]


def test_what_the_configuration_names_is_resolved_in_queries_and_paths(lab: Lab, planted):
    lab.file(f"{planted}/x.csv", "line\n")
    lab.table(
        "ods.t",
        {"source": csv("${env:PLANTED}/x.csv")},
        {"sql": "SELECT line, '${env:PLANTED}' AS told FROM step_1", "target": TARGET},
    )
    lab.run("ods.t", DAY)
    assert lab.rows("ods.t") == [("line", planted)]


@pytest.mark.parametrize(
    "value", ["../../../../../etc/passwd", "/../etc/passwd", "*", "{a,b}", "file:///etc/passwd"]
)
def test_data_cannot_leave_the_folder_of_a_path(value):
    with pytest.raises(TerminalStepError, match=r"\$\{row_f\} is .* exclude such rows"):
        into_path("/project/data/${row_f}", {"row_f": value})


def test_parts_of_data_cannot_leave_the_folder_together():
    with pytest.raises(TerminalStepError, match="leads out of /p/"):
        into_path("/p/${row_a}${row_a}/x", {"row_a": "."})


def test_a_row_is_no_server_and_no_bucket():
    with pytest.raises(TerminalStepError, match="must not begin with a value of data"):
        into_path("s3://${row_f}/x", {"row_f": "elsewhere"})


def test_paths_below_the_folder_are_as_good_as_before():
    assert into_path("/p/${row_f}.csv", {"row_f": "eu/paris 1"}) == "/p/eu/paris 1.csv"
    assert into_path("s3://bucket/in/${row_n}", {"row_n": 7}) == "s3://bucket/in/7"


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("SELECT '${row_f}'", "x' OR true OR '"),
        ("SELECT '${row_f}'", "x\\"),
        ("SELECT 'it''s ${row_f}'", "x' OR true OR '"),
        ("SELECT r'\\' AS a, ${row_f}", "x OR true"),
        ("SELECT ${row_f}", "x OR true"),
        ("SELECT * FROM csv.`${row_f}`", "/etc/passwd"),
        ("SELECT '\\' ${row_f} '", "'"),
    ],
)
def test_data_do_not_become_sql_of_spark(sql, value):
    with pytest.raises(TerminalStepError, match="write :row_f"):
        into_spark(sql, {"row_f": value})


def test_words_numbers_and_quoted_texts_stand_in_queries():
    sql = "SELECT '${row_t} OR 1', ${row_n}, `a_${row_w}` FROM shop.${row_w} -- ${row_t}"
    data = {"row_t": "a, b", "row_n": -1.5, "row_w": "eu"}
    made = "SELECT 'a, b OR 1', -1.5, `a_eu` FROM shop.eu -- ${row_t}"
    assert into_spark(sql, data) == made
    assert into_database(sql, data, "postgres") == made


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("SELECT ${row_f}", "1 OR true"),
        ('SELECT "${row_f}"', 'a" OR true'),
        ("SELECT '${row_f}'", "a\\"),
        ("SELECT '\\' || '${row_f}'", "1 OR true"),
        ("${row_f}", "(SELECT * FROM secrets) x"),
    ],
)
def test_data_do_not_become_sql_of_a_database(sql, value):
    with pytest.raises(TerminalStepError, match="exclude such rows"):
        into_database(sql, {"row_f": value}, "postgres")


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("postgres", "SELECT $$it's$$, ${row_f}, 'x'"),
        ("postgres", "SELECT $a$it's$a$, ${row_f}, 'x'"),
        ("postgres", "SELECT 1 /* /* */ ' */, ${row_f}, 'x'"),
        ("postgres", "SELECT 1 #--'\n, ${row_f}, 'x'"),
        ("mysql", "SELECT 1 # it's\n, ${row_f}, 'x'"),
        ("mysql", "SELECT 1 /*! ' */, ${row_f}, 'x'"),
        ("sqlite", "SELECT [it's], ${row_f}, 'x'"),
        ("tsql", "SELECT [it's], ${row_f}, 'x'"),
        ("tsql", "SELECT 1 /* /* */ ' */, ${row_f}, 'x'"),
        ("oracle", "SELECT q'[it's]', ${row_f}, 'x' FROM dual"),
        ("informix", "SELECT '${row_f}'"),
        ("postgres", "CALL f('${row_f}')"),
    ],
)
def test_an_apostrophe_elsewhere_does_not_turn_a_value_into_sql(dialect, sql):
    with pytest.raises(TerminalStepError, match="exclude such rows"):
        into_database(sql, {"row_f": "(SELECT 1)"}, dialect)


@pytest.mark.parametrize(
    ("sql", "value"), [("SELECT 5 -${row_f}", -1), ("SELECT ${row_f}'a'", "E"), ("${row_f}'", "x")]
)
def test_a_value_does_not_change_how_the_text_around_it_is_read(sql, value):
    with pytest.raises(TerminalStepError, match=r"cannot be read with \$\{row_f\} in it"):
        into_database(sql, {"row_f": value}, "postgres")


def test_a_database_of_an_unknown_dialect_takes_words_and_numbers():
    sql = "SELECT * FROM ${row_t} WHERE n > ${row_n} AND t = '${row_t}' -- ${row_t}"
    made = "SELECT * FROM eu.x WHERE n > -7 AND t = 'eu.x' -- ${row_t}"
    assert into_database(sql, {"row_t": "eu.x", "row_n": -7}, "informix") == made


def test_a_query_of_a_database_takes_quotes_as_part_of_the_value(lab: Lab):
    lab.settings["connections"] = {"shop": {"url": "sqlite:///shop.db"}}
    database = create_engine(f"sqlite:///{lab.root / 'shop.db'}")
    with database.begin() as conn:
        conn.execute(text("CREATE TABLE person (name TEXT)"))
        conn.execute(text("INSERT INTO person VALUES ('O''Brien'), ('x')"))
    query = "SELECT name FROM person WHERE name = '${row_f}'"
    looping(lab, "O'Brien", source={"type": "jdbc", "connection": "shop", "query": query})
    assert lab.rows("ods.t") == [("O'Brien",)]
    database.dispose()


def test_an_escape_character_of_the_query_does_not_read_the_data():
    sql = "SELECT U&'!${row_f}' UESCAPE '!'"
    with pytest.raises(TerminalStepError, match="differently"):
        into_database(sql, {"row_f": "0027 OR"}, "postgres")
