"""Tables in queries: found, and replaced without touching anything else."""

import pytest

from logdriven_dagster.config.sql.references import (
    UnreadableSqlError,
    find_table_references,
    replace_tables,
)


def test_the_tables_of_a_query_are_found_without_its_ctes():
    sql = "WITH d AS (SELECT * FROM ods.a) SELECT * FROM d JOIN `ods`.`b` ON true, c"
    assert find_table_references(sql) == {"ods.a", "ods.b", "c"}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM ods.a", "SELECT * FROM `v` AS `a`"),
        ("SELECT * FROM ods.a x", "SELECT * FROM `v` x"),
        ("SELECT * FROM ODS.`a` AS x", "SELECT * FROM `v` AS x"),
        ("SELECT ods.a.id, a.id FROM ods.a", "SELECT `a`.id, a.id FROM `v` AS `a`"),
        ("SELECT 'ods.a' FROM ods.b", "SELECT 'ods.a' FROM ods.b"),
        ("SELECT 1 -- ods.a\nFROM ods.a", "SELECT 1 -- ods.a\nFROM `v` AS `a`"),
        (
            "SELECT * FROM ods.a WHERE d >= :data_range_start AND x = '${DAY}'",
            "SELECT * FROM `v` AS `a` WHERE d >= :data_range_start AND x = '${DAY}'",
        ),
        ("SELECT * FROM ods.ab", "SELECT * FROM ods.ab"),
    ],
)
def test_only_the_tables_names_change(sql, expected):
    assert replace_tables(sql, {"ods.a": "v"}) == expected


def test_a_query_that_cannot_be_parsed_is_reported():
    with pytest.raises(UnreadableSqlError):
        replace_tables("SELECT FROM FROM ods.a WHERE (", {"ods.a": "v"})
