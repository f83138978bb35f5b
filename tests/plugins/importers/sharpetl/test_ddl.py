"""CREATE statements in Sharp ETL's workflows. Source: Sharp ETL, DeltaLakeDataSource."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.plugins.importers.conftest import Folder
from tests.plugins.importers.sharpetl.conftest import HEAD

SCHEMA = """
    -- step=schema
    -- target=delta_lake
    CREATE SCHEMA IF NOT EXISTS db;
"""
TABLE = """
    -- step=table
    -- target=delta_lake
    CREATE TABLE IF NOT EXISTS db.t (id STRING, at TIMESTAMP COMMENT 'x') USING delta;
"""
WRITE = """
    -- step=write
    -- target=delta_lake
    --  dbName=db
    --  tableName=t
    -- writeMode=overwrite
    SELECT 1 AS id, '2022-02-02 17:12:59' AS at;
"""


def test_a_table_that_the_target_creates_is_left_out_and_gives_the_types(
    folder: Folder, brought: Callable[..., Any]
):
    told = brought(HEAD + SCHEMA + TABLE + WRITE)
    (write,) = folder.values("tables/w.yaml")["steps"]
    assert write["target"] == {"type": "iceberg", "name": "db.t", "mode": "overwrite"}
    assert "CAST(`id` AS STRING) AS `id`,\n  CAST(`at` AS TIMESTAMP) AS `at`" in write["sql"]
    items = [each["item"] for each in told["notes"]]
    assert items[:2] == ["step schema", "step table"]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE db.other (id INT)",
        "CREATE TABLE db.t (id INT NOT NULL)",
        "CREATE TABLE db.t (id INT DEFAULT 1)",
        "CREATE TABLE db.t LIKE db.x",
        "CREATE TABLE db.t AS SELECT 1 AS id",
        "CREATE VIEW db.t AS SELECT 1 AS id",
        "ALTER TABLE db.t ADD COLUMNS (x INT)",
        "DROP TABLE db.t",
    ],
)
def test_other_statements_are_listed(folder: Folder, brought: Callable[..., Any], statement: str):
    table = TABLE.split("CREATE", maxsplit=1)[0] + statement + ";\n"
    told = brought(HEAD + table + WRITE, code=1)
    assert "is not a query" in told["untranslated"][0]["reason"]
    assert folder.values("tables/w.yaml")["release_state"] == "offline"


def test_a_replaced_table_with_appended_rows_is_listed(folder: Folder, brought: Callable[..., Any]):
    """Each run would remove the rows of all others."""
    text = HEAD + TABLE + WRITE.replace("overwrite", "append")
    brought(text)
    brought(
        text.replace("TABLE IF NOT EXISTS", "OR REPLACE TABLE"), code=1, options=("--overwrite",)
    )
    assert folder.values("tables/w.yaml")["release_state"] == "offline"


def test_a_partitioned_table_keeps_its_other_partitions(
    folder: Folder, brought: Callable[..., Any]
):
    table = TABLE.replace(" USING delta", " PARTITIONED BY (at)")
    write = WRITE.replace("'2022-02-02 17:12:59'", "'${DATA_RANGE_START}'")
    brought(HEAD + table + write)
    (last,) = folder.values("tables/w.yaml")["steps"]
    assert last["target"]["mode"] == "overwrite_window"
    brought(HEAD + table + WRITE, code=1, options=("--overwrite",))  # partitions of any value
    other = table.replace("(at)", "(id)")  # rows of other windows would be replaced
    brought(HEAD + other + write, code=1, options=("--overwrite",))
    assert folder.values("tables/w.yaml")["release_state"] == "offline"


@pytest.mark.parametrize(
    "query", ["SELECT * FROM db.x", "SELECT 1 AS at, 2 AS id", "SELECT 1 AS id"]
)
def test_a_query_with_other_columns_than_the_table_is_listed(
    folder: Folder, brought: Callable[..., Any], query: str
):
    told = brought(HEAD + TABLE + WRITE.split("SELECT", maxsplit=1)[0] + query, code=1)
    assert "must name the columns of CREATE TABLE db.t" in told["untranslated"][0]["reason"]
    assert folder.values("tables/w.yaml")["release_state"] == "offline"
