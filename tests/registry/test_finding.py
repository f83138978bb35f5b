"""Who uses what: one indexed query."""

import pytest
from sqlalchemy import insert, text

from logdriven_dagster.execution.definitions.changes import find
from logdriven_dagster.model.definitions import Kind, build_code
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.definitions.history import build_users_query, find_users
from logdriven_dagster.runlog.schema.definitions import definition_use

pytestmark = pytest.mark.sampled("database_url")

ERP = """
    table: ods.invoices
    period: 1 day
    default_start: 2022-01-01
    steps:
      - step: load
        source: {type: jdbc, connection: erp, table: public.invoices}
        target: {type: jdbc, connection: mart, table: invoices}
"""
CONNECTIONS = """
    project: shop
    connections:
      erp: {url: "postgresql://host/erp"}
      mart: {url: "postgresql://host/mart"}
"""


def found(shop, text=None, **wanted):
    return [(item.name, item.uses, item.used) for item in find(shop.root, wanted, text)]


def test_find_names_who_uses_a_connection_a_source_a_target_a_file_and_an_upstream(shop):
    shop.write("logdriven.yaml", CONNECTIONS)
    shop.write("tables/invoices.yaml", ERP)
    shop.with_sales().apply()
    assert found(shop, connection="erp") == [("ods.invoices", "connection", "erp")]
    assert found(shop, source="public.invoices") == [("ods.invoices", "source", "public.invoices")]
    assert found(shop, target="invoices") == [("ods.invoices", "target", "invoices")]
    assert found(shop, file="sales.sql") == [("dws.sales", "file", "sales.sql")]
    assert found(shop, upstream="ods.orders") == [("dws.sales", "upstream", "ods.orders")]
    assert found(shop, table="dws.sales") == [("nightly", "table", "dws.sales")]
    assert found(shop, connection="erp", target="nowhere") == []


def test_a_star_stands_for_anything_and_nothing_else_does(shop):
    shop.with_sales().apply()
    assert [name for name, _, _ in found(shop, upstream="ods.*")] == ["dws.sales"]
    assert found(shop, upstream="ods_orders") == []
    assert found(shop, upstream="ods.order%") == []
    assert {name for name, _, _ in found(shop, "*sales*")} == {"dws.sales", "nightly"}


def test_free_text_finds_names_and_everything_that_is_used(shop):
    shop.with_sales().apply()
    assert found(shop, "ods.orders") == [
        ("ods.orders", "name", "ods.orders"),
        ("ods.orders", "target", "ods.orders"),
        ("dws.sales", "upstream", "ods.orders"),
    ]


def test_uses_follow_the_latest_versions(shop):
    shop.with_sales().apply()
    shop.write("tables/sales.sql", "SELECT 1 AS n")
    shop.edit("tables/sales.yaml", "sql_file: sales.sql", "sql: SELECT 1 AS n")
    shop.apply()
    assert found(shop, file="sales.sql") == []


@pytest.mark.sampled
def test_of_10000_tables_the_users_of_a_connection_come_from_an_index(database_url):
    log = RunLog.open(database_url)
    project = build_code("shop", Kind.PROJECT, "shop")
    rows = [
        {
            "project_code": project,
            "code": build_code("shop", Kind.TABLE, f"t{n}"),
            "kind": kind,
            "used": f"c{n // 3}" if kind == "connection" else f"t{n}",
            "step_id": "load",
        }
        for n in range(10_000)
        for kind in ("connection", "target", "source")
    ]
    with log.begin() as conn:
        conn.execute(insert(definition_use), rows)
        conn.execute(text("ANALYZE" + (" TABLE definition_use" if _is_maria(log) else "")))
    query = build_users_query("shop", ["connection"], "c7").compile(
        log.engine, compile_kwargs={"literal_binds": True}
    )
    explain = "EXPLAIN QUERY PLAN" if log.engine.dialect.name == "sqlite" else "EXPLAIN"
    with log.read() as conn:
        plan = str(conn.execute(text(f"{explain} {query}".replace(":", r"\:"))).all())
        assert find_users(conn, "shop", ["connection"], "c7") == []  # of tables that are not there
    assert "ix_definition_use" in plan
    log.engine.dispose()


def _is_maria(log):
    return log.engine.dialect.name in ("mysql", "mariadb")
