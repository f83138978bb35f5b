"""Files of tests: their mistakes are found with file and line, without Spark."""

import pytest

from logdriven_dagster.config.loading import load_project
from logdriven_dagster.errors import InvalidProjectError, UsageError
from logdriven_dagster.plugins.table_tests.files import load_tests
from tests.plugins.table_tests.conftest import Bench

TABLE = """
table: ods.orders
steps: [{step: load, sql: SELECT 1 AS id, target: {type: iceberg}}]
"""
TEST = """
test: one row
table: ods.orders
window: 2022-01-01
expect: {rows: [{id: 1}]}
"""


@pytest.fixture
def shop(tmp_path) -> Bench:
    bench = Bench(tmp_path)
    bench.table(TABLE)
    return bench


def load(shop: Bench, *selected: str) -> list[str]:
    return [test.spec.test for test in load_tests(load_project(shop.folder), selected)]


def mistakes(shop: Bench, text: str) -> list[str]:
    shop.write("tests/wrong.yaml", text)
    with pytest.raises(InvalidProjectError) as invalid:
        load(shop)
    return str(invalid.value).replace(f"{shop.folder}/tests/", "").splitlines()


def test_a_file_has_one_test_or_a_list_of_tests_of_one_table(shop: Bench):
    shop.write("tests/one.yaml", TEST)
    shop.write(
        "tests/several.yaml",
        """
        table: ods.orders
        tests:
          - {test: first, window: 2022-01-01, expect: {rows: []}}
          - {test: second, window: 2022-01-01, expect: {rows: []}}
        """,
    )
    assert load(shop) == ["one row", "first", "second"]


def test_tests_are_selected_by_table_or_file(shop: Bench):
    shop.table(TABLE.replace("orders", "customers"))
    shop.write("tests/one.yaml", TEST)
    shop.write("tests/two.yaml", TEST.replace("one row", "two").replace("orders", "customers"))
    assert load(shop, "ods.customers") == ["two"]
    assert load(shop, "ods.*") == ["one row", "two"]
    assert load(shop, "tests/one.yaml") == ["one row"]
    with pytest.raises(UsageError, match=r"unknown table or job 'ods.costumers'.*did you mean"):
        load(shop, "ods.costumers")


def test_a_project_without_tests_is_reported_with_the_command_that_writes_one(shop: Bench):
    with pytest.raises(UsageError, match=r"there is no test in .* --create TABLE"):
        load(shop)


@pytest.mark.parametrize(
    ("written", "instead", "mistake"),
    [
        ("window:", "windw:", "3: windw: unknown field; did you mean 'window'?"),
        ("ods.orders", "ods.order", "2: table: unknown table; did you mean 'ods.orders'?"),
        ("expect: {rows: [{id: 1}]}", "", "1: expect: missing; add the rows"),
        ("rows:", "row:", "4: expect.row: unknown field; did you mean 'rows'?"),
        ("rows: [{id: 1}]", "rows: 5", "4: expect.rows: must be"),
    ],
)
def test_a_mistake_has_file_line_and_fix(shop: Bench, written: str, instead: str, mistake: str):
    found = mistakes(shop, TEST.replace(written, instead))
    assert found[0].startswith(f"wrong.yaml:{mistake}"), found
