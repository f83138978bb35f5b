"""Comparison of rows on Spark: by key, or by the numbers of equal rows."""

from typing import Any

import pytest
from pyspark.sql import types

from logdriven_dagster.engine.comparison.columns import match_columns
from logdriven_dagster.engine.comparison.comparable import make_comparable
from logdriven_dagster.engine.comparison.values import QueryRows, Rule, TableRows
from logdriven_dagster.engine.targets.contents import contents_of
from logdriven_dagster.errors import StepError, TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab

ODD = """
    SELECT * FROM VALUES
      (1, NULL, double('NaN'), 1.10BD, map('a', 1, 'b', 2), named_struct('x', array(1, NULL))),
      (NULL, 'x', -0.0D, NULL, NULL, NULL)
    AS t(id, word, number, money, pairs, nested)
"""
SAME = """
    SELECT * FROM VALUES
      (NULL, 'x', 0.0D, NULL, NULL, NULL),
      (1, NULL, double('NaN'), 1.10BD, map('b', 2, 'a', 1), named_struct('x', array(1, NULL)))
    AS t(id, word, number, money, pairs, nested)
"""


def compare(lab: Lab, one: str, other: str, **rule: Any) -> Any:
    """Compare the results of two queries, each the rows of a table."""
    for name, sql in {"ods.one": one, "ods.other": other}.items():
        lab.table(name, {"sql": sql, "target": {"type": "parquet", "mode": "overwrite"}})
        lab.run(name, day(1))
    return lab.engine.compare(TableRows("ods.one"), TableRows("ods.other"), Rule(**rule))


def rows(*values: str, columns: str = "id, n") -> str:
    return f"SELECT * FROM VALUES {', '.join(values)} AS t({columns})"


@pytest.mark.parametrize("key", [(), ("id",)])
def test_equal_values_of_every_kind_are_equal(lab: Lab, key: tuple[str, ...]):
    found = compare(lab, ODD, SAME, key=key, examples=5)
    assert found.is_equal
    assert (found.left_rows, found.right_rows, found.examples) == (2, 2, ())


def test_variants_of_one_text_and_two_types_differ(lab: Lab):
    one, other = "CAST(DATE'2022-01-01' AS VARIANT)", "CAST('2022-01-01' AS VARIANT)"
    texts = [make_comparable(each, types.VariantType()) for each in (one, one, other)]
    (row,) = lab.spark.sql(f"SELECT {', '.join(texts)}").collect()
    assert row[0] == row[1] != row[2]


@pytest.mark.connect
def test_other_values_are_found_in_their_columns(lab: Lab):
    other = """
        SELECT * FROM VALUES
          (NULL, 'x', NULL, NULL, map(), named_struct('x', NULL)),
          (1, '', 1.0D, 1.11BD, map('a', 1, 'b', 3), named_struct('x', array(1)))
        AS t(id, word, number, money, pairs, nested)
    """
    found = compare(lab, ODD, other, key=("ID",), examples=5)
    counts = {"word": 1, "number": 2, "money": 1, "pairs": 2, "nested": 2}
    assert (dict(found.columns), found.differing) == (counts, 2)
    shown = {(each.column, each.row["id"]): (each.left, each.right) for each in found.examples}
    assert len(found.examples) == len(shown) == 8
    assert shown["number", "1"] == ("NaN", "1.0")
    assert shown["pairs", "1"] == ('{"a":1,"b":2}', '{"a":1,"b":3}')
    assert shown["pairs", None] == (None, "{}")
    assert shown["nested", "1"] == ('{"x":[1,null]}', '{"x":[1]}')


def test_rows_on_one_side_are_separate_from_rows_that_differ(lab: Lab):
    found = compare(
        lab,
        rows("(1, 1)", "(2, 2)", "(3, 3)"),
        rows("(2, 2)", "(3, 30)", "(4, 4)", "(5, 5)"),
        key=("id",),
        examples=1,
    )
    assert (found.only_left, found.only_right, found.differing) == (1, 2, 1)
    assert (found.left_rows, found.right_rows, found.matched_rows) == (3, 4, 2)
    shown = [(each.column, dict(each.row), each.left, each.right) for each in found.examples]
    assert shown == [
        (None, {"id": "1", "n": "1"}, "1", "0"),
        (None, {"id": "4", "n": "4"}, "0", "1"),
        ("n", {"id": "3"}, "3", "30"),
    ]


def test_without_a_key_equal_rows_are_counted(lab: Lab):
    found = compare(
        lab, rows("(1, 1)", "(1, 1)", "(2, 2)"), rows("(1, 1)", "(2, 2)", "(2, 2)"), examples=5
    )
    assert (found.only_left, found.only_right, found.matched_rows) == (1, 1, 2)
    assert [(dict(each.row), each.left, each.right) for each in found.examples] == [
        ({"id": "1", "n": "1"}, "2", "1"),
        ({"id": "2", "n": "2"}, "1", "2"),
    ]


def test_a_key_with_several_rows_is_reported_and_not_used(lab: Lab):
    found = compare(lab, rows("(1, 1)", "(1, 2)"), rows("(1, 1)", "(1, 3)"), key=("id",))
    assert found.duplicates == (1, 1)
    assert (found.only_left, found.only_right, found.differing) == (1, 1, 0)


def test_empty_sides_are_equal(lab: Lab):
    empty = rows("(1, 1)") + " WHERE id > 1"
    for key in ((), ("id",)):
        found = compare(lab, empty, empty, key=key)
        assert found.is_equal
        assert found.left_rows == 0


def test_a_tolerance_is_for_floating_point_numbers_alone(lab: Lab):
    columns = "id, x, m"
    one = rows("(1, 1.0D, 1.0BD)", "(2, double('NaN'), 1.0BD)", columns=columns)
    other = rows("(1, 1.05D, 1.1BD)", "(2, 1.0D, 1.0BD)", columns=columns)
    found = compare(lab, one, other, key=("id",), tolerance=0.1)
    assert dict(found.columns) == {"x": 1, "m": 1}
    with pytest.raises(TerminalStepError, match="--tolerance must have a key"):
        compare(lab, one, other, tolerance=0.1)


def test_columns_of_one_side_and_other_types_are_differences(lab: Lab):
    found = compare(
        lab,
        rows("(1, 1, 'a', 1)", columns="id, n, word, gone"),
        rows("(1, 1L, 2, 1)", columns="ID, n, word, new"),
        key=("id",),
    )
    described = [(each.column, each.left, each.right, each.is_compared) for each in found.schema]
    assert described == [
        ("n", "int", "bigint", True),
        ("word", "string", "int", False),
        ("gone", "int", None, False),
        ("new", None, "int", False),
    ]
    assert not found.is_equal
    assert not found.differing


def test_chosen_columns_alone_are_compared(lab: Lab):
    columns = "id, a, b"
    one, other = rows("(1, 1, 1)", columns=columns), rows("(1, 1, 2)", columns=columns)
    assert compare(lab, one, other, key=("id",), columns=("a",)).is_equal
    assert compare(lab, one, other, exclude=("B",)).is_equal
    with pytest.raises(TerminalStepError, match="--columns: no side has a column c"):
        compare(lab, one, other, columns=("c",))


def test_a_query_on_a_database_is_a_side(lab: Lab):
    from sqlalchemy import create_engine, text

    url = lab.project.connection("lite").url
    engine = create_engine(url)
    with engine.begin() as conn:
        conn.execute(text("DROP TABLE IF EXISTS compared"))
        conn.execute(text("CREATE TABLE compared (id BIGINT, word VARCHAR(9))"))
        conn.execute(text("INSERT INTO compared VALUES (1, 'a'), (2, NULL)"))
    lab.table(
        "ods.one",
        {"sql": rows("(1L, 'a')", "(2L, 'b')", columns="id, word"), "target": {"type": "parquet"}},
    )
    lab.run("ods.one", day(1))
    query = QueryRows("lite", "SELECT id, word FROM compared")
    found = lab.engine.compare(TableRows("ods.one"), query, Rule(key=("id",), examples=5))
    assert dict(found.columns) == {"word": 1}
    assert [(each.left, each.right) for each in found.examples] == [("b", None)]
    with pytest.raises(StepError):
        lab.engine.compare(TableRows("ods.one"), QueryRows("lite", "SELECT x FROM no"), Rule())


def test_a_side_with_two_columns_of_one_name_is_refused():
    one = types.StructType().add("id", types.IntegerType())
    twice = types.StructType().add("word", types.StringType()).add("WORD", types.StringType())
    with pytest.raises(TerminalStepError, match="the right side must not have two columns of one"):
        match_columns(one, twice, Rule())


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_an_earlier_snapshot_is_read_with_its_columns_and_windows(lab: Lab, kind: str):
    lab.table(
        "ods.t", {"sql": "SELECT day(:data_range_start) AS d, 1 AS n", "target": {"type": kind}}
    )
    for n in (1, 2):
        lab.run("ods.t", day(n))
    project = lab.project
    target = project.table("ods.t").output

    def snapshots() -> Any:
        return contents_of(target).list_snapshots(project, "ods.t", target)

    before = snapshots()
    lab.table(
        "ods.t",
        {"sql": "SELECT day(:data_range_start) AS d, 2 AS n, 'x' AS new", "target": {"type": kind}},
    )
    ran = lab.run("ods.t", day(2))
    history = snapshots()
    assert history.snapshots[: len(before.snapshots)] == before.snapshots
    assert history.snapshots[-1].id == ran.published[0].snapshot_id
    assert len(history.snapshots[-1].job_ids) == 1
    old = TableRows("ods.t", snapshot=before.snapshots[-1].id)
    found = lab.engine.compare(old, TableRows("ods.t"), Rule(key=("d",)))
    assert dict(found.columns) == {"n": 1}
    assert [each.column for each in found.schema] == ["new"]
    first = [TableRows("ods.t", day(1), side.snapshot) for side in (old, TableRows("ods.t"))]
    found = lab.engine.compare(first[0], first[1], Rule(key=("d",), columns=("n",)))
    assert found.is_equal
    assert found.left_rows == 1


def test_an_expired_snapshot_of_iceberg_is_refused(lab: Lab):
    lab.table("ods.t", {"sql": "SELECT 1 AS n", "target": {"type": "iceberg"}})
    lab.run("ods.t", day(1))
    with pytest.raises(TerminalStepError, match="snapshot 17 has expired"):
        lab.engine.compare(TableRows("ods.t", snapshot="17"), TableRows("ods.t"), Rule())


def test_targets_of_files_have_no_snapshots(lab: Lab):
    lab.table("ods.t", {"sql": "SELECT 1 AS n", "target": {"type": "parquet"}})
    project = lab.project
    target = project.table("ods.t").output
    assert contents_of(target).list_snapshots(project, "ods.t", target) is None


def test_two_windows_of_a_table_are_compared(lab: Lab):
    lab.table(
        "ods.t",
        {"sql": "SELECT day(:data_range_start) AS d, 1 AS id", "target": {"type": "iceberg"}},
    )
    for window in (day(1), day(2)):
        lab.run("ods.t", window)
    sides = TableRows("ods.t", day(1)), TableRows("ods.t", day(2))
    assert lab.engine.compare(*sides, Rule(key=("id",), exclude=("d",))).is_equal
    assert dict(lab.engine.compare(*sides, Rule(key=("id",))).columns) == {"d": 1}
