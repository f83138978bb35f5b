"""Rows of a source that belong to no window are reported: in the log, and by an audit."""

import sqlite3
from typing import Any

import pytest

from logdriven_dagster.cli.shown.results import build_window_result
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.events import WindowFailed, WindowSucceeded
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.runlog.observed import audits
from tests.execution.conftest import NOW, World

TABLE = """
    table: ods.orders
    period: 1 day
    default_start: 2022-01-01
    {fields}
    steps:
      - step: load
        source:
          {{type: csv, path: data/orders.csv, header: true, columns: "at TIMESTAMP, id INT",
            window_column: at}}
        target: {{type: iceberg, window_column: at}}
"""
ROWS = (
    "2022-01-01,1",
    "2022-01-02 12:00:00,2",
    ",3",
    "2021-12-31 23:59:59,4",
    "2022-01-04,5",
    "2202-01-04,6",
)


@pytest.fixture
def shop(world: World) -> World:
    return declared(world)


def declared(world: World, fields: str = "ordered: true", rows: tuple[str, ...] = ROWS) -> World:
    world.write("tables/orders.yaml", TABLE.format(fields=fields))
    world.write("data/orders.csv", "\n".join(["at,id", *rows]))
    return world


def reported_rows(world: World) -> list[SourceRows]:
    return world.runner.run_log.ask(lambda conn: audits.read_source_rows(conn, ["ods.orders"]))


def outputs(events: list[Any]) -> list[str]:
    return [event.steps[0].output for event in events if isinstance(event, WindowSucceeded)]


@pytest.mark.usefixtures("long")
def test_rows_of_no_window_are_reported_by_the_first_window_that_finds_them(
    spark: Any, shop: World
):
    first, *others = outputs(shop.catch_up(tables=["ods.orders"]))
    sentence = (
        "2 of 6 rows do not belong to any window: 1 with NULL or an invalid value, 1 before the"
    )
    assert first.startswith(sentence)
    assert not any("any window" in each for each in others)
    assert [
        (rows.total, rows.unplaced, rows.before, rows.after) for rows in reported_rows(shop)
    ] == [(6, 1, 1, 0)]


def test_sources_are_looked_at_again_only_when_their_files_have_changed(spark: Any, shop: World):
    shop.catch_up(tables=["ods.orders"], max_windows=1)
    (again,) = outputs(shop.catch_up(tables=["ods.orders"], max_windows=1))
    assert "any window" not in again
    declared(shop, rows=(*ROWS, ",7"))
    (changed,) = outputs(shop.catch_up(tables=["ods.orders"], max_windows=1))
    assert changed.startswith("3 of 7 rows")


def test_rows_after_the_end_belong_to_no_window(spark: Any, world: World):
    shop = declared(world, "end: 2022-01-04")
    shop.catch_up(tables=["ods.orders"], max_windows=1)
    assert [(rows.after, rows.outside) for rows in reported_rows(shop)] == [(2, 4)]


@pytest.mark.usefixtures("long")
def test_a_table_may_fail_for_rows_of_no_window(spark: Any, world: World):
    shop = declared(world, "rows_outside: fail")
    (failed,) = [e for e in shop.catch_up(tables=["ods.orders"]) if isinstance(e, WindowFailed)]
    assert "2 of 6 rows do not belong to any window" in failed.error
    declared(shop, "rows_outside: fail", ROWS[:2])
    assert len(outputs(shop.catch_up(tables=["ods.orders"]))) == 4


def test_a_table_may_not_care(world: World):
    shop = declared(world, "rows_outside: ignore")
    shop.catch_up(tables=["ods.orders"], max_windows=1)
    assert reported_rows(shop) == []


def test_the_windows_of_a_stretch_report_it_once(spark: Any, world: World):
    shop = declared(world, "batch_size: all")
    first, *others = outputs(shop.catch_up(tables=["ods.orders"]))
    assert first.startswith("2 of 6 rows")
    assert len(others) == 3
    assert not any("any window" in each for each in others)
    assert len(reported_rows(shop)) == 1


def test_an_audit_has_a_place_for_every_row(spark: Any, shop: World):
    shop.catch_up(tables=["ods.orders"], max_windows=2)
    (rows,) = shop.runner.audit("ods.orders", NOW)
    assert (rows.total, rows.done, rows.read, rows.pending, rows.future) == (6, 2, 2, 2, 1)
    assert (rows.unplaced, rows.before, rows.after, rows.late) == (1, 1, 0, 0)
    assert reported_rows(shop)[0].done == 2
    later = TABLE.replace("2022-01-01", "2022-01-02").format(fields="end: 2022-01-02 12:00")
    shop.write("tables/orders.yaml", later)  # what was read does not change
    (rows,) = shop.runner.audit("ods.orders", NOW)
    assert (rows.done, rows.read, rows.before, rows.after, rows.gone) == (2, 2, 1, 2, 0)


@pytest.mark.usefixtures("long")
def test_an_audit_finds_rows_that_came_after_their_window(spark: Any, world: World):
    shop = declared(world, rows=ROWS[:2])
    shop.catch_up(tables=["ods.orders"])
    declared(shop, rows=(*ROWS[:2], "2022-01-01 05:00:00,9"))
    (rows,) = shop.runner.audit("ods.orders", NOW)
    assert (rows.late, rows.lost) == (1, 1)
    assert rows.message == "1 rows arrived after their windows ran"


def test_an_audit_asks_databases(spark: Any, world: World):
    world.write("logdriven.yaml", "project: world\nconnections: {lite: {url: 'sqlite:///lite.db'}}")
    with sqlite3.connect(world.root / "lite.db") as conn:
        conn.execute("CREATE TABLE orders (id INTEGER, at TIMESTAMP)")
        days = ["2022-01-01 00:00:00", "2022-01-02 00:00:00", None, "2021-01-01 00:00:00"]
        conn.executemany("INSERT INTO orders VALUES (?, ?)", enumerate(days))
    files = "type: csv, path: data/orders.csv, header: true"
    database = "type: jdbc, connection: lite, table: orders"
    text = TABLE.format(fields="").replace(files, database)
    world.write("tables/orders.yaml", text.replace('columns: "at TIMESTAMP, id INT",', ""))
    (rows,) = world.runner.audit("ods.orders", NOW)
    assert (rows.total, rows.done, rows.unplaced, rows.before) == (4, 0, 1, 1)


@pytest.mark.usefixtures("long")
def test_an_audit_of_keys(spark: Any, world: World):
    text = """
        table: ods.orders
        incremental_type: auto_inc_id
        period: 1 day
        default_start: 1
        window_size: 2
        steps:
          - step: load
            source:
              {type: csv, path: data/orders.csv, header: true, columns: "id INT, n INT",
                key_column: id}
            target: {type: iceberg}
        """
    world.write("tables/orders.yaml", text)
    world.write("data/orders.csv", "id,n\n1,0\n2,0\n3,0\n4,0\n,0\n")
    world.catch_up(tables=["ods.orders"], max_windows=1)
    (rows,) = world.runner.audit("ods.orders", NOW)
    assert (rows.total, rows.unplaced, rows.before, rows.done, rows.pending) == (5, 1, 1, 2, 1)
    world.write("tables/orders.yaml", text.replace("default_start: 1", "default_start: 3"))
    (rows,) = world.runner.audit("ods.orders", NOW)
    assert (rows.before, rows.done, rows.pending, rows.gone) == (1, 2, 1, 0)


def test_a_table_without_such_a_column_cannot_be_audited(world: World):
    with pytest.raises(UsageError, match="none of its sources has a window_column"):
        world.runner.audit("ods.numbers", NOW)


def test_values_that_mean_no_time_belong_to_no_window(spark: Any, world: World):
    text = TABLE.format(fields="batch_size: all\n    end: 2022-01-04").replace(
        "at TIMESTAMP", "day STRING"
    )
    text = text.replace("window_column: at}", "window_column: {name: day, format: yyyyMMdd}}", 1)
    world.write("tables/orders.yaml", text.replace(", window_column: at}", "}"))
    days = (
        "20220101",
        "20220103",
        "",
        "20220231",
        "2022-01-02",
        "20211231",
        "20220104",
        "202201021",
    )
    world.write(
        "data/orders.csv", "\n".join(["day,id", *(f"{day},{n}" for n, day in enumerate(days))])
    )
    first, *_ = outputs(world.catch_up(tables=["ods.orders"]))
    assert first.startswith(
        "6 of 8 rows do not belong to any window: 4 with NULL or an invalid value, 1 b"
    )
    (found,) = world.runner.audit("ods.orders", NOW)
    assert (found.unplaced, found.before, found.after, found.done, found.read) == (4, 1, 1, 2, 2)


DATABASE = """
    table: ods.{name}
    period: 1 day
    default_start: 2022-01-01
    steps:
      - step: load
        source: {{type: jdbc, connection: lite, table: {name}, window_column: {column}}}
        target: {{type: parquet}}
"""
SECONDS = 1641168000  # 2022-01-03


def test_a_database_of_which_no_row_belongs_to_a_window_is_no_quiet_success(
    spark: Any, world: World
):
    world.write("logdriven.yaml", "project: world\nconnections: {lite: {url: 'sqlite:///lite.db'}}")
    numbers = {"nulls": [None, None], "before": [1, 2], "unit": [SECONDS * 1000], "empty": []}
    numbers |= {"later": [None, 1, SECONDS]}
    with sqlite3.connect(world.root / "lite.db") as conn:
        for name, values in numbers.items():
            conn.execute(f"CREATE TABLE {name} (ts BIGINT)")
            conn.executemany(f"INSERT INTO {name} VALUES (?)", [(each,) for each in values])
            column = "{name: ts, unit: epoch_s}"
            world.write(f"tables/{name}.yaml", DATABASE.format(name=name, column=column))
    found = {}
    for name in numbers:
        windows = 2 if name == "nulls" else 1
        succeeded = [
            event
            for event in world.catch_up(tables=[f"ods.{name}"], max_windows=windows)
            if isinstance(event, WindowSucceeded)
        ]
        first, *others = (event.steps[0].output.partition("; ")[0] for event in succeeded)
        assert not any("any window" in each for each in others)  # each process says it once
        result = build_window_result(succeeded[0])
        assert result is not None
        found[name] = (first if "any window" in first else "", result.rows_of_no_window)
    assert found == {
        "nulls": ("2 of 2 rows do not belong to any window: 2 with NULL or an invalid value", 2),
        "before": ("2 of 2 rows do not belong to any window: 2 before the first window", 2),
        "unit": ("1 of 1 rows do not belong to any window: 1 with NULL or an invalid value", 1),
        "empty": ("", None),
        "later": ("", None),
    }
    (rows,) = world.runner.run_log.ask(lambda conn: audits.read_source_rows(conn, ["ods.nulls"]))
    assert rows.outside == 2
