"""Every kind of source, its options and its traps."""

import sqlite3
from pkgutil import resolve_name
from typing import Any

import pytest

from logdriven_dagster.config.models.types.registered import SOURCES, TARGETS
from logdriven_dagster.config.models.types.sources import Source
from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.engine.sources.readers import Reader
from logdriven_dagster.engine.targets.contents import Contents
from logdriven_dagster.engine.targets.store import Store
from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab

TARGET = {"type": "parquet"}


def loaded(lab: Lab, source: dict[str, Any], sql: str | None = None) -> list[tuple[Any, ...]]:
    lab.table("ods.t", {"source": source, "target": TARGET} | ({"sql": sql} if sql else {}))
    lab.run("ods.t", day(1))
    return lab.rows("ods.t")


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_type_has_a_reader(source: type[Source]):
    assert issubclass(resolve_name(source.reader), Reader)


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_type_has_a_store_and_reads_its_contents(target: type[Target]):
    methods = {name for name in vars(Store) if not name.startswith("_")}
    assert methods <= set(dir(resolve_name(target.store)))
    assert issubclass(resolve_name(target.contents), Contents)


def test_csv_options(lab: Lab):
    lab.file("a.csv", "a;b\n1;NA\n")
    source = {"type": "csv", "path": "a.csv", "header": True, "sep": ";", "null_value": "NA"}
    assert loaded(lab, {**source, "options": {"inferSchema": True}}) == [(1, None)]


@pytest.mark.usefixtures("long")
def test_json_lines_and_documents(lab: Lab):
    lab.file("a.json", '{"a": 1}\n{"a": 2}\n')
    assert loaded(lab, {"type": "json", "path": "a.json"}) == [(1,), (2,)]
    lab.file("b.json", '[{"a": 1},\n {"a": 2}]')
    assert loaded(lab, {"type": "json", "path": "b.json", "multiline": True}) == [(1,), (2,)]


@pytest.mark.sampled
@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_files_that_know_their_types(lab: Lab, form: str):
    lab.spark.range(3).write.format(form).save(str(lab.root / "in"))
    assert loaded(lab, {"type": form, "path": "in"}) == [(0,), (1,), (2,)]


def written(lab: Lab, form: str, *queries: str) -> None:
    """A folder with one file of each query's rows."""
    for n, sql in enumerate(queries):
        lab.spark.sql(sql).coalesce(1).write.format(form).save(str(lab.root / f"made/{n}"))
        (part,) = (lab.root / f"made/{n}").glob("part-*")
        (lab.root / "in").mkdir(exist_ok=True)
        part.rename(lab.root / "in" / f"{n}.{form}")


@pytest.mark.sampled
@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_a_column_that_one_file_has_lost_is_refused(lab: Lab, form: str):
    written(lab, form, "SELECT 1 AS a, 'x' AS b", "SELECT 2 AS a")
    with pytest.raises(TerminalStepError, match=rf"1.{form}: the file has no column b, which"):
        loaded(lab, {"type": form, "path": "in"})
    lab.table(
        "ods.t",
        {"source": {"type": form, "path": "in"}, "target": TARGET},
        missing_columns="allow",
    )
    lab.run("ods.t", day(1))
    assert lab.rows("ods.t") == [(1, "x"), (2, None)]


@pytest.mark.sampled
@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_a_column_that_only_newer_files_have_is_read(lab: Lab, form: str):
    written(lab, form, "SELECT 1 AS a", "SELECT 2 AS a, 'x' AS b")
    assert loaded(lab, {"type": form, "path": "in"}) == [(1, None), (2, "x")]


def test_a_column_that_no_file_has_is_refused(lab: Lab):
    written(lab, "parquet", "SELECT 1 AS a")
    with pytest.raises(TerminalStepError, match="columns has b, which is not in any file"):
        loaded(lab, {"type": "parquet", "path": "in", "columns": "a INT, b INT"})


def test_text_and_globs(lab: Lab):
    lab.file("in/a.txt", "x\n")
    lab.file("in/b.txt", "y\n")
    assert loaded(lab, {"type": "text", "path": "in/*.txt"}) == [("x",), ("y",)]


def test_a_table_of_sparks_catalog(lab: Lab):
    lab.spark.sql("CREATE TABLE IF NOT EXISTS lookup AS SELECT 7 AS a")
    try:
        assert loaded(lab, {"type": "table", "name": "lookup"}) == [(7,)]
    finally:
        lab.spark.sql("DROP TABLE lookup")


@pytest.fixture
def lite(lab: Lab) -> Lab:
    with sqlite3.connect(lab.root / "lite.db") as conn:
        conn.execute("CREATE TABLE big (id INTEGER, name TEXT)")
        conn.executemany("INSERT INTO big VALUES (?, ?)", [(3_000_000_000, "a"), (1, "b")])
    return lab


def test_integers_of_sqlite_keep_64_bits(lite: Lab):
    source = {"type": "jdbc", "connection": "lite", "table": "big"}
    assert loaded(lite, source) == [(1, "b"), (3_000_000_000, "a")]


def test_a_query_of_a_connection_takes_the_windows_text(lite: Lab):
    query = "SELECT * FROM big WHERE '${DATA_RANGE_START}' = '2022-01-01 00:00:00'"
    source = {"type": "jdbc", "connection": "lite", "query": query}
    assert loaded(lite, source) == [(1, "b"), (3_000_000_000, "a")]


def test_a_database_filters_what_the_query_filters(lite: Lab):
    source = {"type": "jdbc", "connection": "lite", "table": "big"}
    lite.table(
        "ods.t", {"source": source, "sql": "SELECT * FROM source WHERE id > 5", "target": TARGET}
    )
    assert lite.run("ods.t", day(1)).counts.source == 1
