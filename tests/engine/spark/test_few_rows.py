"""Windows of few rows run without loops of their own code, once the window before had as few."""

from collections.abc import Callable
from typing import Any

import pytest

from logdriven_dagster.engine.targets import store
from tests.builders import day
from tests.engine.laboratory import Lab

pytestmark = pytest.mark.connect

FEW = 100
SETTING = "spark.sql.codegen.wholeStage"
CODE = f"""
def build(spark, variables):
    compiled = "'{{}}' AS compiled".format(spark.conf.get("{SETTING}"))
    rows = spark.range(variables["scanned"]).where(f"id < {{variables['kept']}}")
    made = rows.selectExpr(compiled, f"explode(sequence(1, {{variables['made']}})) AS n")
    return made.where(f"n <= {{variables['left']}}")
"""
ROWS = {"scanned": 3, "kept": 3, "made": 1, "left": 1}


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "FEW_ROWS", FEW)


def windows(lab: Lab, *names: str, **step: Any) -> Callable[..., bool]:
    """Runs windows of tables by one engine, and tells whether Spark compiles their loops."""
    lab.file("tables/build.py", CODE)
    for name in names:
        target = {"type": "parquet"}
        lab.table(name, {"python": "build.py:build", "target": target, **step}, variables=ROWS)
    engine, days = lab.engine, iter(range(1, 30))

    def compiles(name: str = names[0], **rows: int) -> bool:
        window = day(next(days))
        with engine.open_session([lab.window_run(name, window, variables=ROWS | rows)]) as session:
            lab.finish(session, name)
        return {"true": True, "false": False}[lab.rows(name, window)[0][0]]

    return compiles


def test_the_first_window_runs_as_spark_runs_everything(lab: Lab):
    compiles = windows(lab, "ods.t")
    assert [compiles() for _ in range(3)] == [True, False, False]


def test_each_table_has_its_own_windows(lab: Lab):
    compiles = windows(lab, "ods.a", "ods.b")
    assert [compiles(name) for name in ("ods.a", "ods.b", "ods.a")] == [True, True, False]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "many",
    [
        pytest.param({"scanned": FEW}, id="read and dropped again"),
        pytest.param({"made": FEW, "left": FEW}, id="made of few"),
        pytest.param({"made": FEW, "left": 1}, id="made of few, and dropped again"),
    ],
)
def test_after_a_window_of_many_rows_loops_are_compiled(lab: Lab, many: dict[str, int]):
    compiles = windows(lab, "ods.t")
    assert [compiles(), compiles(**many), compiles(), compiles()] == [True, False, True, False]


@pytest.mark.usefixtures("long")
def test_rows_that_are_staged_for_their_rules_count_as_many(lab: Lab):
    rules = {"id": ["n"], "keep_rejected": True, "columns": {"n": ["not_null"]}}
    compiles = windows(lab, "ods.t", quality=rules)
    assert [compiles(), compiles()] == [True, True]


def test_what_the_project_sets_wins(lab: Lab):
    lab.settings["spark"] = {"config": {SETTING: True}}
    compiles = windows(lab, "ods.t")
    assert [compiles(), compiles()] == [True, True]
