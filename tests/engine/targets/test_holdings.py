"""What a target holds is told without Spark; a database counts its rows, but not very many."""

from typing import Any

import pytest
import sqlalchemy as sa

from logdriven_dagster.engine.targets.contents import Holdings, holdings
from logdriven_dagster.engine.targets.jdbc import contents as of_databases
from logdriven_dagster.model.runs import Column
from tests.engine.laboratory import Lab


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def held(request: pytest.FixtureRequest, lab: Lab) -> Any:
    """What is told of a table of three rows."""
    fixture = {"postgresql": "postgres_url", "mariadb": "mariadb_url"}.get(request.param)
    default = sa.make_url(f"sqlite:///{lab.root}/dw.db")
    url = request.getfixturevalue(fixture) if fixture else default
    lab.settings["connections"] = {"dw": {"url": url.render_as_string(hide_password=False)}}
    with sa.create_engine(url, poolclass=sa.NullPool).begin() as conn:
        conn.execute(sa.text("CREATE TABLE t (v BIGINT, _window_start VARCHAR(32))"))
        conn.execute(sa.text("INSERT INTO t (v) VALUES (1), (2), (3)"))
    target = {"type": "jdbc", "connection": "dw", "table": "t"}
    lab.table("ods.t", {"sql": "SELECT 1 AS v", "target": target})
    return lambda: holdings(lab.project, lab.project.table("ods.t"))


def test_a_database_reports_columns_and_rows(held: Any):
    assert held() == Holdings((Column("v", "bigint"),), 3)


def test_very_many_rows_are_not_counted(held: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(of_databases, "_MOST_COUNTED", 3)
    assert held().rows == 3
    monkeypatch.setattr(of_databases, "_MOST_COUNTED", 2)
    assert held().rows is None
