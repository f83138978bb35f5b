"""Which conditions of a query are those of one of its tables, wherever they are evaluated."""

import pytest

from logdriven_dagster.config.sql.own_filters import find_table_uses, reads_whole

COLUMNS = {"source": ["at", "origin", "case"], "ods.t": ["id", "at"]}


def conditions(sql: str) -> dict[str, str]:
    """Alias → condition."""
    return {use.alias: use.condition for use in find_table_uses(sql, COLUMNS, COLUMNS.__getitem__)}


@pytest.mark.parametrize(
    "own",
    [
        ["at >= TIMESTAMP '2022-01-01Z'", "at < :b"],
        ["at BETWEEN 1 AND 2", "origin = 'x'"],
        ["at > 1 OR at < 0 AND origin = 'x'"],
        ["(at > 1 OR at < 0)", "origin IN ('x', 'y')"],
        ["CASE WHEN at > 1 AND at < 2 THEN true END AND at > 0"],
        ["source.at > 1", "origin LIKE 'a%'"],
    ],
)
def test_a_condition_is_the_tables_own_if_it_asks_its_columns_alone(own):
    found = conditions(f"SELECT * FROM source WHERE {' AND '.join(own)}")
    assert found["source"] == " AND ".join(f"({each})" for each in own)


@pytest.mark.parametrize(
    "other",
    ["rand() < at", "whose(origin)", "at IN (SELECT id FROM ods.t)", "other.at > 1", "nobody > 1"],
)
def test_another_condition_is_left_to_the_query(other):
    assert conditions(f"SELECT * FROM source WHERE {other}")["source"] == ""
    assert conditions(f"SELECT * FROM source WHERE {other} AND at > 1")["source"] == "(at > 1)"


def test_it_ends_where_the_clause_ends():
    sql = "SELECT at, count(*) FROM source WHERE at > 1 GROUP BY at HAVING count(*) > 1 ORDER BY at"
    assert conditions(sql) == {"source": "(at > 1)"}


def test_each_place_has_its_own():
    sql = "SELECT * FROM source a WHERE at > 1 UNION ALL SELECT * FROM source b WHERE at < 0"
    assert conditions(sql) == {"a": "(at > 1)", "b": "(at < 0)"}
    nested = "SELECT * FROM (SELECT * FROM source WHERE at > 1) x WHERE origin = 'x'"
    assert conditions(nested) == {"source": "(at > 1)"}


@pytest.mark.parametrize(
    ("join", "found"),
    [
        ("JOIN", {"s": "(s.at > 1)", "t": "(t.id = 2)"}),
        ("LEFT JOIN", {"s": "(s.at > 1)", "t": ""}),
        ("RIGHT JOIN", {"s": "", "t": ""}),
        ("FULL JOIN", {"s": "", "t": ""}),
        ("NATURAL JOIN", {"s": "", "t": ""}),
    ],
)
def test_below_an_outer_join_only_the_preserved_side_is_filtered_first(join, found):
    on = "" if "NATURAL" in join else "ON s.at = t.at"
    assert (
        conditions(f"SELECT * FROM source s {join} ods.t t {on} WHERE s.at > 1 AND t.id = 2")
        == found
    )


@pytest.mark.parametrize(
    ("sql", "whole"),
    [
        ("SELECT 'limit' FROM source, (VALUES (1)) v", True),
        ("WITH c AS (SELECT * FROM source) SELECT * FROM c", True),
        ("SELECT * FROM (SELECT * FROM source LIMIT 5) x", False),
        ("SELECT * FROM source JOIN other", False),
        ("SELECT * FROM range(9)", False),
        ("SELECT * FROM source ORDER BY 1", False),
        ("SELECT max(x) OVER (ORDER BY y) FROM source", True),
        ("SELECT /*+ repartition_by_range(x) */ * FROM source", False),
        ("SELECT * FROM source a JOIN source b ON a.x = b.x", True),
        ("SELECT * FROM source a JOIN source b USING (x)", True),
        ("SELECT * FROM source a JOIN source b ON a.x < b.x", False),
        ("SELECT * FROM source a CROSS JOIN source b", False),
    ],
)
def test_a_limit_and_what_else_is_read_are_seen(sql, whole):
    assert reads_whole(sql, ["source"]) == whole
