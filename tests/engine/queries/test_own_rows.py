"""A table that reads its own rows, such as a running total, begins with no rows."""

import pytest

from logdriven_dagster.engine.window.analysis import analyse
from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab

COLUMNS = "d INT, total BIGINT COMMENT 'the sum of all days so far'"
TOTALS = """
    SELECT day(:data_range_start) AS d,
        day(:data_range_start) + coalesce((
            SELECT max_by(total, d) FROM dws.totals WHERE d < day(:data_range_start)
        ), 0L) AS total
"""
PYTHON = """
from pyspark.sql import functions as sf


def add(window, dws_totals):
    d = window.start.day
    before = dws_totals.where(sf.col("d") < d)
    total = sf.coalesce(sf.max_by("total", "d"), sf.lit(0)) + d
    return before.agg(total.cast("bigint").alias("total")).select(sf.lit(d).alias("d"), "total")
"""
STEPS = {"sql": {"sql": TOTALS}, "python": {"python": "totals.py:add"}}


@pytest.mark.sampled
@pytest.mark.connect
@pytest.mark.parametrize("target", ["iceberg", "parquet", "delta"])
@pytest.mark.parametrize("kind", STEPS)
def test_a_running_total_begins_with_no_rows_and_continues_with_its_own(
    lab: Lab, kind: str, target: str
):
    lab.file("tables/totals.py", PYTHON)
    lab.table("dws.totals", {**STEPS[kind], "target": {"type": target}}, columns=COLUMNS)
    for n in (1, 2, 3, 2):
        lab.run("dws.totals", day(n))
    assert lab.rows("dws.totals") == [(1, 1), (2, 3), (3, 6)]


def test_without_columns_the_first_window_names_what_to_write(lab: Lab):
    lab.table("dws.totals", {"sql": TOTALS, "target": {"type": "parquet"}})
    with pytest.raises(TerminalStepError, match="add them to the table, such as `columns: day"):
        lab.run("dws.totals", day(1))


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ("d INT", "column total is not among them"),
        ("d INT, total BIGINT, other DATE", "column other is missing"),
        ("d INT, total INT", "column total is bigint, not int"),
    ],
)
def test_a_result_with_other_columns_than_declared_is_refused(lab: Lab, columns, problem):
    sql = "SELECT 1 AS D, 2L AS total"
    lab.table("dws.totals", {"sql": sql, "target": {"type": "parquet"}}, columns=columns)
    told = f"the result does not have the columns of dws.totals: {problem}; change the query"
    with pytest.raises(TerminalStepError, match=told):
        lab.run("dws.totals", day(1))
    [found] = analyse(lab.project, lab.spark)
    assert (found.location, found.is_mistake) == (("columns",), True)
    assert found.text.startswith(told)


def test_declared_columns_let_validate_read_what_builds_on_them(lab: Lab):
    lab.file("tables/totals.py", PYTHON)
    lab.table(
        "dws.totals",
        {"python": "totals.py:add", "target": {"type": "parquet"}},
        columns=COLUMNS,
    )
    lab.table(
        "dws.next",
        {"sql": "SELECT totl FROM dws.totals", "target": {"type": "parquet"}},
        depends_on=["dws.totals"],
    )
    *_, mistake = analyse(lab.project, lab.spark)
    assert mistake.is_mistake
    assert mistake.text.startswith("unknown column totl")
