"""Statements that a step commits before it reads. Source: Kettle, transformation template (K19)."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from logdriven_dagster.engine import WindowSession
from logdriven_dagster.engine.window.step_results import StepResults
from logdriven_dagster.execution.events import WindowFailed, WindowSucceeded
from tests.builders import at
from tests.execution.crashes import crash, kill
from tests.plugins.importers.conftest import Folder

NOW = at("2022-01-02 12:00")
"""One window is due. `crash` runs later, and one window only."""
FILL = ["DELETE FROM stage", "INSERT INTO stage SELECT id FROM live"]


class Shop(Folder):
    """A table that stages `live` in the database before it reads it from there."""

    def __init__(self, root: Path, url: sa.URL, spark: Any) -> None:
        super().__init__(root, url)
        self.spark = spark
        self.execute(
            "CREATE TABLE live (id INT)", "CREATE TABLE stage (id INT)", "CREATE TABLE runs (n INT)"
        )
        self.execute("INSERT INTO live VALUES (1)", "INSERT INTO stage VALUES (7)")

    def table(self, *sql: str, query: str = "SELECT id FROM stage", **step: Any) -> None:
        source = {"type": "jdbc", "connection": "shop", "query": query}
        target = {"type": "jdbc", "connection": "shop", "table": "made"}
        script = {"connection": "shop", "sql": list(sql), **step.pop("script", {})}
        load = {"step": "load", "commit_before_read": [script], "source": source, "target": target}
        values = {
            "table": "ods.made",
            "period": "1 day",
            "default_start": "2022-01-01",
            "steps": [{**load, **step}],
        }
        self.write("tables/made.yaml", yaml.safe_dump(values))

    def rows(self, query: str) -> list[Any]:  # type: ignore[override]
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        with engine.connect() as conn:
            return [tuple(row) for row in conn.exec_driver_sql(query)]


@pytest.fixture
def shop(tmp_path: Path, database_url: sa.URL, spark: Any) -> Shop:
    return Shop(tmp_path, database_url, spark)


@pytest.mark.sampled
def test_a_step_reads_what_its_statements_have_written_k19(shop: Shop):
    shop.table(*FILL)
    _, ended = shop.catch_up(now=NOW)
    assert isinstance(ended, WindowSucceeded)
    assert shop.rows("SELECT id FROM made") == [(1,)]
    (row,) = shop.log()
    assert "before the read 2 rows changed on shop" in row["steps"][0]["output"]


def test_they_stay_committed_although_the_window_fails_k19(shop: Shop):
    shop.table(*FILL, query="SELECT id FROM nowhere")
    _, ended = shop.catch_up(now=NOW)
    assert isinstance(ended, WindowFailed)
    assert shop.rows("SELECT id FROM stage") == [(1,)]


def test_those_of_one_transaction_are_all_executed_or_none(shop: Shop):
    shop.table("INSERT INTO runs VALUES (1)", "INSERT INTO nowhere VALUES (1)")
    _, ended = shop.catch_up(now=NOW)
    assert isinstance(ended, WindowFailed)
    assert shop.rows("SELECT n FROM runs") == []


@pytest.mark.sampled
def test_each_by_itself_if_the_table_requires_it(shop: Shop):
    statements = ["DROP TABLE stage", "CREATE TABLE stage (id INT)", "INSERT INTO stage VALUES (3)"]
    shop.table(*statements, script={"transaction": False})
    shop.catch_up(now=NOW)
    assert shop.rows("SELECT id FROM made") == [(3,)]


@pytest.mark.sampled
def test_every_attempt_executes_them_again(shop: Shop):
    shop.table("INSERT INTO runs VALUES (${JOB_ID})", query="SELECT id FROM nowhere")
    for _ in range(2):
        shop.catch_up(now=NOW)
    assert len(shop.rows("SELECT n FROM runs")) == 2


@pytest.mark.sampled
def test_killed_between_them_and_the_read_they_are_executed_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    shop.table("INSERT INTO runs VALUES (1)", *FILL)
    with monkeypatch.context() as dying:
        dying.setattr(StepResults, "build_result", lambda *_: kill())
        crash(shop, monkeypatch, "ods.made")
    shop.execute("INSERT INTO live VALUES (2)")
    shop.catch_up(now=NOW)
    assert shop.rows("SELECT id FROM made ORDER BY id") == [(1,), (2,)]
    assert len(shop.rows("SELECT n FROM runs")) == 2


@pytest.mark.sampled
def test_killed_before_publication_they_are_not_executed_again_by_who_takes_over(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    shop.table("INSERT INTO runs VALUES (1)", *FILL)
    with monkeypatch.context() as dying:
        dying.setattr(WindowSession, "publish", lambda *_: kill())
        crash(shop, monkeypatch, "ods.made")
    shop.execute("DELETE FROM live")
    shop.catch_up(now=NOW)
    assert shop.rows("SELECT id FROM made") == [(1,)]
    assert len(shop.rows("SELECT n FROM runs")) == 1
