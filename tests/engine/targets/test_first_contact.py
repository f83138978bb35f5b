"""Tables that others filled before the first window: nothing stays beside it without a word."""

from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from deltalake import DeltaTable, write_deltalake

from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab

ICEBERG = {"type": "iceberg"}
DELTA = {"type": "delta"}
JDBC = {"type": "jdbc", "connection": "db", "table": "t"}
OLD = (0, "old")


@pytest.fixture(params=["iceberg", "delta", "sqlite", "postgresql", "mariadb"])
def filled(request: pytest.FixtureRequest, lab: Lab) -> Any:
    """A target whose table holds one row of others."""
    if request.param == "iceberg":
        fill_iceberg(lab)
        return ICEBERG
    if request.param == "delta":
        fill_delta(lab)
        return DELTA
    urls = {"sqlite": lambda: sa.make_url(f"sqlite:///{lab.root}/others.db")}
    fixture = {"postgresql": "postgres_url", "mariadb": "mariadb_url"}
    make = urls.get(request.param, lambda: request.getfixturevalue(fixture[request.param]))
    url = make().render_as_string(hide_password=False)
    lab.settings["connections"] = {"db": {"url": url}}
    execute(lab, "CREATE TABLE t (day INTEGER, v VARCHAR(20))", "INSERT INTO t VALUES (0, 'old')")
    return JDBC


def fill_iceberg(lab: Lab) -> None:
    rows = pa.table({"day": pa.array([0], pa.int32()), "v": ["old"]})
    catalog = lab.engine._open_catalog()
    catalog.create_namespace("ods")
    catalog.create_table("ods.t", rows.schema).append(rows)


def fill_delta(lab: Lab) -> None:
    rows = pa.table({"day": pa.array([0], pa.int32()), "v": ["old"]})
    write_deltalake(lab.warehouse / "ods/t", rows)


def execute(lab: Lab, *statements: str) -> None:
    engine = sa.create_engine(lab.project.connection("db").url, poolclass=sa.NullPool)
    with engine.begin() as conn:
        for statement in statements:
            conn.execute(sa.text(statement))


def load(lab: Lab, n: int, target: Any, **fields: Any) -> None:
    sql = "SELECT int(day(:data_range_start)) AS day, 'new' AS v"
    lab.table("ods.t", {"sql": sql, "target": {**target, **fields}})
    lab.run("ods.t", day(n))


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["append", "overwrite_window"])
def test_existing_rows_are_refused_until_a_policy_is_set(lab: Lab, filled: Any, mode: str):
    with pytest.raises(TerminalStepError, match=r"t has rows that no window wrote.*existing_rows"):
        load(lab, 1, filled, mode=mode)
    assert lab.rows("ods.t") == [OLD]
    assert lab.engine.read("ods.t").columns == ["day", "v"]


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["append", "overwrite_window"])
def test_kept_rows_stay_next_to_those_of_windows(lab: Lab, filled: Any, mode: str):
    for n in (1, 2, 1):
        load(lab, n, filled, mode=mode, existing_rows="keep")
    assert lab.rows("ods.t") == [OLD, (1, "new"), (2, "new")]


@pytest.mark.sampled
@pytest.mark.parametrize("mode", ["append", "overwrite_window"])
def test_replaced_rows_go_with_the_first_window_and_nothing_goes_later(
    lab: Lab, filled: Any, mode: str
):
    for n in (1, 2, 1):
        load(lab, n, filled, mode=mode, existing_rows="replace")
    assert lab.rows("ods.t") == [(1, "new"), (2, "new")]


@pytest.mark.sampled
def test_after_the_first_window_no_decision_is_required(lab: Lab, filled: Any):
    load(lab, 1, filled, existing_rows="keep")
    for n in (1, 2):
        load(lab, n, filled)
    assert lab.rows("ods.t") == [OLD, (1, "new"), (2, "new")]


@pytest.mark.sampled
def test_an_overwrite_replaces_everything_as_before(lab: Lab, filled: Any):
    load(lab, 1, filled, mode="overwrite")
    assert lab.rows("ods.t") == [(1, "new")]


@pytest.mark.sampled
def test_an_empty_existing_table_requires_no_decision(lab: Lab, filled: Any):
    if filled is DELTA:
        DeltaTable(lab.warehouse / "ods/t").delete()
    elif filled is ICEBERG:
        lab.engine._open_catalog().load_table("ods.t").delete()
    else:
        execute(lab, "DELETE FROM t")
    load(lab, 1, filled)
    assert lab.rows("ods.t") == [(1, "new")]


def test_a_column_without_values_is_no_window(lab: Lab):
    lab.settings["connections"] = {"db": {"url": "sqlite:///others.db"}}
    execute(
        lab, "CREATE TABLE t (day INTEGER, _window_start TEXT)", "INSERT INTO t VALUES (0, NULL)"
    )
    with pytest.raises(TerminalStepError, match="no window wrote"):
        load(lab, 1, JDBC)


def test_pre_sql_may_remove_them(lab: Lab):
    lab.settings["connections"] = {"db": {"url": "sqlite:///others.db"}}
    execute(lab, "CREATE TABLE t (day INTEGER)", "INSERT INTO t VALUES (0)")
    with pytest.raises(TerminalStepError, match="no window wrote"):
        load(lab, 1, JDBC, pre_sql=["DELETE FROM t WHERE day > 0"])
    load(lab, 1, JDBC, pre_sql=["DELETE FROM t WHERE day = 0"])
    assert lab.rows("ods.t") == [(1, "new")]


def test_a_file_with_rows_of_several_windows_keeps_those_of_the_others(lab: Lab):
    """As upserts leave them: to append a window between theirs removed the whole file."""
    starts = [datetime(2022, 1, n, tzinfo=timezone.utc) for n in (1, 3)]
    rows = pa.table({"day": pa.array([1, 3], pa.int32()), "v": ["a", "b"], "_window_start": starts})
    catalog = lab.engine._open_catalog()
    catalog.create_namespace("ods")
    catalog.create_table("ods.t", rows.schema).append(rows)
    load(lab, 2, ICEBERG, mode="append")
    assert lab.rows("ods.t") == [(1, "a"), (2, "new"), (3, "b")]


def test_several_windows_are_refused_next_to_existing_files_as_one_is(lab: Lab):
    lab.file("out/others.parquet", "")
    target = {"type": "parquet", "path": "out", "window_column": "day"}
    lab.table("ods.t", {"sql": "SELECT DATE'2022-01-01' AS day", "target": target})
    with (
        lab.engine.open_session([lab.window_run("ods.t", day(n)) for n in (1, 2)]) as session,
        pytest.raises(TerminalStepError, match=r"contains others\.parquet, which no window wrote"),
    ):
        session.stage(lab.project.table("ods.t").steps[0])


def test_a_folder_with_existing_files_is_refused(lab: Lab):
    lab.file("out/others.csv", "1,x\n")
    with pytest.raises(TerminalStepError, match=r"contains others\.csv, which no window wrote"):
        load(lab, 1, {"type": "csv", "path": "out"})
    for _ in range(2):
        load(lab, 1, {"type": "csv", "path": "out"}, existing_rows="keep")
    load(lab, 2, {"type": "csv", "path": "out"})
    assert lab.rows("ods.t") == [(1, "new"), (2, "new")]
