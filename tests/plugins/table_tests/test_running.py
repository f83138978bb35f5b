"""Tests of tables run on Spark, with the real write modes."""

from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from logdriven_dagster.plugins.table_tests.given.store import GivenTable
from logdriven_dagster.plugins.table_tests.given.target import GivenTarget
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


def test_a_failure_shows_texts_that_look_alike(shop: Bench):
    shop.table("""
        table: dwd.names
        depends_on: [ods.orders]
        steps:
          - step: name
            sql: |
              SELECT id, CASE id WHEN 1 THEN '' WHEN 3 THEN 'a ' WHEN 4 THEN 'e\u0301' END AS name
              FROM ods.orders
            target: {type: iceberg, key: [id], mode: upsert}
    """)
    assert shop.problems("""
        test: differences
        table: dwd.names
        window: 2022-01-02
        given:
          ods.orders:
            - {id: 1, ordered_at: 2022-01-02}
            - {id: 2, ordered_at: 2022-01-02}
            - {id: 3, ordered_at: 2022-01-02}
            - {id: 4, ordered_at: 2022-01-02}
        expect:
          rows:
            - {id: 1}
            - {id: 2, name: "NULL"}
            - {id: 3, name: a}
            - {id: 4, name: é}
    """)[1:] == [
        "     id  name",
        "  ~  1   NULL → ''           expected → found",
        "  ~  2   'NULL' → NULL       expected → found",
        "  ~  3   a → 'a '            expected → found",
        "  ~  4   '\\xe9' → 'e\\u0301'  expected → found",
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


def test_existing_rows_of_a_history_are_versions(bench: Bench):
    bench.table("""
        table: dim.customers
        steps:
          - step: load
            source:
              type: csv
              path: nowhere/customers.csv
              columns: id INT, city STRING, op STRING, at TIMESTAMP
              window_column: at
            sql: SELECT * FROM source
            target:
              type: delta
              mode: history
              key: [id]
              sequence_by: at
              deleted_when: op = 'D'
              track: [city]
              valid_from: since
    """)
    assert not bench.problems("""
        test: two changes of a day and a deletion
        table: dim.customers
        existing:
          - {id: 1, city: Gouda, since: 2021-12-30 05:00, valid_to: 2022-01-01 05:00}
          - {id: 1, city: Delft, since: 2022-01-01 05:00}
          - {id: 2, city: Breda, since: 2022-01-01 06:00}
        window: 2022-01-02
        given:
          source:
            - {id: 1, city: Ghent, op: U, at: 2022-01-02 06:00}
            - {id: 1, city: Ghent, op: D, at: 2022-01-02 08:00}
        expect:
          counts: {inserted: 1, updated: 1}
          rows:
            - {id: 1, city: Gouda, since: 2021-12-30 05:00, valid_to: 2022-01-01 05:00}
            - {id: 1, city: Delft, since: 2022-01-01 05:00, valid_to: 2022-01-02 06:00}
            - {id: 1, city: Ghent, since: 2022-01-02 06:00, valid_to: 2022-01-02 08:00}
            - {id: 2, city: Breda, since: 2022-01-01 06:00, valid_to: null}
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


def test_a_snapshot_table_needs_no_window(bench: Bench):
    bench.table("""
        table: ods.countries
        incremental_type: full
        steps:
          - step: load
            source:
              type: json
              path: countries.json
              columns: "code STRING, tags ARRAY<STRING>, at STRUCT<lat: DOUBLE, lon: DOUBLE>"
            target: {type: parquet, mode: overwrite}
    """)
    assert not bench.problems("""
        test: all rows are replaced
        table: ods.countries
        existing: [{code: FR}]
        given:
          source:
            - {code: DE, tags: [a, b], at: {lat: 52.5, lon: 13.25}}
            - {code: NL, tags: []}
        expect:
          exact: true
          rows:
            - {code: DE, tags: [a, b], at: {lat: 52.5, lon: 13.25}}
            - {code: NL, tags: []}
        then:
          - given: {source: []}
            expect: {rows: []}
    """)


def test_keys_after_the_start_of_the_window_are_read(bench: Bench):
    bench.table("""
        table: ods.events
        incremental_type: auto_inc_id
        steps:
          - step: load
            source: {type: jdbc, connection: crm, table: events, key_column: id}
            target: {type: iceberg}
    """)
    bench.write("logdriven.yaml", "project: shop\nconnections: {crm: {url: 'mysql://u@h/d'}}")
    assert not bench.problems("""
        test: the next keys follow
        table: ods.events
        existing: [{id: 10}]
        window: {start: 10, end: 12}
        given:
          load: [{id: 9}, {id: 10}, {id: 11}, {id: 12}, {id: 13}]
        expect:
          rows: [{id: 10}, {id: 11}, {id: 12}]
        then:
          - expect:
              rows: [{id: 10}, {id: 11}, {id: 12}, {id: 13}]
    """)


def test_new_files_are_read_once(bench: Bench):
    bench.table(
        """
        table: ods.events
        incremental_type: files
        default_start:
        steps:
          - step: load
            source: {type: csv, path: in/*.csv, columns: id INT}
            target: {type: iceberg}
    """.replace("        default_start:\n", "")
    )
    path = bench.folder / "tables/ods.events.yaml"
    path.write_text(path.read_text().replace("default_start: 2022-01-01", ""))
    assert not bench.problems("""
        test: files add rows
        table: ods.events
        given: {source: [{id: 1}]}
        expect: {rows: [{id: 1}]}
        then:
          - given: {source: [{id: 2}]}
            expect: {rows: [{id: 1}, {id: 2}]}
    """)


def test_a_table_of_deliveries_takes_the_windows_of_its_upstream(shop: Bench):
    shop.table("""
        table: dwd.orders
        incremental_type: upstream
        depends_on: [ods.orders]
        steps: [{step: load, sql: SELECT id FROM ods.orders, target: {type: iceberg}}]
    """)
    path = shop.folder / "tables/dwd.orders.yaml"
    path.write_text(path.read_text().replace("default_start: 2022-01-01", ""))
    assert not shop.problems("""
        test: the delivered day is read
        table: dwd.orders
        window: 2022-01-02
        given:
          ods.orders:
            - {id: 1, ordered_at: 2022-01-01}
            - {id: 2, ordered_at: 2022-01-02}
        expect: {rows: [{id: 2}]}
    """)


def test_rejected_rows_and_failures_can_be_expected(shop: Bench):
    rules = "    quality: {keep_rejected: true, columns: {amount: [positive]}}\n"
    check = "checks: [{check: small, sql: SELECT * FROM load WHERE amount > 100}]\n"
    shop.table(ORDERS + rules + check)
    given = "given: {source: [{id: 1, ordered_at: 2022-01-02, amount: %s}]}"
    assert not shop.problems(f"""
        table: ods.orders
        tests:
          - test: a negative amount is rejected
            window: 2022-01-02
            {given % -5}
            expect: {{rows: [], rejected: [{{id: 1}}]}}
          - test: the number of rejected rows
            window: 2022-01-02
            {given % -5}
            expect: {{rejected: 1, counts: {{target: 0}}}}
          - test: a large amount fails
            window: 2022-01-02
            {given % 500}
            expect: {{fails: small}}
    """)


def test_python_transforms_and_variables_are_the_real_ones(shop: Bench):
    shop.table("""
        table: dwd.orders
        depends_on: [ods.orders]
        variables: {factor: 2}
        steps: [{step: scale, python: "scale.py:scale", target: {type: iceberg}}]
    """)
    shop.write(
        "tables/scale.py",
        """
        def scale(ods_orders, variables):
            return ods_orders.selectExpr("id", f"amount * {variables['factor']} AS amount")
    """,
    )
    assert not shop.problems("""
        test: amounts are scaled
        table: dwd.orders
        window: 2022-01-02
        variables: {factor: 3}
        given: {ods.orders: [{id: 1, ordered_at: 2022-01-02, amount: 5}]}
        expect: {rows: [{id: 1, amount: 15}]}
    """)


DAY = "2022-01-02\n"


@pytest.mark.parametrize(
    ("written", "instead", "mistake"),
    [
        ("id: 1", "id: one", "7: given.source[0].id: must be a whole number (INT), not 'one'"),
        ("amount: 5", "amount: 5.001", "7: given.source[0].amount: must be a number with at most"),
        ("id: 1", "ids: 1", "7: given.source[0].ids: unknown column; did you mean 'id'?"),
        ("source:", "sourc:", "5: given.sourc: not a source or upstream of ods.orders; did you"),
        (DAY, "2022-01-02 01:00\n", "3: window: no window of ods.orders starts at this time"),
        (DAY, "2021-01-02\n", "3: window: ods.orders [2021-01-02, 2021-01-03) cannot run"),
        ("{id: 2}", "{idd: 2}", "9: expect.rows: the result has no column idd; did you mean 'id'"),
        ("window:", "variables: {a: 1}\nwindow:", "3: variables.a: not a variable of ods.orders"),
    ],
)
def test_a_mistake_in_a_test_has_its_place(shop: Bench, written: str, instead: str, mistake: str):
    text = """test: t
table: ods.orders
window: 2022-01-02
given:
  source:
    # the first order
    - {id: 1, amount: 5}
expect:
  rows: [{id: 2}]
"""
    (outcome,) = shop.run(text.replace(written, instead))
    assert outcome.is_broken
    assert str(outcome.problems[0]).startswith(f"{shop.folder}/tests/0.yaml:{mistake}")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[{"id": 1},\n{"id": "one"}]', "orders.json: row 2: id: must be a whole number"),
        ('{"id": 1}\n\n{"id": "one"}', "orders.json:3: id: must be a whole number"),
    ],
)
def test_a_mistake_in_a_file_of_rows_has_its_place(shop: Bench, text: str, place: str):
    shop.write("tests/orders.json", text)
    (outcome,) = shop.run("""
        test: t
        table: ods.orders
        window: 2022-01-02
        given: {source: {json: orders.json}}
        expect: {rows: []}
    """)
    assert str(outcome.problems[0]).startswith(f"{shop.folder}/tests/{place}")


def test_columns_of_given_rows_have_the_types_that_spark_reads(tmp_path: Path, spark: Any):
    numbers = pa.array([1], pa.uint8())
    whole = pa.array([{"a b": [1]}], pa.struct([("a b", pa.list_(pa.int16()))]))
    times = pa.array([datetime(2022, 1, 2)], pa.timestamp("us"))
    for name, table in {
        "plain": pa.table({"n": whole, "t": times, "u": times.cast(pa.timestamp("us", "UTC"))}),
        "unsigned": pa.table({"n": numbers}),
    }.items():
        path = tmp_path / f"{name}.parquet"
        parquet.write_table(table, path)
        context: Any = SimpleNamespace(spark=spark)
        given = GivenTable(context, "ods.given", GivenTarget(mode="append", path=str(path)))
        assert given.read(None).schema == spark.read.parquet(str(path)).schema
