"""A look shows what Spark would read, without Spark where the target can do without."""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyarrow import parquet
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from logdriven_dagster.engine.arrow.values import records
from logdriven_dagster.engine.looking import look
from logdriven_dagster.errors import (
    NotPublishedError,
    TerminalStepError,
    UsageError,
)
from logdriven_dagster.model.windows import TimeWindow, convert_to_zone
from tests.builders import at, day, days
from tests.engine.foreign_tables import append, data_files, deleted_rows, foreign_table
from tests.engine.laboratory import Lab

QUICK: Mapping[str, Mapping[str, Any]] = {
    "iceberg": {"type": "iceberg"},
    "delta": {"type": "delta"},
    "parquet": {"type": "parquet"},
}
SLOW: Mapping[str, Mapping[str, Any]] = {
    "orc": {"type": "orc"},
    "csv": {"type": "csv"},
    "json": {"type": "json"},
    "sqlite": {"type": "jdbc", "connection": "lite", "table": "t"},
}
TYPES = """
    SELECT int(day(:data_range_start)) AS n, CAST(1.50 AS DECIMAL(20, 2)) AS money,
           :data_range_start + INTERVAL 90 MINUTE AS at,
           TIMESTAMP_NTZ '2026-03-29 02:30:00.000001' AS wall, DATE '1582-10-10' AS on_day,
           named_struct('a', array(1, NULL), 'at', TIMESTAMP '2026-10-25 01:30:00Z') AS nested,
           map('k', 1.5D) AS m, CAST(NULL AS STRING) AS nothing, true AS flag,
           float('NaN') AS nan, X'00ff' AS bytes, 'é\n"' AS words, tinyint(7) AS tiny
"""


@pytest.fixture(params=QUICK)
def target(request: pytest.FixtureRequest) -> Any:
    return dict(QUICK[request.param])


def no_spark() -> Any:
    pytest.fail("Spark was asked for")


def seen(lab: Lab, table: str = "ods.t", **given: Any) -> list[dict[str, Any]]:
    """What a look shows of a table, without Spark."""
    options = {"limit": 100, **given}
    project = lab.project
    return [dict(row) for row in records(look(project, no_spark, table, **options), project.zone)]


def by_spark(lab: Lab, **given: Any) -> list[dict[str, Any]]:
    options = {"window": None, "sql": None, "limit": 100, **given}
    project = lab.project
    read = lab.engine.look("ods.t", options["window"], options["sql"], options["limit"])
    return [dict(row) for row in records(read, project.zone)]


def same(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.sampled
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_values_of_every_type_are_those_of_spark(lab: Lab, target: Any, zone: str):
    lab.settings["timezone"] = zone
    lab.table("ods.t", {"sql": TYPES, "target": target})
    for n in (1, 2):
        lab.run("ods.t", lab.project.table("ods.t").grid.window(n))
    rows = seen(lab)
    assert len(rows) == 2
    assert same(rows) == same(by_spark(lab))
    (row,) = [row for row in rows if row["n"] == 2]
    assert row["money"] == Decimal("1.50")
    assert row["at"] == datetime(2022, 1, 2, 1, 30, tzinfo=ZoneInfo(zone))
    assert row["on_day"] == date(1582, 10, 10)
    assert row["nothing"] is None
    assert row["nested"]["at"].timestamp() == at("2026-10-25 01:30").timestamp()


COLLECTIONS = {
    "a list": "CAST(NULL AS ARRAY<STRUCT<a: INT>>)",
    "a map": "CAST(NULL AS MAP<STRING, STRUCT<a: INT>>)",
    "a list in a struct": "named_struct('l', CAST(NULL AS ARRAY<STRUCT<a: INT>>))",
}


@pytest.mark.sampled
@pytest.mark.parametrize("case", COLLECTIONS)
def test_a_null_collection_of_structs_is_shown_as_null(lab: Lab, target: Any, case: str):
    lab.table("ods.t", {"sql": f"SELECT 1 AS id, {COLLECTIONS[case]} AS v", "target": target})
    lab.run("ods.t", day(1))
    project = lab.project
    found = look(project, lambda: lab.engine, "ods.t", limit=10)
    value = {"l": None} if case == "a list in a struct" else None
    assert [row["v"] for row in records(found, project.zone)] == [value]


def test_collections_of_structs_without_null_are_shown_without_spark(lab: Lab, target: Any):
    sql = "SELECT array(named_struct('a', 1)) AS l, map('k', named_struct('a', 1)) AS m"
    lab.table("ods.t", {"sql": sql, "target": target})
    lab.run("ods.t", day(1))
    assert seen(lab) == [{"l": [{"a": 1}], "m": {"k": {"a": 1}}}]


def test_types_that_only_spark_reads_are_read_by_spark(lab: Lab):
    lab.table(
        "ods.t",
        {"sql": "SELECT INTERVAL '1-2' YEAR TO MONTH AS v, 1 AS n", "target": {"type": "parquet"}},
    )
    lab.run("ods.t", day(1))
    project = lab.project
    read = look(project, lambda: lab.engine, "ods.t", limit=5)
    assert [dict(row) for row in records(read, project.zone)] == [
        {"v": "INTERVAL '1-2' YEAR TO MONTH", "n": 1}
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("kind", SLOW)
def test_other_targets_are_read_by_spark(lab: Lab, kind: str):
    lab.table("ods.t", {"sql": "SELECT 1 AS a, 'x' AS b", "target": SLOW[kind]})
    lab.run("ods.t", day(1))
    lab.run("ods.t", day(2))
    project, engine = lab.project, lab.engine
    read = look(project, lambda: engine, "ods.t", window=day(2), limit=5)
    assert [dict(row) for row in records(read, project.zone)] == [{"a": 1, "b": "x"}]
    counted = look(project, lambda: engine, "ods.t", sql="SELECT count(*) AS n FROM ods.t", limit=5)
    assert counted.to_pylist() == [{"n": 2}]


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["append", "overwrite_window"])
def test_a_windows_rows_are_those_that_spark_reads(lab: Lab, target: Any, mode: str):
    sql = "SELECT int(day(:data_range_start)) AS day, v FROM VALUES (1), (2) AS t(v)"
    lab.table("ods.t", {"sql": sql, "target": {**target, "mode": mode}})
    for window in (day(1), day(2), day(3), day(2)):
        lab.run("ods.t", window)
    assert same(seen(lab, window=day(2))) == same([{"day": 2, "v": 1}, {"day": 2, "v": 2}])
    assert len(seen(lab, window=days(2, 4))) == 4
    assert seen(lab, window=day(9)) == []


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ", "DATE"])
def test_windows_are_assigned_by_a_column_as_spark_assigns_them(lab: Lab, target: Any, kind: str):
    """The window is half of a day, on which clocks go back in Berlin."""
    lab.settings["timezone"] = "Europe/Berlin"
    sql = f"SELECT CAST(v AS {kind}) AS at, v FROM VALUES {HOURS} AS t(v)"
    fields = {"default_start": "2026-10-01", "period": 1440}
    lab.table("ods.t", {"sql": sql, "target": {**target, "window_column": "at"}}, **fields)
    grid = lab.project.table("ods.t").grid
    whole = grid.window(24)
    assert str(whole) == "[2026-10-25, 2026-10-26)"
    lab.run("ods.t", whole)
    for window in (whole, part(whole, 0, 2.5), part(whole, 2, 3), part(whole, 3, 9)):
        assert same(seen(lab, window=window)) == same(by_spark(lab, window=window))


HOURS = ", ".join(f"('2026-10-25 {hour}:30')" for hour in ("00", "01", "02", "03", "05"))


def part(window: TimeWindow, first: float, last: float) -> TimeWindow:
    """From so many hours after the window's start to so many."""
    start, zone = window.start.timestamp(), ZoneInfo("Europe/Berlin")
    return TimeWindow(*(convert_to_zone(start + 3600 * hours, zone) for hours in (first, last)))


def test_columns_that_came_later_are_null_in_older_windows(lab: Lab, target: Any):
    lab.table("ods.t", {"sql": "SELECT 1 AS a", "target": target})
    lab.run("ods.t", day(1))
    wider = "2" if target["type"] == "delta" else "2L"
    lab.table("ods.t", {"sql": f"SELECT {wider} AS a, 'x' AS b", "target": target})
    lab.run("ods.t", day(2))
    assert same(seen(lab)) == same([{"a": 1, "b": None}, {"a": 2, "b": "x"}])


def test_what_no_window_publishes_is_not_shown(lab: Lab):
    """Staged rows, and the folders of what was replaced, lie beside the rows of windows."""
    lab.table("ods.t", {"sql": "SELECT :job_id AS v", "target": {"type": "parquet"}})
    lab.run("ods.t", day(1), job_id=1)
    lab.run("ods.t", day(1), job_id=2)
    with lab.session("ods.t", day(1), job_id=3) as session:
        session.stage(lab.project.table("ods.t").steps[0])
        assert seen(lab) == [{"v": 2}]


def test_rows_that_another_engine_deleted_are_gone(lab: Lab):
    table = foreign_table(lab, Schema(NestedField(1, "a", LongType())))
    append(table, {"a": 1}, {"a": 2}, {"a": 3})
    (file,) = data_files(table)
    deleted_rows(table, file, [1])
    assert seen(lab) == [{"a": 1}, {"a": 3}]


@pytest.mark.sampled
def test_a_limit_opens_no_more_files_than_it_needs(lab: Lab, target: Any):
    sql = "SELECT int(day(:data_range_start)) AS day FROM range(3)"
    lab.table("ods.t", {"sql": sql, "target": target})
    for n in range(1, 4):
        lab.run("ods.t", day(n))
    (first,) = seen(lab, limit=1)
    files = list(lab.warehouse.rglob("*.parquet"))
    others = [path for path in files if parquet.read_table(path)["day"][0].as_py() != first["day"]]
    assert len(others) == 2
    for path in others:
        path.unlink()
    assert seen(lab, limit=3) == [first] * 3


def test_a_table_that_was_never_published_is_named(lab: Lab, target: Any):
    lab.table("ods.t", {"sql": "SELECT 1 AS a", "target": target})
    with pytest.raises(NotPublishedError, match=r"ods\.t was never published"):
        seen(lab)


def test_a_table_that_is_replaced_as_a_whole_has_no_rows_of_a_window(lab: Lab, target: Any):
    lab.table("ods.t", {"sql": "SELECT 1 AS a", "target": {**target, "mode": "overwrite"}})
    lab.run("ods.t", day(1))
    assert seen(lab) == [{"a": 1}]
    with pytest.raises(UsageError, match="is replaced completely"):
        seen(lab, window=day(1))


def test_a_topic_is_refused_by_name(lab: Lab):
    lab.settings["connections"] = {"bus": {"kafka": {"bootstrap.servers": "localhost:9092"}}}
    lab.table(
        "ods.t",
        {
            "sql": "SELECT 'x' AS value",
            "target": {"type": "kafka", "connection": "bus", "topic": "t"},
        },
    )
    with pytest.raises(TerminalStepError, match="is a topic of Kafka"):
        seen(lab)


# Queries


@pytest.mark.parametrize("name", ["t", "ods.t", "sales.eu.t"])
def test_a_query_names_the_table_as_the_project_does(lab: Lab, name: str):
    lab.table(
        name,
        {"sql": "SELECT id, DATE '2022-01-05' AS d FROM range(9)", "target": {"type": "parquet"}},
    )
    lab.run(name, day(1))
    sql = f"SELECT count(*) AS n, max(d) AS d FROM {name} WHERE id > 4"
    assert seen(lab, name, sql=sql) == [{"n": 4, "d": date(2022, 1, 5)}]
    assert len(seen(lab, name, sql="SELECT t.id FROM t", limit=2)) == 2


def test_a_query_of_a_window_sees_its_rows_alone(lab: Lab):
    lab.table("ods.t", {"sql": "SELECT id FROM range(3)", "target": {"type": "delta"}})
    lab.run("ods.t", day(1))
    lab.run("ods.t", day(2))
    assert seen(lab, sql="SELECT count(*) AS n FROM ods.t") == [{"n": 6}]
    assert seen(lab, sql="SELECT count(*) AS n FROM ods.t", window=day(1)) == [{"n": 3}]


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM read_csv('/etc/passwd')", "COPY (SELECT 1) TO '/tmp/x'", "SELECT nope"]
)
def test_a_query_sees_nothing_but_the_table(lab: Lab, sql: str):
    lab.table("ods.t", {"sql": "SELECT 1 AS v", "target": {"type": "parquet"}})
    lab.run("ods.t", day(1))
    with pytest.raises(TerminalStepError, match="the query cannot run"):
        seen(lab, sql=sql)


def test_spark_runs_queries_only(lab: Lab):
    lab.table("ods.t", {"sql": "SELECT 1 AS v", "target": {"type": "csv"}})
    lab.run("ods.t", day(1))
    with pytest.raises(TerminalStepError, match=r"only a query of ods\.t"):
        by_spark(lab, sql="DROP TABLE ods.t")


def test_without_duckdb_the_message_names_the_package_to_install(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    lab.table("ods.t", {"sql": "SELECT 1 AS v", "target": {"type": "parquet"}})
    lab.run("ods.t", day(1))
    with pytest.raises(UsageError, match=r"pip install 'logdriven_dagster\[duckdb\]'"):
        seen(lab, sql="SELECT 1")
