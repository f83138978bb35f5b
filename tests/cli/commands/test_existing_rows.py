"""Existing rows of a target are reported in the plan, before anything runs."""

import socket
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
import yaml

from logdriven_dagster.config import load_project
from logdriven_dagster.engine.targets import existing_rows
from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog
from tests.builders import day, warehouse
from tests.cli.shop_log import ShopLog

NAME = "ods.items"
NOON = ("--now", "2022-01-02T12:00")
HELD = "has rows that no window wrote: "


@pytest.fixture(params=["sqlite", "postgresql", "mariadb", "iceberg"])
def filled(request: pytest.FixtureRequest, shop: Any) -> dict[str, Any]:
    """A target in which others have put one row."""
    if request.param == "iceberg":
        rows = pa.table({"v": ["old"]})
        catalog = open_catalog(load_project(shop))
        catalog.create_namespace("ods")
        catalog.create_table(NAME, rows.schema).append(rows)
        return {"type": "iceberg"}
    fixture = {"postgresql": "postgres_url", "mariadb": "mariadb_url"}.get(request.param)
    url = request.getfixturevalue(fixture) if fixture else f"sqlite:///{shop}/others.db"
    return database(shop, url, "CREATE TABLE t (v INTEGER)", "INSERT INTO t VALUES(0)")


def database(shop: Any, url: sa.URL | str, *statements: str) -> dict[str, Any]:
    """A target in a database in which these statements were executed."""
    text = url if isinstance(url, str) else url.render_as_string(hide_password=False)
    connections = {"dw": {"url": text}}
    settings = yaml.safe_load((shop / "logdriven.yaml").read_text())
    (shop / "logdriven.yaml").write_text(yaml.safe_dump(settings | {"connections": connections}))
    for statement in statements:
        with sa.create_engine(url, poolclass=sa.NullPool).begin() as conn:
            conn.execute(sa.text(statement))
    return {"type": "jdbc", "connection": "dw", "table": "t"}


def into(shop: Any, target: dict[str, Any], **fields: Any) -> None:
    """The shop gets a table that loads a day at a time into the target."""
    step = {"step": "load", "sql": "SELECT 1 AS v", "target": target | fields}
    table = {"table": NAME, "period": "1 day", "default_start": "2022-01-01", "steps": [step]}
    (shop / "tables/items.yaml").write_text(yaml.safe_dump(table))


def reported(logdriven: Any) -> str:
    """What the plan tells of the table below its list."""
    lines = logdriven("plan", NAME, *NOON).out.splitlines()
    return "".join(line.removeprefix(f"{NAME}: ") for line in lines if line.startswith(f"{NAME}: "))


OUTCOMES: list[tuple[dict[str, Any], str]] = [
    ({}, "the first window will be refused. Set `existing_rows: keep`"),
    ({"existing_rows": "keep"}, "they stay in addition to the loaded rows"),
    ({"existing_rows": "replace"}, "the first window will remove them all"),
    ({"mode": "append"}, "the first window will be refused."),
    ({"mode": "overwrite"}, "the first window will replace them all"),
    ({"mode": "upsert", "key": ["v"]}, "those with a loaded key will be updated, the"),
    ({"window_column": "v"}, "those whose v is in a window are replaced with it, the others stay"),
]
in_a_file = pytest.mark.parametrize("filled", ["sqlite"], indirect=True)


@pytest.mark.sampled
def test_the_plan_shows_the_policy_for_existing_rows(shop, logdriven, filled):
    for fields, what in OUTCOMES:
        into(shop, filled, **fields)
        assert f"{HELD}{what}" in reported(logdriven), fields


@in_a_file
def test_scripts_find_it_at_each_window_of_the_table(shop, logdriven, filled):
    into(shop, filled)
    plan = logdriven("plan", "--json", *NOON).json
    assert {w["table"] for w in plan if "existing_rows" in w} == {NAME}
    [text] = plan[[w["table"] for w in plan].index(NAME)]["existing_rows"]
    assert HELD in text


def test_nothing_is_reported_for_an_empty_or_missing_table(shop, logdriven):
    target = database(shop, f"sqlite:///{shop}/others.db", "CREATE TABLE t (v INT)")
    for table in ("t", "not_there"):
        into(shop, target, table=table)
        assert reported(logdriven) == ""
    into(shop, {"type": "iceberg"})
    assert reported(logdriven) == ""
    assert not warehouse(load_project(shop)).exists()


@in_a_file
def test_nothing_is_reported_once_a_window_has_been_published(shop, logdriven, filled):
    into(shop, filled)
    ShopLog(shop).succeed(NAME, day(1))
    assert reported(logdriven) == ""


@in_a_file
def test_what_the_old_system_did_is_no_window_of_ours(shop, logdriven, filled):
    into(shop, filled)
    log = ShopLog(shop)
    log.succeed(NAME, day(1))
    log.sql("UPDATE job_log SET run_trigger = 'takeover'")
    assert HELD in logdriven("plan", NAME, "--now", "2022-01-03T12:00").out


def test_rows_that_windows_wrote_are_not_existing_rows(shop, logdriven):
    url = f"sqlite:///{shop}/others.db"
    table = "CREATE TABLE t (v INT, _window_start TEXT)"
    ours = "INSERT INTO t VALUES (0, NULL), (1, '2022-01-01T00:00:00Z')"
    into(shop, database(shop, url, table, ours))
    assert reported(logdriven) == ""


def test_statements_before_the_publication_may_remove_them(shop, logdriven):
    url = f"sqlite:///{shop}/others.db"
    target = database(shop, url, "CREATE TABLE t (v INT)", "INSERT INTO t VALUES (0)")
    into(shop, target, pre_sql=["DELETE FROM t"])
    assert "will be refused unless its pre_sql removes them" in reported(logdriven)


@pytest.mark.parametrize(
    ("fields", "what"),
    [({}, "will be refused"), ({"existing_rows": "keep"}, "stays there and is not read")],
)
def test_existing_files_are_reported(shop, logdriven, fields, what):
    (shop / "out").mkdir()
    (shop / "out/others.csv").write_text("1\n")
    into(shop, {"type": "csv", "path": "out"}, **fields)
    assert "contains others.csv, which no window wrote: " in reported(logdriven)
    assert what in reported(logdriven)


@pytest.mark.usefixtures("slow")
def test_a_database_that_is_away_is_reported_and_the_plan_is_complete(shop, logdriven, monkeypatch):
    monkeypatch.setenv("DW_PASSWORD", "geheim")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        url = f"postgresql+psycopg://etl:${{env:DW_PASSWORD}}@127.0.0.1:{port}/dw"
        into(shop, database(shop, url))
        result = logdriven("plan", *NOON)
    assert result.code == 0
    assert f"{NAME}: it is unknown whether the target has existing rows: connection dw: " in (
        result.out
    )
    assert "ods.orders" in result.out
    assert "geheim" not in result.out


@pytest.mark.usefixtures("slow")
def test_a_database_that_does_not_answer_holds_the_plan_up_for_seconds_only(
    shop, logdriven, monkeypatch
):
    monkeypatch.setattr(existing_rows, "_PATIENCE_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql+psycopg://etl@127.0.0.1:{silent.getsockname()[1]}/dw"
        into(shop, database(shop, url))
        assert (
            "is unknown whether the target has existing rows: connection dw: no answer within 1 s"
            in reported(logdriven)
        )


def test_a_missing_variable_is_reported(shop, logdriven):
    into(shop, database(shop, "postgresql://etl:${env:NEEDS_TEST}@127.0.0.1/dw"))
    assert "connection dw: the environment variable NEEDS_TEST is not set" in reported(logdriven)
