"""What `validate` finds beyond the models: queries, variables, tables and functions of runs."""
# ruff: noqa: E501 - whole messages, each in a line

import textwrap

import pytest

from logdriven_dagster.config import load_examined_project
from logdriven_dagster.errors import InvalidProjectError

FUNCTIONS = """
    import os
    from somewhere import imported

    def known(spark, source, ods_orders, load, window, extra=1, *, variables, **rest): ...
    def greedy(orders): ...
    made = os.path.join
    try:
        def guarded(spark): ...
    except ImportError:
        pass
"""


def oversights(folder) -> str:
    with pytest.raises(InvalidProjectError) as caught:
        load_examined_project(folder.root)
    return str(caught.value).replace(f"{folder.root}/", "")


def table(folder, **step: str):
    """A table with a step `load` of a CSV file and a step `join` with these fields."""
    fields = "\n".join(f"        {name}: {value}" for name, value in step.items())
    text = f"""\
    table: dwd.joined
    period: 1 day
    default_start: 2022-01-01
    variables: {{region: north}}
    depends_on: [ods.orders]
    steps:
      - step: load
        source: {{type: csv, path: a.csv}}
      - step: join
{fields}
        target: {{type: iceberg}}
    """
    folder.table("ods.orders")
    return folder.write("tables/dwd/joined.yaml", text)


WHERE = "tables/dwd/joined.yaml:10: steps[1].sql: "
ASK_SPARK = "; if Spark knows this syntax, `logdriven validate --analyze` accepts it"


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELEC 1", "syntax error at '1' (line 1, column 7 of the query)" + ASK_SPARK),
        ("SELECT a FROM load WHRE a = 1", "syntax error at 'a' (line 1, column 25 of the query)" + ASK_SPARK),
        ("SELECT count(* FROM load", "syntax error at 'FROM', ) is missing (line 1, column 16 of the query)" + ASK_SPARK),
        ("SELECT 'a FROM load", "a quote or comment is not closed"),
        ("'SELEC * FORM load'", "this is not a query; a query begins with SELECT, WITH, FROM or VALUES"),
        ("SELECT 1; SELECT 2", "there are 2 statements; write one query"),
        ("SELECT ${regin} AS r FROM load", "unknown variable ${regin}; did you mean 'region'?"),
        ("SELECT '${REGION}' AS r FROM load", "unknown variable ${REGION}; known: DATA_RANGE_END, DATA_RANGE_START, DAY, HOUR, JOB_ID, JOB_NAME, MINUTE, MONTH, YEAR, region"),
        ("'SELECT :data_range_strt AS a FROM load'", "unknown parameter :data_range_strt; did you mean 'data_range_start'?"),
        ("SELECT * FROM ods.order", "unknown table 'ods.order'; did you mean 'ods.orders'?"),
        ("SELECT * FROM crm.customers", "unknown table 'crm.customers'; add {table: crm.customers, managed: false} to depends_on if another system manages it"),
    ],
)  # fmt: skip
def test_a_query_that_cannot_run_is_reported_with_its_place_and_fix(folder, sql, told):
    assert oversights(table(folder, sql=sql)) == WHERE + told


def test_spark_judges_a_query_that_only_sqlglot_cannot_parse(folder):
    table(folder, sql="SELECT a FROM load WHRE a = 1")
    load_examined_project(folder.root, parsed_by_spark=True)


@pytest.mark.parametrize(
    "sql", ["BEGIN SELECT 1 AS a; END", r"/* a */ -- b\n begin SELECT ${x}; end"]
)
def test_only_the_variables_of_a_script_are_checked(folder, sql):
    root = table(folder, sql=f'"{sql}"')
    if "${x}" in sql:
        assert "unknown variable ${x}" in oversights(root)
    else:
        load_examined_project(root.root)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM load JOIN ods.orders USING (id)",
        "'WITH a AS (SELECT :region AS r) SELECT * FROM a, LATERAL explode(array(1)) AS t(x)'",
        "SELECT * FROM parquet.`/data/a` WHERE d >= '${DATA_RANGE_START}'",
        "SELECT * FROM range(3) WHERE id < '${YEAR}' -- ${region}",
        "FROM load |> WHERE id = 1;",
        "VALUES (1), (2)",
        "TABLE load",
        "'SELECT * FROM dwd.joined WHERE '':nothing'' <> `:a`'",
    ],
)
def test_a_query_that_can_run_is_left_alone(folder, sql):
    load_examined_project(table(folder, sql=sql).root)


def test_a_mistake_in_a_file_of_sql_is_reported_with_the_line_of_that_file(folder):
    folder.write("tables/dwd/joined.sql", "SELECT *\nFROM nowhere\nWHERE '${nothing}' = 1")
    told = oversights(table(folder, sql_file="joined.sql")).splitlines()
    assert told[0].startswith("tables/dwd/joined.sql:3: unknown variable ${nothing}; known:")
    assert told[1].startswith("tables/dwd/joined.sql:2: unknown table 'nowhere'; add")


def test_tables_that_others_may_have_made_in_spark_are_not_missed(folder):
    table(folder, sql="SELECT * FROM hive_db.customers")
    config = "{spark.sql.catalogImplementation: hive}"
    folder.write("logdriven.yaml", f"{{project: p, spark: {{config: {config}}}}}")
    load_examined_project(folder.root)


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("own.py:nown", "own.py has no function nown; did you mean 'known'?"),
        ("own.py:greedy", "greedy has the unknown parameter orders; did you mean 'ods_orders'?"),
        ("nowhere.at_all:f", "Python module nowhere.at_all not found; it must be importable where logdriven runs; for a file in this folder, write file.py:name"),
        ("json.decoder:nothing", "json.decoder has no function nothing; it has JSONArray, JSONObject, py_scanstring"),
    ],
)  # fmt: skip
def test_a_function_that_cannot_be_called_is_reported(folder, reference, told):
    folder.write("tables/dwd/own.py", textwrap.dedent(FUNCTIONS))
    found = oversights(table(folder, python=reference))
    assert found == f"tables/dwd/joined.yaml:10: steps[1].python: {told}"


@pytest.mark.parametrize("name", ["known", "imported", "made", "guarded"])
def test_a_function_that_can_be_called_is_left_alone(folder, name):
    folder.write("tables/dwd/own.py", textwrap.dedent(FUNCTIONS))
    load_examined_project(table(folder, python=f"own.py:{name}").root)


def test_no_code_of_the_project_is_run(folder):
    folder.write("tables/dwd/own.py", "raise SystemExit\ndef go(spark): ...")
    load_examined_project(table(folder, python="own.py:go").root)


def test_a_python_file_that_does_not_parse_is_reported_with_its_line(folder):
    folder.write("tables/dwd/own.py", "def go(spark):\nreturn 1")
    told = oversights(table(folder, python="own.py:go"))
    assert told.startswith("tables/dwd/own.py:2: not Python: expected an indented block")


@pytest.mark.parametrize("field", ["sql_file", "python"])
def test_a_file_that_is_not_utf_8_is_named(folder, field):
    name = "own.sql" if field == "sql_file" else "own.py:go"
    table(folder, **{field: name})
    file = name.partition(":")[0]
    (folder.root / "tables/dwd" / file).write_bytes(b"-- one\n-- caf\xe9\n")
    assert oversights(folder) == (
        f"tables/dwd/{file}:2: the byte 0xE9 is not UTF-8; save the file as UTF-8"
    )


def test_checks_rules_sources_and_statements_of_databases_are_looked_at(folder):
    folder.write("logdriven.yaml", "{project: p, connections: {db: {url: sqlite:///a.db}}}")
    folder.write(
        "tables/t.yaml",
        """
        table: t
        period: 1 day
        default_start: 2022-01-01
        steps:
          - step: load
            source: {type: jdbc, connection: db, query: SELECT * FORM orders}
            loop_over: {sql: SELECT 1 AS a FROM nowhere}
            commit_before_read: [{connection: db, sql: UPDATE t SET a = 1 WHRE b = 2}]
            sql: SELECT *, '${row_a}' AS b FROM source
            quality:
              id: [a]
              rows:
                - {rule: lonely, sql: SELECT a FROM rows JOIN nowhere USING (a)}
            target:
              type: jdbc
              connection: db
              table: t
              pre_sql: ["DELETE FROM t WHRE a = 1", "VACUUM", "SELECT ${x}"]
        checks:
          - {check: some, sql: SELECT 1 FROM laod}
        """,
    )
    unknown = "add {table: nowhere, managed: false} to depends_on if another system manages it"
    assert [line.partition("; known")[0] for line in oversights(folder).splitlines()] == [
        f"tables/t.yaml:7: steps[0].loop_over.sql: unknown table 'nowhere'; {unknown}",
        "tables/t.yaml:8: steps[0].commit_before_read[0].sql[0]: syntax error at 'WHRE' (line 1, column 20 of the query)",
        "tables/t.yaml:6: steps[0].source.query: syntax error at 'orders' (line 1, column 15 of the query)",
        "tables/t.yaml:18: steps[0].target.pre_sql[0]: syntax error at 'a' (line 1, column 20 of the query)",
        "tables/t.yaml:18: steps[0].target.pre_sql[2]: unknown variable ${x}",
        "tables/t.yaml:20: checks[0].sql: unknown table 'laod'; did you mean 'load'?",
        f"tables/t.yaml:13: steps[0].quality.rows[0].sql: unknown table 'nowhere'; {unknown}",
    ]


def test_the_steps_of_maintenance_jobs_are_looked_at(folder):
    folder.write("logdriven.yaml", "{project: p, connections: {db: {url: sqlite:///a.db}}}")
    folder.write("jobs/own.py", "def go(run_log, options): ...\ndef stop(runlog): ...")
    folder.write(
        "jobs/nightly.yaml",
        """
        job: nightly
        type: maintenance
        parameters: {days: 30}
        steps:
          - {exec_order: 1, step: a, connection: db, sql: DELETE FROM t WHERE a < :days}
          - {exec_order: 2, step: b, connection: db, sql: ["DELETE FROM t WHRE ${day} = 1"]}
          - {exec_order: 3, step: c, python: "own.py:go"}
          - {exec_order: 4, step: d, python: "own.py:stop"}
        """,
    )
    assert oversights(folder).splitlines() == [
        "jobs/nightly.yaml:6: steps[1].sql[0]: unknown variable ${day}; did you mean 'days'?",
        "jobs/nightly.yaml:6: steps[1].sql[0]: syntax error at '${day}' (line 1, column 20 of the query)",
        "jobs/nightly.yaml:8: steps[3].python: stop has the unknown parameter runlog; did you mean 'run_log'?",
    ]


def test_a_template_reports_a_mistake_of_all_items_once(folder):
    folder.write(
        "tables/t.yaml",
        """
        for_each: [a, b, c]
        table: ods.${each}
        period: 1 day
        default_start: 2022-01-01
        steps:
          - {step: load, sql: "SELECT ${nothing} AS a", target: {type: iceberg}}
        """,
    )
    (told,) = oversights(folder).splitlines()
    assert told.startswith(
        "tables/t.yaml:6: steps[0].sql: unknown variable ${nothing} (item 1, a, and 2 more); known"
    )


def test_variables_of_the_jobs_that_run_a_table_are_known(folder):
    table(folder, sql="SELECT '${season}' AS s, :season AS t FROM load")
    folder.write("jobs/j.yaml", "{job: j, tables: [dwd.joined], parameters: {season: winter}}")
    load_examined_project(folder.root)


CHAIN = {
    "tables/ods/orders.yaml": """
        table: ods.orders
        period: 1 day
        default_start: 2022-01-01
        steps:
          - step: load
            source: {type: csv, path: orders-*.csv, columns: "id INT, amount DECIMAL(10,2), at TIMESTAMP"}
            sql: SELECT id, amont, date(at) AS day, own_function(id) AS o FROM source
            target: {type: iceberg}
    """,
    "tables/dws/daily.yaml": """
        table: dws.daily
        period: 1 day
        default_start: 2022-01-01
        depends_on: [ods.orders]
        steps:
          - step: add
            sql_file: daily.sql
            target: {type: %s}
        checks:
          - check: some
            sql: SELECT 1 FROM add WHERE totl < 0
    """,
    "tables/dws/daily.sql": "SELECT day,\n  sum(at) AS total FROM ods.orders GROUP BY day",
    "tables/ads/top.yaml": """
        table: ads.top
        period: 1 day
        default_start: 2022-01-01
        depends_on: [dws.daily]
        steps:
          - step: pick
            sql: SELECT max(total) AS t, max(dy) AS d FROM dws.daily
            target: {type: iceberg}
    """,
}
UNKNOWN = [
    "tables/ods/orders.yaml:7: steps[0].sql: unknown column amont (line 1, column 12 of the query); did you mean amount?",
    "tables/ods/orders.yaml:7: steps[0].sql: unknown function own_function (line 1, column 36 of the query)",
    "tables/dws/daily.sql:2: unknown column at; known: amont, day, id, o",
    "tables/dws/daily.yaml:11: checks[0].sql: unknown column totl (line 1, column 25 of the query); did you mean total?",
    "tables/ads/top.yaml:7: steps[0].sql: unknown column dy (line 1, column 29 of the query); did you mean day?",
]


def chain(folder, target="iceberg"):
    for path, text in CHAIN.items():
        folder.write(path, text % target if "%s" in text else text)
    return folder


def test_unknown_columns_and_functions_are_found_from_table_to_table(folder):
    assert sorted(oversights(chain(folder)).splitlines()) == sorted(UNKNOWN)


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({"logdriven.yaml": "project: p\nspark: {config: {spark.sql.catalog.c: x}}"}, [0, 2, 3, 4]),
        ({"tables/dws/daily.yaml": "jdbc, connection: c, table: t"}, [0, 1, 2, 3]),
        ({"tables/dws/daily.yaml": "iceberg, mode: upsert, key: [day]"}, [0, 1, 2, 3]),
    ],
    ids=["functions of a catalog", "columns of a database", "columns of an upsert"],
)
def test_columns_and_functions_that_other_systems_may_have_are_not_unknown(folder, changes, left):
    chain(folder, changes.get("tables/dws/daily.yaml", "iceberg"))
    main = changes.get("logdriven.yaml", "project: p\nconnections: {c: {url: 'sqlite:///a.db'}}")
    folder.write("logdriven.yaml", main)
    assert sorted(oversights(folder).splitlines()) == sorted(UNKNOWN[n] for n in left)


def test_columns_of_folders_are_not_unknown(folder):
    chain(folder)
    text = (
        CHAIN["tables/ods/orders.yaml"]
        .replace("orders-*.csv", "orders")
        .replace("own_function", "abs")
    )
    folder.write("tables/ods/orders.yaml", text)
    assert sorted(oversights(folder).splitlines()) == sorted(UNKNOWN[2:])


def test_a_path_into_a_variant_with_a_cast_is_no_syntax_error(folder):
    folder.table("ods.t", sql="'SELECT v:a.b::int AS b FROM (SELECT parse_json(''{}'') AS v)'")
    load_examined_project(folder.root)


PATHS = """
    table: ods.t
    period: %s
    default_start: 2022-01-01
    steps:
      - step: load
        source: {type: csv, path: "%s"%s}
        target: {type: iceberg}
"""


@pytest.mark.parametrize(
    ("period", "path", "more", "told"),
    [
        ("1 day", "in/dt=${DATA_RANGE_START}", "", "the text of ${DATA_RANGE_START} is like 2026-11-02 00:00:00, which no path can contain; write ${DATA_RANGE:yyyy-MM-dd}"),
        ("1 day", "in/${DATA_RANGE:yyyy-mm-DD}", "", "${DATA_RANGE:yyyy-mm-DD}: DD is not a part of a time; use yyyy, yy, MM, dd, HH, mm, ss"),
        ("1 day", "in/${DATA_RANGE_END:-}", "", "${DATA_RANGE_END:-}: it has no part of a time, such as yyyy-MM-dd"),
        ("1 day", "in/${data_range_start:yyyyMMdd}", "", "unknown variable ${data_range_start:yyyyMMdd}; did you mean 'DATA_RANGE_START:yyyyMMdd'?"),
        ("1 day", "in/${RANGE:yyyyMMdd}", "", "unknown variable ${RANGE:yyyyMMdd}; known: "),
        ("1 day", "in/${DATA_RANGE:yyyy}/{a,b}", "", "{…} cannot be combined with ${DATA_RANGE:…}; write * or a step of its own"),
        ("1 hour", "in/${DATA_RANGE:yyyy-MM-dd}", "", "several windows would read the same files as a whole; set window_column, or write a format with the time at which windows begin"),
    ],
)  # fmt: skip
def test_a_path_that_no_window_can_read_is_reported(folder, period, path, more, told):
    folder.write("tables/t.yaml", PATHS % (period, path, more))
    assert f"tables/t.yaml:6: steps[0].source.path: {told}" in oversights(folder)


@pytest.mark.parametrize(
    ("period", "path", "more"),
    [
        ("1 day", "in/dt=${DATA_RANGE:yyyy-MM-dd}/*.csv", ""),
        ("1 week", "in/${DATA_RANGE:yyyy/MM/dd}", ""),
        ("1 month", "in/${DATA_RANGE_START:yyMM}.csv", ""),
        ("1 hour", "in/${DATA_RANGE:yyyy-MM-dd}", ", window_column: at"),
        ("15 min", "in/${DATA_RANGE:yyyy-MM-dd/HH.mm}", ""),
    ],
)
def test_paths_with_times_are_valid(folder, period, path, more):
    folder.write("tables/t.yaml", PATHS % (period, path, more))
    load_examined_project(folder.root)


def test_missing_files_without_rows_need_columns(folder):
    folder.write("tables/t.yaml", PATHS % ("1 day", "in/x.csv", ", missing_files: no_rows"))
    told = "steps[0].source.missing_files: no_rows needs the columns of the files; set columns"
    assert told in oversights(folder)


def test_several_texts_are_refused_in_a_query(folder):
    folder.table("ods.t", sql="SELECT ${DATA_RANGE:yyyy} AS y")
    assert "only the path of a source may have several texts" in oversights(folder)
