"""What is not supported on Sail is refused when the project is loaded, by its name and place."""
# ruff: noqa: E501 - whole messages, each in a line

import pytest

COLUMNS = "id BIGINT, at TIMESTAMP, name STRING, amount DECIMAL(12,2), x DOUBLE, i INT"
TABLE = f"""\
    table: ods.orders
    period: 1 day
    default_start: 2024-01-01
    steps:
      - step: load
        source: {{type: parquet, path: orders, window_column: at, columns: "{COLUMNS}"}}
        sql: SELECT id, name FROM source
        target: {{type: iceberg}}
"""
SAIL = "project: p\ntimezone: UTC\nspark: {engine: sail}"
QUERY = "SELECT id, name FROM source"


@pytest.fixture
def shop(folder):
    folder.write("logdriven.yaml", SAIL)
    folder.write("tables/orders.yaml", TABLE)
    return folder


def test_what_is_proven_is_loaded(shop):
    assert "ods.orders" in shop.load().tables


OF_TABLES = {
    ("steps:", "missing_columns: allow\n    steps:"): "missing_columns: missing_columns: allow",
    (
        "steps:",
        "checks: [{check: c, sql: SELECT 1 AS one}]\n    steps:",
    ): "checks[0].sql: SELECT without FROM",
    ("type: parquet", "type: orc"): "steps[0].source.type: a source of type orc",
    (
        "path: orders",
        "path: 's3://b/orders'",
    ): "steps[0].source.path: the path s3://b/orders of a source (use one local file or folder)",
    (
        "path: orders",
        "path: 'o*.parquet'",
    ): "steps[0].source.path: the path o*.parquet of a source (use one local file or folder)",
    (
        "path: orders",
        "options: {mergeSchema: true}, path: orders",
    ): "steps[0].source.options: options of a source of type parquet",
    ("type: parquet", "type: json"): "steps[0].source.type: a source of type json",
    ("type: parquet", "type: csv"): "steps[0].source.header: a CSV file without a header",
    ("type: parquet", "type: csv, header: true, sep: '::'"): "steps[0].source.sep: sep: '::'",
    (
        "type: parquet",
        "type: csv, header: true, null_value: x",
    ): "steps[0].source.null_value: null_value of a source of type csv",
    (
        "type: parquet",
        "type: csv, header: true, mode: PERMISSIVE",
    ): "steps[0].source.mode: mode: PERMISSIVE",
    ("x DOUBLE", "x FLOAT"): "steps[0].source.columns: a column of type float",
    (
        f', columns: "{COLUMNS}"',
        "",
    ): "steps[0].source.columns: a source without columns, whose types are unknown",
    (
        "window_column: at",
        "window_column: id",
    ): "steps[0].source.window_column: a window_column of type bigint",
    ("{type: iceberg}", "{type: csv}"): "steps[0].target.type: a target of type csv",
    (
        "{type: iceberg}",
        "{type: iceberg, mode: upsert, key: [ID]}",
    ): "steps[0].target.key: a key ID without a column of exactly this name",
    (
        "name FROM source\n        target: {type: iceberg}",
        "x FROM source\n        target: {type: iceberg, mode: upsert, key: [x]}",
    ): "steps[0].target.key: a key of type double",
    (
        "{type: iceberg}",
        "{type: iceberg, window_column: day}",
    ): "steps[0].target.window_column: a window_column day without a column of exactly this name",
    (
        "        target:",
        "        quality: {columns: {id: [not_null]}}\n        target:",
    ): "steps[0].quality: quality",
    (
        "        target:",
        "        never_empty: true\n        target:",
    ): "steps[0].never_empty: never_empty",
}


@pytest.mark.parametrize(("change", "problem"), OF_TABLES.items())
def test_of_a_table(shop, change, problem):
    shop.write("tables/orders.yaml", TABLE.replace(*change))
    assert f": {problem} is not supported on Sail" in shop.mistakes().replace(", is", " is")


OF_QUERIES = {
    "SELECT id / 2 AS half FROM source": "DIV",
    "SELECT id % 2 AS odd FROM source": "MOD",
    "SELECT substring(name, 1, 2) AS s FROM source": "the function substring",
    "SELECT reflect('a', 'b') AS s FROM source": "the function reflect",
    "SELECT try_cast(name AS INT) AS i FROM source": "the function try_cast",
    "SELECT CAST(name AS INT) AS i FROM source": "CAST of string to int",
    "SELECT x = 1.5 AS same FROM source": "EQ of double and decimal(2,1)",
    "SELECT id = CAST(amount AS DECIMAL(38,20)) AS same FROM source": "EQ of bigint and decimal(38,20), which may need more than 38 digits",
    "SELECT id FROM source WHERE id BETWEEN 0 AND CAST(1.5 AS DECIMAL(38,19))": "BETWEEN of bigint and int and decimal(38,19), which may need more than 38 digits",
    "SELECT id FROM source WHERE NULL": "NULL as a condition",
    "SELECT CASE WHEN NULL THEN id END AS id FROM source": "NULL as a condition",
    "SELECT max(x) AS x FROM source": "max of double",
    "SELECT amount * 2 AS twice FROM source": "a decimal * 2, whose digits Spark counts; write CAST(2 AS DECIMAL(1, 0))",
    "SELECT coalesce(i, 'x') AS i FROM source": "coalesce of int and string",
    "SELECT id + 1 FROM source": "id + 1 without a name; write AS and one",
    "SELECT ID FROM source": "the name ID, which no table has in these letters",
    "SELECT id FROM source ORDER BY id": "ORDER",
    "SELECT id FROM source LIMIT 1": "LIMIT",
    "SELECT id, row_number() OVER (ORDER BY id) AS n FROM source": "WINDOW",
    "SELECT id FROM source WHERE id IN (SELECT i FROM source)": "IN of a query",
    "SELECT a.id FROM source a FULL JOIN source b ON a.id = b.id": "FULL JOIN, or one other than by ON",
    "SELECT a.id FROM source a CROSS JOIN source b": "CROSS JOIN, or one other than by ON",
    "SELECT id FROM source UNION SELECT i FROM source": "UNION other than UNION ALL",
    "SELECT name, count(*) AS n FROM source": "name outside of GROUP BY",
    "SELECT :job_id AS job FROM source": "the parameter :job_id",
    "SELECT 1 AS one FROM range(5)": "the table range, whose columns are not known",
}


@pytest.mark.parametrize(("sql", "problem"), OF_QUERIES.items())
def test_of_a_query(shop, sql, problem):
    shop.write("tables/orders.yaml", TABLE.replace(QUERY, f'"{sql}"'))
    found = shop.mistakes()
    assert (
        f"steps[0].sql: {problem} is not supported on Sail; rewrite it, or run the project on Spark (spark.engine: spark)"
        in found
    )


OF_PROJECTS = {
    ("UTC", "Europe/Berlin"): "timezone: times in Europe/Berlin are not supported on Sail",
    ("sail}", "sail, remote: auto}"): "spark.remote: Sail starts its own server",
    (
        "sail}",
        "sail, config: {spark.sql.ansi.enabled: false}}",
    ): "spark.config: the setting spark.sql.ansi.enabled is not supported",
    (
        "project",
        "warehouse: 's3://bucket/w'\nproject",
    ): "warehouse: an object store is not supported",
}


@pytest.mark.parametrize(("change", "problem"), OF_PROJECTS.items())
def test_of_a_project(shop, change, problem):
    shop.write("logdriven.yaml", SAIL.replace(*change))
    assert problem in shop.mistakes()


OF_UPKEEP = {
    "sql: SELECT 1 AS one": "steps[0].sql: a statement without a connection",
    "python: 'own:tidy'": "steps[0].python: a Python function",
    "upkeep: compact_files": "steps[0].upkeep: compact_files",
}


@pytest.mark.parametrize(("step", "problem"), OF_UPKEEP.items())
def test_of_maintenance(shop, step, problem):
    shop.write(
        "jobs/tidy.yaml",
        f"job: tidy\ntype: maintenance\nsteps: [{{exec_order: 1, step: s, {step}}}]",
    )
    assert f"{problem} is not supported" in shop.mistakes()


def test_a_table_is_read_whose_columns_are_known(shop):
    reading = TABLE.replace("ods.orders", "dwh.sums").replace(
        QUERY, "SELECT name, count(*) AS n FROM ods.orders GROUP BY name"
    )
    shop.write(
        "tables/sums.yaml", reading.replace("period", "depends_on: [ods.orders]\n    period", 1)
    )
    assert "dwh.sums" in shop.load().tables
    shop.write(
        "tables/sums.yaml",
        reading.replace("period", "depends_on: [ods.orders]\n    period", 1).replace("(*)", "(at)"),
    )
    assert "steps[0].sql: the name at, which no table has" in shop.mistakes()
