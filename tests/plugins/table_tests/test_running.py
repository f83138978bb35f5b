"""Tests of tables run on Spark, with the real write modes."""

import pytest

from tests.plugins.table_tests.conftest import Bench

ORDERS = """
table: ods.orders
steps:
  - step: load
    source:
      type: csv
      path: nowhere/orders.csv
      columns: id INT, ordered_at TIMESTAMP, amount DECIMAL(12, 2)
      window_column: ordered_at
    target: {type: iceberg, window_column: ordered_at}
"""
DAILY = """
table: dws.daily
depends_on: [ods.orders]
steps:
  - step: sum
    sql: |
      SELECT CAST(:data_range_start AS DATE) AS day, count(*) AS orders, sum(amount) AS amount
      FROM ods.orders
    target: {type: iceberg}
"""


@pytest.fixture
def shop(bench: Bench) -> Bench:
    bench.table(ORDERS)
    bench.table(DAILY)
    return bench


def test_an_upstream_gives_the_rows_of_the_window_in_the_zone_of_the_project(shop: Bench):
    assert not shop.problems("""
        test: midnight belongs to the new day
        table: dws.daily
        window: 2022-01-02
        given:
          ods.orders:
            - {id: 1, ordered_at: 2022-01-01 23:59:59, amount: 5}
            - {id: 2, ordered_at: 2022-01-02 00:00:00, amount: 7}
        expect:
          exact: true
          rows:
            - {day: 2022-01-02, orders: 1, amount: 7}
    """)


def test_a_source_gives_the_rows_of_the_window_and_is_not_read(shop: Bench):
    assert not shop.problems("""
        test: orders of the window are loaded
        table: ods.orders
        window: 2022-01-02
        given:
          source:
            - {id: 1, ordered_at: 2022-01-01 23:59:59}
            - {id: 2, ordered_at: 2022-01-02 00:00:00, amount: 7.25}
        expect:
          counts: {source: 1, target: 1}
          rows: [{id: 2, ordered_at: 2022-01-02 00:00:00, amount: 7.25}]
    """)


def test_a_failure_shows_the_rows_that_differ(shop: Bench):
    assert shop.problems("""
        test: differences
        table: ods.orders
        window: 2022-01-02
        given:
          source:
            - {id: 1, ordered_at: 2022-01-02, amount: 5}
            - {id: 2, ordered_at: 2022-01-02, amount: 6}
            - {id: 3, ordered_at: 2022-01-02, amount: 7}
        expect:
          rows:
            - {id: 1, amount: 5}
            - {id: 2, amount: 9}
            - {id: 8, amount: 8}
    """) == [
        "tests/0.yaml:10: ods.orders has other rows: 3 expected, 3 found",
        "     id  amount",
        "  ~  2   9.00 → 6.00  expected → found",
        "  -  8   8.00         missing",
        "  +  3   7.00         unexpected",
    ]


def test_production_is_not_touched(shop: Bench):
    assert not shop.problems("""
        test: nothing is written
        table: ods.orders
        window: 2022-01-02
        given: {source: []}
        expect: {rows: []}
    """)
    assert sorted(path.name for path in shop.folder.iterdir()) == [
        "logdriven.yaml",
        "tables",
        "tests",
    ]


def test_rows_of_an_upsert_are_merged_with_the_existing_ones(bench: Bench):
    bench.table("""
        table: ods.customers
        columns: id INT, name STRING, seen_on DATE
        steps:
          - step: load
            source: {type: jdbc, connection: crm, table: customers, window_column: seen_on}
            target: {type: iceberg, mode: upsert, key: [id]}
    """)
    bench.write(
        "logdriven.yaml", "project: shop\nconnections: {crm: {url: 'postgresql://u:${env:NO}@h/d'}}"
    )
    assert not bench.problems("""
        test: a known customer is updated
        table: ods.customers
        existing:
          - {id: 1, name: Ada}
          - {id: 2, name: Emmy}
        window: 2022-01-02
        given:
          source:
            columns: id INT, name STRING, seen_on DATE
            rows:
              - {id: 2, name: Noether, seen_on: 2022-01-02}
              - {id: 3, name: Carl, seen_on: 2022-01-02}
              - {id: 4, name: Late, seen_on: 2022-01-03}
        expect:
          counts: {inserted: 1, updated: 1}
          rows:
            - {id: 1, name: Ada}
            - {id: 2, name: Noether}
            - {id: 3, name: Carl}
        then:
          - window: 2022-01-03
            expect:
              rows: [{id: 1}, {id: 2}, {id: 3}, {id: 4}]
    """)


@pytest.mark.parametrize(
    ("mode", "rows"),
    [("append", "[1, 2, 4]"), ("overwrite_window", "[1, 2, 4]"), ("overwrite", "[4]")],
)
def test_a_rerun_replaces_what_its_write_mode_replaces(shop: Bench, mode: str, rows: str):
    shop.table(
        ORDERS.replace(
            "{type: iceberg, window_column: ordered_at}", f"{{type: iceberg, mode: {mode}}}"
        )
    )
    expected = ", ".join(f"{{id: {n}}}" for n in rows.strip("[]").split(", "))
    assert not shop.problems(f"""
        test: a late row replaces the rows of its window only
        table: ods.orders
        existing:
          - {{id: 1, ordered_at: 2022-01-01, _window_start: 2022-01-01}}
          - {{id: 2, ordered_at: 2022-01-02, _window_start: 2022-01-02}}
        windows: [2022-01-03]
        given: {{source: [{{id: 3, ordered_at: 2022-01-03}}]}}
        then:
          - window: 2022-01-03
            given: {{source: [{{id: 4, ordered_at: 2022-01-03 10:00}}]}}
            expect: {{rows: [{expected}]}}
    """)
