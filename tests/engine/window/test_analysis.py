"""`validate --analyze`: what Spark's parser and analyser say of queries over tables without rows."""
# ruff: noqa: E501 - whole messages, each in a line

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logdriven_dagster.engine.window import analysis
from tests.engine.laboratory import Lab

CSV = {"type": "csv", "path": "nowhere/a.csv", "columns": "id INT, name STRING"}
TARGET = {"type": "iceberg"}


def found(lab: Lab) -> list[str]:
    """What is told, by table and place; a star marks what could not be looked at."""
    return [
        f"{'' if item.is_mistake else '* '}{item.table} {item.location}: {item.text}"
        for item in analysis.analyse(lab.project, lab.spark)
    ]


@pytest.mark.connect
@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT nme FROM source", "unknown column nme (line 1, column 8 of the query); did you mean name?"),
        ("SELECT date_tunc('DAY', name) AS d FROM source", "unknown function date_tunc (line 1, column 8 of the query)"),
        ("SELECT id + array(1) AS a FROM source", "Cannot resolve"),
        ("SELECT id, count(*) AS n FROM source", "The query does not include a GROUP BY clause"),
    ],
)  # fmt: skip
def test_errors_that_spark_finds_in_a_query_are_reported(lab: Lab, sql: str, told: str):
    lab.table("ods.t", {"source": CSV, "sql": sql, "target": TARGET})
    (only,) = found(lab)
    assert only.startswith(f"ods.t ('steps', 0, 'sql'): {told}")


def test_all_unknown_columns_of_a_query_are_reported_at_once(lab: Lab):
    lab.file("data/a.csv", "id,name\n1,x\n")
    source = {"type": "csv", "path": "data/a.csv", "header": True}
    sql = "SELECT idd, nme FROM source"
    lab.table("ods.t", {"source": source, "sql": sql, "target": TARGET})
    assert [text.partition(" (line")[0][-18:] for text in found(lab)] == [
        "unknown column idd",
        "unknown column nme",
    ]


def test_a_script_is_not_analyzed_and_spark_parses_what_sqlglot_cannot(lab: Lab):
    script = {"step": "script", "sql": "BEGIN SELECT raise_error('ran') AS a; END"}
    lab.table(
        "ods.t", {"source": CSV, "sql": "SELECT id FORM source x y", "target": TARGET}, script
    )
    mistake, skipped = found(lab)
    assert mistake.startswith("ods.t ('steps', 0, 'sql'): the query has a syntax error at or near")
    assert skipped == "* ods.t ('steps', 1, 'sql'): a SQL script is only checked when it runs"


def test_the_query_of_a_loop_is_analyzed(lab: Lab):
    loop = {"loop_over": {"sql": "SELECT idd FROM load"}, "sql": "SELECT 1 AS a", "target": TARGET}
    lab.table("ods.t", {"step": "load", "source": CSV}, {"step": "each", **loop})
    assert found(lab)[0].startswith("ods.t ('steps', 1, 'loop_over', 'sql'): unknown column idd")


@pytest.mark.connect
def test_columns_go_on_from_step_to_step_and_table_to_table(lab: Lab):
    load = {"step": "load", "source": CSV, "sql": "SELECT id, upper(name) AS caps FROM source"}
    lab.table("ods.t", {**load, "target": TARGET})
    lab.table(
        "dws.t",
        {"step": "first", "sql": "SELECT caps FROM ods.t"},
        {"step": "second", "sql": "SELECT f.caps, f.id FROM first f", "target": TARGET},
        depends_on=["ods.t"],
        checks=[{"check": "some", "sql": "SELECT 1 FROM first WHERE name IS NULL"}],
    )
    second, check = found(lab)
    assert second.startswith("dws.t ('steps', 1, 'sql'): unknown column f.id")
    assert check.startswith("dws.t ('checks', 0, 'sql'): unknown column name")


def test_a_window_column_that_holds_no_time_is_a_mistake(lab: Lab):
    pq.write_table(pa.table({"ts": [1], "day": ["20220101"]}), lab.root / "f.parquet")
    columns = ("ts", {"name": "day", "unit": "epoch_s"}, {"name": "ts", "unit": "epoch_s"}, "no")
    for n, column in enumerate(columns):
        source = {"type": "parquet", "path": "f.parquet", "window_column": column}
        lab.table(f"ods.t{n}", {"source": source, "target": TARGET})
    number, text, missing = found(lab)
    place = "('steps', 0, 'source', 'window_column')"
    assert number.startswith(f"ods.t0 {place}: window_column ts is bigint, which is not a time")
    problem = "window_column day is string; unit: epoch_s is only for numbers"
    assert text.startswith(f"ods.t1 {place}: {problem}")
    assert missing.startswith(f"ods.t3 {place}: the source has no column no, its window_column")


def test_what_is_made_of_unknown_columns_is_left_out_with_a_note(lab: Lab):
    lab.file("tables/own.py", "raise SystemExit\n")
    lab.table("ods.t", {"step": "load", "python": "own.py:go", "target": TARGET})
    sql = "SELECT anything FROM ods.t"
    lab.table("dws.t", {"step": "load", "sql": sql, "target": TARGET}, depends_on=["ods.t"])
    assert found(lab) == [
        "* ods.t ('steps', 0): the columns of a Python function are not known before it runs",
        "* dws.t ('steps', 0, 'sql'): the columns of ods.t are not known",
    ]


def test_a_source_that_is_not_there_yet_is_no_mistake(lab: Lab):
    source = {"type": "parquet", "path": "nowhere"}
    lab.table("ods.t", {"source": source, "sql": "SELECT a FROM source", "target": TARGET})
    missing, query = found(lab)
    assert missing.startswith("* ods.t ('steps', 0, 'source'): file or folder /")
    assert query == "* ods.t ('steps', 0, 'sql'): the columns of source are not known"


def test_rules_are_looked_at_over_the_columns_of_the_result(lab: Lab):
    rules = {"id": ["id"], "rows": [{"rule": "odd", "sql": "nme IS NOT NULL"}]}
    lab.table("ods.t", {"source": CSV, "target": TARGET, "quality": rules})
    (only,) = found(lab)
    assert only.startswith("ods.t ('steps', 0, 'quality', 'rows', 0, 'sql'): unknown column nme")


def test_a_good_project_has_nothing_to_report_and_nothing_is_written(lab: Lab):
    lab.file("data/a.csv", "1,2022-01-01T00:00:00\n")
    source = {"type": "csv", "path": "data/a.csv", "columns": "id INT, at TIMESTAMP"}
    sql = "SELECT id, :data_range_start AS s FROM source WHERE at < '${DATA_RANGE_END}'"
    lab.table("ods.t", {"source": {**source, "window_column": "at"}, "sql": sql, "target": TARGET})
    assert found(lab) == []
    assert not (lab.root / ".logdriven").exists()
