"""Unknown columns and functions of a query, found without Spark, and nothing that Spark accepts."""
# ruff: noqa: E501 - whole queries and messages

import pytest

from logdriven_dagster.config.sql.known_names import examine_query
from logdriven_dagster.config.sql.spark_functions import FUNCTIONS

TABLES = {
    "source": frozenset({"id", "name", "at"}),
    "ods.orders": frozenset({"id", "amount", "info", "items", "tags"}),
    "elsewhere": None,
}
VIEWS = {
    "source": "id INT, name STRING, at TIMESTAMP",
    "ods.orders": "id INT, amount DECIMAL(10,2), info STRUCT<city: STRING, at: STRUCT<x: INT>>, "
    "items ARRAY<INT>, tags VARIANT",
}


def unknown(sql: str) -> list[str]:
    found = examine_query(sql, TABLES, examines_functions=True).unknown
    return [str(name) for name in found]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        (
            "SELECT nme, idd,\n date_tunc('DAY', at) AS d FROM source",
            [
                "unknown column idd (line 1, column 13 of the query); did you mean id?",
                "unknown column nme (line 1, column 8 of the query); did you mean name?",
                (
                    "unknown function date_tunc (line 2, column 2 of the query); did you mean "
                    "date_trunc or time_trunc or date_sub?"
                ),
            ],
        ),
        (
            "SELECT o.idx FROM `ods.orders` o",
            ["unknown column o.idx (line 1, column 8 of the query); did you mean id?"],
        ),
        (
            "SELECT o.idx FROM ods.orders o",
            ["unknown column o.idx (line 1, column 8 of the query); did you mean id?"],
        ),
        (
            "SELECT x.id FROM source o",
            [
                "unknown column x.id (line 1, column 8 of the query); known: at, id, name",
            ],
        ),
        (
            "WITH a AS (SELECT id AS k FROM source) SELECT kk FROM a WHERE zz IN (SELECT id FROM a)",
            [
                "unknown column kk (line 1, column 47 of the query); known: at, id, name",
                "unknown column zz (line 1, column 63 of the query); known: at, id, name",
            ],
        ),
        (
            "SELECT id FROM source QUALIFY row_number() OVER (ORDER BY atx) = 1",
            ["unknown column atx (line 1, column 59 of the query); did you mean at?"],
        ),
    ],
)
def test_all_unknown_names_of_a_query_are_found_at_once(sql: str, told: list[str]):
    assert unknown(sql) == told


VALID = [
    "SELECT ID, upper(name) AS n, n || 'x' AS m FROM source WHERE at > current_timestamp",
    "SELECT source.id, o.amount FROM source JOIN ods.orders AS o USING (id)",
    "SELECT ods.orders.amount, orders.info.city, info.at.x FROM ods.orders",
    "WITH a AS (SELECT id AS k FROM source), b (q) AS (SELECT k FROM a) SELECT q, a.* FROM a, b",
    (
        "SELECT s.z FROM (SELECT id AS z FROM source) s WHERE EXISTS (SELECT 1 FROM ods.orders "
        "WHERE id = s.z)"
    ),
    (
        "SELECT transform(items, (x, i) -> x + i) AS t, aggregate(items, 0, (a, v) -> a + v) AS u "
        "FROM ods.orders"
    ),
    "SELECT id, e FROM ods.orders LATERAL VIEW explode(items) g AS e",
    "SELECT col FROM (SELECT explode(items) FROM ods.orders)",
    "SELECT pos, col FROM (SELECT posexplode(items) FROM ods.orders)",
    "SELECT * FROM (SELECT id, name FROM source) PIVOT (max(name) FOR id IN (1 AS one, 2 AS two))",
    "SELECT one FROM (SELECT id, name FROM source) PIVOT (max(name) FOR id IN (1 AS one, 2))",
    "SELECT k, v FROM source UNPIVOT (v FOR k IN (name))",
    "SELECT c0 FROM (SELECT json_tuple(name, 'a') FROM source)",
    "SELECT id FROM range(3)",
    "SELECT a, b FROM VALUES (1, 2) AS t(a, b)",
    "SELECT col1 FROM VALUES (1, 2)",
    (
        "SELECT date_add(DAY, 1, at) AS d, timestampdiff(HOUR, at, at) AS h, "
        "extract(YEAR FROM at) AS y, date_trunc('day', at) AS z, at + INTERVAL 1 DAY AS i FROM source"
    ),
    "SELECT mask(name, upperChar => 'X') AS m, name COLLATE UTF8_LCASE AS c FROM source",
    "SELECT tags:city::string AS city, try_variant_get(tags, '$.x', 'int') AS x FROM ods.orders",
    "SELECT named_struct('a', id).a AS a, struct(id AS k).k AS k, map('z', 1).z AS z FROM source",
    "SELECT inline(array(struct(id AS p, name AS q))) FROM source",
    (
        "SELECT max(id) FILTER (WHERE name = 'a') AS m, sum(id) OVER w AS s FROM source "
        "GROUP BY id WINDOW w AS (PARTITION BY id ORDER BY id)"
    ),
    "SELECT * EXCEPT (name) FROM source",
    "SELECT id, count(*) AS n FROM source GROUP BY ALL HAVING n > 1 ORDER BY n",
    "SELECT grouping_id() AS g, id FROM source GROUP BY GROUPING SETS ((id), ())",
    "SELECT id FROM source |> WHERE id > 1",
    "FROM source |> AGGREGATE count(*) AS n GROUP BY name |> WHERE n > 1 |> SELECT n, name",
    "SELECT `id`, \"id\" AS t, 'x' FROM source",
    "SELECT `count(1)` FROM (SELECT count(1) FROM source)",
    (
        "SELECT if(id > 1, 1, 2) AS i, id DIV 2 AS d, name RLIKE 'a' AS r, id IS DISTINCT FROM 1 AS q, "
        "CASE id WHEN 1 THEN name END AS c, CAST(id AS STRING) AS s, trim(BOTH 'x' FROM name) AS t, "
        "substring(name FROM 2 FOR 1) AS u, position('a' IN name) AS p FROM source"
    ),
    "SELECT x.id FROM source TABLESAMPLE (10 PERCENT) x LEFT ANTI JOIN ods.orders o ON x.id = o.id",
    "SELECT id FROM source UNION ALL SELECT id FROM ods.orders",
    (
        "SELECT l.m FROM source s, LATERAL (SELECT max(amount) AS m FROM ods.orders o "
        "WHERE o.id = s.id) l"
    ),
    "SELECT from_json(name, 'a INT').a AS a FROM source",
    "SELECT id, ROW_NUMBER() OVER (PARTITION BY name ORDER BY at) AS n FROM source QUALIFY n = 1",
]


@pytest.mark.parametrize("sql", VALID)
def test_nothing_is_unknown_in_a_valid_query(sql: str):
    assert unknown(sql) == []


@pytest.mark.parametrize("sql", ["SELECT nme FROM elsewhere", "SELECT a FROM parquet.`x`"])
def test_a_table_of_unknown_columns_may_have_any(sql: str):
    assert unknown(sql) == []


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT id AS k, name, o.amount FROM source", {"k", "name", "amount"}),
        ("SELECT id AS k FROM source UNION SELECT id FROM ods.orders", {"k"}),
        ("SELECT *, 1 AS one FROM source", {"id", "name", "at", "one"}),
        ("SELECT count(*) FROM source", None),
        ("SELECT a FROM elsewhere", {"a"}),
        ("SELECT * FROM elsewhere", None),
        ("SELECT s.* FROM source AS s", {"id", "name", "at", "s"}),
        ("SELECT m.* FROM (SELECT from_json(name, 'a INT') AS m FROM source)", None),
    ],
)
def test_the_columns_of_a_result_are_known_by_its_query(sql: str, columns: set[str] | None):
    assert examine_query(sql, TABLES, examines_functions=True).columns == columns


def test_the_fields_of_a_struct_are_columns():
    sql = "SELECT a FROM (SELECT m.* FROM (SELECT from_json(name, 'a INT') AS m FROM source))"
    assert unknown(sql) == []


def test_functions_of_users_are_not_examined():
    sql = "SELECT own_function(id), nme FROM source"
    [only] = examine_query(sql, TABLES, examines_functions=False).unknown
    assert only.problem == "unknown column nme"


def test_spark_accepts_the_valid_queries_and_has_no_other_functions(spark):
    session = spark.newSession()
    for name, columns in VIEWS.items():
        session.createDataFrame([], columns).createOrReplaceTempView(name.replace(".", "_"))
    for sql in VALID:
        text = sql.replace("ods.orders.", "orders.").replace("ods.orders AS o", "ods_orders AS o")
        alias = "" if "ods.orders o" in text else " AS orders"
        text = text.replace("ods.orders", f"ods_orders{alias}")
        assert session.sql(text).columns
    names = {row[0] for row in session.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert {name for name in names if name.isidentifier()} <= FUNCTIONS
