"""Variables of Sharp ETL's workflows. Source: Sharp ETL, VariablesUtil."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.plugins.importers.conftest import Folder
from tests.plugins.importers.sharpetl.conftest import HEAD, listed

ROW = """
    -- step=newest
    -- source=mysql
    --  dbName=shop
    -- target=variables
    SELECT max(id) AS `LAST` FROM orders
"""
USED = """
    -- step=load
    -- source=mysql
    --  dbName=shop
    -- target=csv
    --  filePath=out
    SELECT * FROM orders WHERE id > ${LAST}
"""


def test_values_of_a_row_are_read_by_a_step_of_their_own(
    folder: Folder, brought: Callable[..., Any]
):
    told = brought(HEAD + ROW + USED)
    read, load = folder.values("tables/w.yaml")["steps"]
    assert read == {
        "step": "variables_newest",
        "source": {
            "type": "jdbc",
            "connection": "shop",
            "query": "SELECT max(id) AS `LAST` FROM orders",
        },
        "sql": "SELECT * FROM source LIMIT 1",
    }
    assert load["loop_over"] == "variables_newest"
    assert load["source"]["query"] == "SELECT * FROM orders WHERE id > ${row_LAST}"
    assert "without one, or with NULL, the window fails" in told["notes"][0]["reason"]


def test_values_of_several_rows_are_joined_by_name(folder: Folder, brought: Callable[..., Any]):
    """The first LAST has no part in it: a later variable replaces an earlier one."""
    other = ROW.replace("newest", "count").replace("max(id) AS `LAST`", "1 AS `N`, 2 AS `LAST`")
    brought(HEAD + ROW + other.replace("1 AS", "count(*) AS") + USED.replace("> $", "> ${N} + $"))
    assert folder.values("tables/w.yaml")["steps"][-1]["loop_over"] == "variables_count"
    third = ROW.replace("newest", "third").replace("LAST", "M")
    text = HEAD + ROW + third + USED.replace("> $", "> ${M} + $")
    brought(text, options=("--overwrite",))
    assert folder.values("tables/w.yaml")["steps"][-1]["loop_over"] == {
        "sql": "SELECT variables_third.`M`, variables_newest.`LAST` "
        "FROM variables_third CROSS JOIN variables_newest"
    }


def test_a_row_with_a_text_of_sql_is_listed(folder: Folder, brought: Callable[..., Any]):
    """Source: Sharp ETL's dimension templates; no value becomes a part of a query here."""
    row = ROW.replace("max(id)", "concat('where id > ', max(id))")
    told = brought(HEAD + row + USED.replace("WHERE id > ", ""), code=1)
    assert "LAST is a text of SQL" in told["untranslated"][0]["reason"]
    assert folder.values("tables/w.yaml")["release_state"] == "offline"


def test_a_constant_with_a_second_value_is_listed(folder: Folder, brought: Callable[..., Any]):
    """A variable of the table has one value in all steps."""
    one = """
    -- step=a
    -- target=variables
    SELECT 'eu' AS AREA
"""
    told = brought(HEAD + one + one.replace("=a", "=b").replace("eu", "us") + USED, code=1)
    assert "AREA gets a second value" in told["untranslated"][0]["reason"]
    assert folder.values("tables/w.yaml")["release_state"] == "offline"


def test_a_loop_with_values_of_another_row_is_listed(folder: Folder, brought: Callable[..., Any]):
    names = """
    -- step=names
    -- target=temp
    --  tableName=names
    SELECT 'a' AS city
"""
    loop = USED.replace("filePath=out", "filePath=out\n    -- loopOver=names")
    told = brought(HEAD + ROW + names + loop, code=1)
    assert ("22", "loopOver=names") in listed(told)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("'${DATA_RANGE_END}'", "${DATA_RANGE_END}"),
        (
            "from_unixtime(unix_timestamp('${DATA_RANGE_END}', 'yyyy-MM-dd HH:mm:ss'), 'yyyyMMdd')",
            "${DATA_RANGE_END:yyyyMMdd}",
        ),
        (
            "from_unixtime(unix_timestamp('${DATA_RANGE_START}'), 'yyyy-MM-dd HH:mm:ss')",
            "${DATA_RANGE_START}",
        ),
        (
            "date_format(to_timestamp('${DATA_RANGE_START}'), \"yyyy/MM\")",
            "${DATA_RANGE_START:yyyy/MM}",
        ),
        ("date_format('${DATA_RANGE_START}', 'HH')", "${DATA_RANGE_START:HH}"),
    ],
)
def test_a_formatted_bound_is_a_text_in_databases_as_well(
    folder: Folder, brought: Callable[..., Any], expression: str, text: str
):
    day = f"""
    -- step=day
    -- target=variables
    SELECT {expression} AS LAST
"""
    brought(HEAD + day + USED.replace("${LAST}", "'p_${LAST}'"))
    (load,) = folder.values("tables/w.yaml")["steps"]
    assert load["source"]["query"] == f"SELECT * FROM orders WHERE id > 'p_{text}'"


@pytest.mark.parametrize("given", ["YYYY", "yyyyyy", "MMM", "yyyy-MM-dd'T'HH", "[HH]"])
def test_a_format_with_another_meaning_is_not_a_text(
    folder: Folder, brought: Callable[..., Any], given: str
):
    day = f"""
    -- step=day
    -- target=variables
    SELECT date_format('${{DATA_RANGE_START}}', "{given}") AS LAST
"""
    brought(HEAD + day + USED, code=1)
    assert folder.values("tables/w.yaml")["release_state"] == "offline"
