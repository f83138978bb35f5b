"""A step runs once per row of another, and its results are one. Checklist S31."""

import pytest

from logdriven_dagster.errors import TerminalStepError
from tests.quality.orders import DAY, Orders

TARGET = {"target": {"type": "iceberg"}}
SHOPS = {"sql": "SELECT 'a' AS shop, 1 AS n, 'x' AS file UNION ALL SELECT 'b', 2, 'y'"}


def looping(orders: Orders, loop, sql="SELECT :row_shop AS shop, :row_n AS n", **step):
    orders.table("ods.t", SHOPS, {"loop_over": loop, "sql": sql, **TARGET, **step})
    return orders.run("ods.t", DAY)


def test_a_step_runs_once_for_each_row_of_an_earlier_step(orders: Orders):
    ran = looping(orders, "step_1")
    assert orders.rows("ods.t") == [("a", 1), ("b", 2)]
    assert ran.counts.target == 2  # one write at the end


def test_a_query_gives_the_rows_too(orders: Orders):
    looping(orders, {"sql": "SELECT shop, n * 10 AS n FROM step_1"})
    assert orders.rows("ods.t") == [("a", 10), ("b", 20)]


def test_the_rows_columns_stand_in_the_source_as_text(orders: Orders):
    orders.file("x.csv", "id\n1\n2\n")
    orders.file("y.csv", "id\n3\n")
    source = {"type": "csv", "path": "${row_file}.csv", "header": True, "columns": "id INT"}
    sql = "SELECT id, '${row_shop}' AS shop FROM source"
    ran = looping(orders, "step_1", sql, source=source)
    assert orders.rows("ods.t") == [(1, "a"), (2, "a"), (3, "b")]
    assert (ran.counts.source, ran.staged[-1].current_files) == (3, ("x.csv", "y.csv"))


def test_results_are_joined_by_name(orders: Orders):
    orders.file(
        "tables/t.py",
        "def made(spark, variables):\n    n = variables['row_n']\n"
        "    query = 'SELECT 1 AS a, 2 AS b' if n == 1 else 'SELECT 3 AS b, 4 AS a'\n"
        "    return spark.sql(query)\n",
    )
    step = {"loop_over": "step_1", "python": "t.py:made", **TARGET}
    orders.table("ods.t", SHOPS, step)
    orders.run("ods.t", DAY)
    assert orders.rows("ods.t") == [(1, 2), (4, 3)]


def test_no_row_is_an_error_since_the_columns_are_unknown(orders: Orders):
    with pytest.raises(TerminalStepError, match="loop_over found no rows"):
        looping(orders, {"sql": "SELECT * FROM step_1 WHERE n > 9"})


def test_no_row_is_an_empty_result_where_its_columns_are_given(orders: Orders):
    empty = {"sql": "SELECT * FROM step_1 WHERE n > 9", "columns": "shop STRING, n INT"}
    assert looping(orders, empty).counts.target == 0
    assert orders.rows("ods.t") == []


@pytest.mark.parametrize(
    ("loop", "told"),
    [
        ({"step": "step_1", "max_rows": 1}, "more than 1 rows"),
        ({"sql": "SELECT shop, CAST(NULL AS INT) AS n FROM step_1"}, "NULL in n; exclude such"),
    ],
)
def test_rows_that_cannot_be_looped_over_are_reported(orders: Orders, loop, told):
    with pytest.raises(TerminalStepError, match=told):
        looping(orders, loop)
