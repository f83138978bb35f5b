"""A table grows with its results, and refuses what does not fit."""

from typing import Any

import pytest

from logdriven_dagster.engine.arrow.values import records
from logdriven_dagster.engine.looking import look
from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab

GROWING = {
    "iceberg": {"type": "iceberg"},
    "upsert": {"type": "iceberg", "mode": "upsert", "key": ["a"]},
    "parquet": {"type": "parquet"},
    "json": {"type": "json"},
    "sqlite": {"type": "jdbc", "connection": "lite", "table": "t"},
}


@pytest.fixture(params=GROWING)
def target(request: pytest.FixtureRequest) -> Any:
    return GROWING[request.param]


def load(lab: Lab, n: int, sql: str, target: Any, **fields: Any) -> None:
    lab.table("ods.t", {"sql": f"SELECT {sql}", "target": target}, **fields)
    lab.run("ods.t", day(n))


@pytest.mark.sampled
def test_an_added_column_is_null_in_older_windows(lab: Lab, target: Any):
    load(lab, 1, "1 AS a", target)
    load(lab, 2, "2 AS a, 'x' AS b", target)
    assert lab.rows("ods.t") == [(1, None), (2, "x")]


GAINED = {
    "s": ("named_struct('x', 1)", "named_struct('x', 2, 'y', 'z')"),
    "l": ("array(named_struct('x', 1))", "array(named_struct('x', tinyint(2), 'y', 'z'), NULL)"),
    "m": ("map('k', named_struct('x', 1))", "map('k', named_struct('x', 2, 'y', 'z'))"),
    "n": (
        "named_struct('l', array(named_struct('x', 1)))",
        "named_struct('L', array(named_struct('y', 'z', 'X', 2)))",
    ),
    "nothing": ("named_struct('x', 1)", "IF(true, NULL, named_struct('x', 2, 'y', 'z'))"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["iceberg", "upsert", "delta", "parquet", "orc", "json"])
def test_structs_gain_fields_as_a_table_gains_columns(lab: Lab, kind: str):
    target = GROWING.get(kind, {"type": kind})
    for n, version in ((1, 0), (2, 1), (3, 0)):
        sql = ", ".join(f"{values[version]} AS {name}" for name, values in GAINED.items())
        if (kind, n) == ("upsert", 3):
            with pytest.raises(TerminalStepError, match=r"no field s\.y, .* add y, a string, to"):
                load(lab, n, f"{n} AS a, {sql}", target, missing_columns="allow")
            continue
        load(lab, n, f"{n} AS a, {sql}", target, missing_columns="allow")
    first, second, *third = lab.engine.read("ods.t").orderBy("a").collect()
    old, new = {"x": 1, "y": None}, {"x": 2, "y": "z"}
    for row in (first, *third):
        read = row.asDict(recursive=True)
        assert (read["s"], read["l"], read["m"]) == (old, [old], {"k": old})
        assert (read["n"], read["nothing"]) == ({"l": [old]}, old)
    read = second.asDict(recursive=True)
    assert (read["s"], read["l"], read["m"]) == (new, [new, None], {"k": new})
    assert (read["n"], read["nothing"]) == ({"l": [new]}, None)
    shown = list(records(look(lab.project, lambda: lab.engine, "ods.t", limit=9), lab.project.zone))
    assert {row["a"]: row["n"] for row in shown} == {
        row.a: row.asDict(recursive=True)["n"] for row in (first, second, *third)
    }


REFUSED = {
    "named_struct('x', 1) AS v": r"no field v\.y, which .* or set missing_columns: allow",
    "named_struct('x', current_date(), 'y', 2) AS v": (
        r"column v of the result does not match the table, where v\.x is int, not date; make it int"
    ),
    "named_struct('x', 1, 'y', 2, 'Y', 3) AS v": "column v of the result does not match the table",
}


def test_a_field_that_a_struct_has_lost_or_changed_is_refused_by_its_place(lab: Lab):
    load(lab, 1, "named_struct('x', 1, 'y', 2) AS v", GROWING["iceberg"])
    for sql, problem in REFUSED.items():
        with pytest.raises(TerminalStepError, match=problem):
            load(lab, 2, sql, GROWING["iceberg"])
    load(lab, 1, "named_struct('x', 1) AS v", {"type": "delta", "path": "other"})
    with pytest.raises(TerminalStepError, match=r"column v\.x is int in the Delta table, which"):
        load(lab, 2, "named_struct('x', 1L, 'y', 2) AS v", {"type": "delta", "path": "other"})


@pytest.mark.sampled
def test_a_missing_column_becomes_null_where_the_table_allows_it(lab: Lab, target: Any):
    load(lab, 1, "1 AS a, 'x' AS b", target)
    load(lab, 2, "2 AS a", target, missing_columns="allow")
    assert lab.rows("ods.t") == [(1, "x"), (2, None)]


@pytest.mark.sampled
@pytest.mark.parametrize("kind", sorted(GROWING.keys() - {"sqlite"}))
def test_a_column_that_is_lost_is_refused(lab: Lab, kind: str):
    load(lab, 1, "1 AS a, 'x' AS b", GROWING[kind])
    with pytest.raises(TerminalStepError, match="the result has no column b, which the table has"):
        load(lab, 2, "2 AS a", GROWING[kind])
    assert lab.rows("ods.t") == [(1, "x")]


@pytest.mark.sampled
def test_column_names_match_in_any_case_and_order(lab: Lab, target: Any):
    load(lab, 1, "1 AS a, 'x' AS b", target)
    load(lab, 2, "'y' AS B, 2 AS A", target)
    assert lab.engine.read("ods.t").columns == ["a", "b"]
    assert lab.rows("ods.t") == [(1, "x"), (2, "y")]


@pytest.mark.sampled
def test_a_narrower_type_is_cast_up(lab: Lab, target: Any):
    load(lab, 1, "1 AS a, 2.5D AS b, 5000000000 AS c", target)
    load(lab, 2, "2 AS a, 3 AS b, smallint(4) AS c", target)
    assert lab.rows("ods.t") == [(1, 2.5, 5_000_000_000), (2, 3.0, 4)]


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["iceberg", "upsert", "parquet", "json"])
def test_a_wider_type_widens_the_table(lab: Lab, kind: str):
    load(
        lab,
        1,
        "1 AS a, float(1.5) AS b, decimal(3, 1)(2) AS c".replace(
            "decimal(3, 1)(2)", "CAST(2 AS DECIMAL(3, 1))"
        ),
        GROWING[kind],
    )
    load(lab, 2, "5000000000 AS a, 2.5D AS b, CAST(2 AS DECIMAL(9, 1)) AS c", GROWING[kind])
    types = [kind for _, kind in lab.engine.read("ods.t").dtypes]
    assert types == ["bigint", "double", "decimal(9,1)"]
    assert [a for a, _, _ in lab.rows("ods.t")] == [1, 5_000_000_000]


@pytest.mark.sampled
def test_an_incompatible_type_is_refused_with_both_schemas(lab: Lab, target: Any):
    load(lab, 1, "1 AS a, 'x' AS b", target)
    with pytest.raises(TerminalStepError) as caught:
        load(lab, 2, "1 AS a, DATE'2022-01-01' AS b", target)
    assert "column b of the result does not match the table" in str(caught.value)
    assert "b string" in str(caught.value)
    assert "b date" in str(caught.value)
    assert len(lab.rows("ods.t")) == 1


def test_a_database_column_is_never_widened(lab: Lab):
    load(lab, 1, "CAST(1 AS DECIMAL(5, 2)) AS a", GROWING["sqlite"])
    with pytest.raises(TerminalStepError, match="column a is too narrow"):
        load(lab, 2, "CAST(1 AS DECIMAL(9, 2)) AS a", GROWING["sqlite"])


EVERY_TYPE = (
    "true AS bool, tinyint(1) AS b, smallint(2) AS s, 3 AS i, 4L AS l, float(1.5) AS f, 2.5D AS d, "
    "CAST(1.25 AS DECIMAL(10, 2)) AS n, 'x' AS t, DATE'2022-01-02' AS day, "
    "TIMESTAMP'2022-01-02 03:04:05.123' AS at"
)


@pytest.mark.sampled
@pytest.mark.parametrize("kind", [*GROWING, "orc"])
def test_every_plain_type_comes_back_as_it_was(lab: Lab, kind: str):
    target = GROWING.get(kind, {"type": kind})
    target = target if kind != "upsert" else {**target, "key": ["i"]}
    load(lab, 1, EVERY_TYPE, target)
    expected = tuple(lab.spark.sql(f"SELECT {EVERY_TYPE}").first())
    assert lab.rows("ods.t") == [expected]


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["iceberg", "parquet", "orc", "json"])
def test_nested_types_come_back_as_they_were(lab: Lab, kind: str):
    sql = "array(1, 2) AS a, named_struct('x', 1, 'y', array('z')) AS s, map('k', 2) AS m"
    load(lab, 1, sql, {"type": kind})
    load(lab, 2, sql, {"type": kind})
    assert lab.rows("ods.t") == [tuple(lab.spark.sql(f"SELECT {sql}").first())] * 2


def test_a_type_that_a_target_cannot_hold_is_named(lab: Lab):
    with pytest.raises(TerminalStepError, match="column v: an Iceberg table cannot store interval"):
        load(lab, 1, "INTERVAL 1 DAY AS v", GROWING["iceberg"])
    with pytest.raises(TerminalStepError, match="column v: an Iceberg table cannot store string c"):
        load(lab, 1, "'a' COLLATE UTF8_LCASE AS v", GROWING["iceberg"])
    with pytest.raises(TerminalStepError, match="column v: a database table cannot store array"):
        load(lab, 1, "array(1) AS v", GROWING["sqlite"])


TRICKY = [
    "plain",
    "",
    " spaces ",
    'say "hi", now',
    "two\nlines",
    "back\\slash",
    "Zürich 東京",
    None,
]


@pytest.mark.sampled
@pytest.mark.parametrize("kind", [*GROWING, "orc", "csv"])
def test_text_comes_back_as_it_was(lab: Lab, kind: str):
    frame = lab.spark.createDataFrame(list(enumerate(TRICKY)), "a INT, t STRING")
    frame.write.parquet(str(lab.root / "in"))
    target = GROWING.get(kind, {"type": kind})
    lab.table("ods.t", {"source": {"type": "parquet", "path": "in"}, "target": target})
    assert lab.run("ods.t", day(1)).counts.target == len(TRICKY)
    assert dict(lab.rows("ods.t")) == dict(enumerate(TRICKY))


def test_a_window_column_matches_in_any_case(lab: Lab):
    target = {"type": "iceberg", "window_column": "AT"}
    for _ in range(2):
        load(lab, 1, ":data_range_start AS at", target)
    assert len(lab.rows("ods.t", day(1))) == 1
