"""Declared columns that are NOT NULL or frozen: nothing is published that breaks them."""

from typing import Any

import pytest

from logdriven_dagster.engine.targets.contents import contents_of
from logdriven_dagster.errors import NotPublishedError, TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab

COLUMNS = "id INT NOT NULL, word STRING"
GOOD = "SELECT 1 AS id, CAST(NULL AS STRING) AS word"
BAD = "SELECT IF(day(:data_range_start) = 2, NULL, 1) AS id, 'x' AS word"
REFUSED = "column id of ods.t must not be NULL, but the result has a row with NULL in it"
TARGETS: dict[str, dict[str, Any]] = {
    "iceberg": {"type": "iceberg"},
    "append": {"type": "iceberg", "mode": "append"},
    "overwrite": {"type": "iceberg", "mode": "overwrite"},
    "upsert": {"type": "iceberg", "mode": "upsert", "key": ["word"]},
    "parquet": {"type": "parquet"},
    "delta": {"type": "delta"},
    "sqlite": {"type": "jdbc", "connection": "lite", "table": "required"},
}


@pytest.mark.sampled
@pytest.mark.connect
@pytest.mark.parametrize("target", TARGETS)
def test_null_in_a_required_column_stops_before_publication(lab: Lab, target: str):
    lab.table("ods.t", {"sql": BAD, "target": TARGETS[target]}, columns=COLUMNS)
    lab.run("ods.t", day(1))
    before = lab.rows("ods.t")
    with pytest.raises(TerminalStepError, match=REFUSED):
        lab.run("ods.t", day(2))
    assert lab.rows("ods.t") == before


@pytest.mark.parametrize(
    ("columns", "good", "bad"),
    [
        ("v STRUCT<n: INT NOT NULL>", "named_struct('n', 1)", "named_struct('n', {})"),
        (
            "v STRUCT<`o p`: STRUCT<n: INT NOT NULL, m: INT>> NOT NULL",
            "named_struct('o p', CAST(NULL AS STRUCT<n: INT, m: INT>))",
            "named_struct('o p', named_struct('n', {}, 'm', 1))",
        ),
        (
            "v ARRAY<STRUCT<n: INT NOT NULL>>",
            "array(NULL, named_struct('n', 1))",
            "array(NULL, named_struct('n', 1), named_struct('n', {}))",
        ),
        (
            "v MAP<STRING, ARRAY<STRUCT<n: INT NOT NULL>>>",
            "map('a', NULL, 'b', array(named_struct('n', 1)))",
            "map('a', NULL, 'b', array(named_struct('n', {})))",
        ),
    ],
    ids=["struct", "struct-in-struct", "array", "map"],
)
def test_null_in_a_required_field_stops_before_publication(
    lab: Lab, columns: str, good: str, bad: str
):
    bad = bad.format("IF(day(:data_range_start) = 2, NULL, 1)")
    sql = f"SELECT {good} AS v UNION ALL SELECT {bad}"
    lab.table("ods.t", {"sql": sql, "target": {"type": "parquet"}}, columns=columns)
    lab.run("ods.t", day(1))
    before = lab.rows("ods.t")
    assert len(before) == 2
    with pytest.raises(TerminalStepError, match="a field of column v of ods"):
        lab.run("ods.t", day(2))
    assert lab.rows("ods.t") == before


def test_null_in_a_required_column_stops_a_pass_of_many_windows(lab: Lab):
    lab.table(
        "ods.t",
        {
            "sql": "SELECT id, 'x' AS word, at FROM source",
            "source": {
                "type": "csv",
                "path": "in",
                "header": True,
                "columns": "id INT, at TIMESTAMP",
                "window_column": "at",
            },
            "target": {"type": "iceberg", "window_column": "at"},
        },
        columns=f"{COLUMNS}, at TIMESTAMP",
        batch_size="all",
    )
    lab.file("in/rows.csv", "id,at\n1,2022-01-01 01:00:00\n,2022-01-02 01:00:00\n")
    runs = [lab.window_run("ods.t", day(n)) for n in (1, 2)]
    with (
        lab.engine.open_session(runs) as session,
        pytest.raises(TerminalStepError, match=REFUSED),
    ):
        lab.finish(session, "ods.t")
    with pytest.raises(NotPublishedError):
        lab.rows("ods.t")


def test_rejected_rows_may_lack_a_required_column(lab: Lab):
    lab.table(
        "ods.t",
        {
            "sql": "SELECT * FROM VALUES (1, 'a'), (NULL, 'b') AS t(id, word)",
            "quality": {"columns": {"id": ["not_null"]}},
            "target": {"type": "iceberg"},
        },
        columns=COLUMNS,
    )
    lab.run("ods.t", day(1))
    assert lab.rows("ods.t") == [(1, "a")]


def test_frozen_columns_must_all_be_there(lab: Lab):
    columns = "id INT, word STRING, n INT"
    allowed = {"columns": columns, "missing_columns": "allow"}
    lab.table("ods.t", {"sql": GOOD, "target": {"type": "iceberg"}}, **allowed)
    lab.run("ods.t", day(1))
    lab.table("ods.t", {"sql": GOOD, "target": {"type": "iceberg"}}, schema="frozen", **allowed)
    with pytest.raises(TerminalStepError, match="column n is missing") as refused:
        lab.run("ods.t", day(2))
    schemas = "  columns: id int, word string, n int\n  result:  id int, word string"
    assert schemas in str(refused.value)


@pytest.mark.parametrize("kind", ["iceberg", "sqlite"])
def test_frozen_columns_exclude_a_former_column_of_the_target(lab: Lab, kind: str):
    kept = TARGETS[kind] | ({"table": "former"} if kind == "sqlite" else {})
    sql = "SELECT 1 AS id, 'x' AS word, 1 AS former"
    lab.table("ods.t", {"sql": sql, "target": kept})
    lab.run("ods.t", day(1))
    frozen = {"columns": "id INT, word STRING", "schema": "frozen", "missing_columns": "allow"}
    lab.table("ods.t", {"sql": GOOD, "target": kept}, **frozen)
    with pytest.raises(TerminalStepError, match="the result has no column former"):
        lab.run("ods.t", day(2))
    assert lab.rows("ods.t") == [(1, "x", 1)]
    if kind == "sqlite":
        return
    project = lab.project
    target = project.table("ods.t").output
    assert len(contents_of(target).holdings(project, "ods.t", target).columns) == 3


@pytest.mark.parametrize("target", ["iceberg", "delta", "parquet", "upsert"])
def test_frozen_columns_have_their_types_in_the_target(lab: Lab, target: str):
    kept = TARGETS[target]
    lab.table("ods.t", {"sql": "SELECT 1L AS id, 'x' AS word", "target": kept})
    lab.run("ods.t", day(1))
    narrow = "SELECT 1 AS id, 'x' AS word"
    lab.table("ods.t", {"sql": narrow, "target": kept}, columns=COLUMNS, schema="frozen")
    with pytest.raises(TerminalStepError, match="frozen column id is int, but the table has it as"):
        lab.run("ods.t", day(2))
    assert lab.rows("ods.t") == [(1, "x")]


@pytest.mark.parametrize("target", TARGETS)
def test_frozen_columns_of_every_type_are_written_again(lab: Lab, target: str):
    columns = (
        "word STRING, a TINYINT, b SMALLINT, c STRUCT<n: ARRAY<SMALLINT>>, d DECIMAL(9,2), "
        "e TIMESTAMP, f TIMESTAMP_NTZ, g DATE, h BINARY, i FLOAT, j MAP<STRING, TINYINT>"
    )
    if target == "sqlite":
        columns = "word STRING, a INT, d DECIMAL(9,2), e TIMESTAMP, g DATE, h BINARY"
    names = [each.split()[0] for each in columns.split(", ") if each.split()[0].islower()]
    values = f"from_json('{{}}', '{columns}')"
    sql = f"SELECT {', '.join(f'v.{name}' for name in names)} FROM (SELECT {values} AS v)"
    if target == "upsert":
        sql = sql.replace("v.word", "'x' AS word")
    kept = TARGETS[target] | ({"table": "again"} if target == "sqlite" else {})
    lab.table("ods.t", {"sql": sql, "target": kept}, columns=columns, schema="frozen")
    for n in (1, 2):
        lab.run("ods.t", day(n))


@pytest.mark.connect
def test_comments_of_columns_are_stored_in_iceberg_tables(lab: Lab):
    def load(columns: str, sql: str, window: int) -> list[str | None]:
        lab.table("ods.t", {"sql": sql, "target": {"type": "iceberg"}}, columns=columns)
        lab.run("ods.t", day(window))
        schema = lab.engine._open_catalog().load_table("ods.t").schema()
        return [field.doc for field in schema.fields if field.name != "_window_start"]

    assert load("id INT COMMENT 'the order', word STRING", GOOD, 1) == ["the order", None]
    assert load("id INT COMMENT 'of an order', word STRING", GOOD, 2) == ["of an order", None]
    columns = "id INT, word STRING, n INT COMMENT 'new'"
    assert load(columns, f"SELECT *, 1 AS n FROM ({GOOD})", 3) == ["of an order", None, "new"]


def test_comments_of_columns_are_stored_in_delta_tables(lab: Lab):
    from deltalake import DeltaTable

    def load(columns: str, sql: str, window: int) -> list[Any]:
        lab.table("ods.t", {"sql": sql, "target": {"type": "delta"}}, columns=columns)
        lab.run("ods.t", day(window))
        fields = DeltaTable(str(lab.warehouse / "ods/t")).schema().fields
        return [field.metadata.get("comment") for field in fields if field.name in ("id", "n")]

    assert load("id INT COMMENT 'the order', word STRING", GOOD, 1) == ["the order"]
    columns = "id INT, word STRING, n INT COMMENT 'new'"
    assert load(columns, f"SELECT *, 1 AS n FROM ({GOOD})", 2) == ["the order", "new"]
