"""`status` shows where the rows of sources belonged when somebody looked last."""

import sqlite3
from dataclasses import dataclass, replace
from typing import Any

import pytest

from logdriven_dagster.cli.commands import audit as audit_commands
from logdriven_dagster.config import load_project
from logdriven_dagster.execution.definitions.homes import open_run_log
from logdriven_dagster.model.source_rows import SourceRows
from logdriven_dagster.runlog.observed import audits
from logdriven_dagster.testing import NullEngine
from logdriven_dagster.testing.null_engine import null_engine
from tests.builders import table
from tests.cli.shop_log import KEYS

TABLE = table("ods.orders")
ROWS = SourceRows("ods.orders", "load", total=2222, unplaced=2, before=1, after=0, future=0)
SENTENCE = (
    "3 of 2,222 rows do not belong to any window: 2 with NULL or an invalid value, "
    "1 before the first window"
)


def test_status_shows_rows_of_no_window(shop, logdriven):
    with open_run_log(load_project(shop)).begin() as conn:
        audits.record(conn, replace(ROWS, unplaced=0), TABLE)
        audits.record(conn, ROWS, TABLE)
    assert f"ods.orders · load: {SENTENCE}" in logdriven("status").out
    (source,) = logdriven("status", "--json").json["sources"]
    assert (source["table"], source["total"], source["lost"]) == ("ods.orders", 2222, 3)


def test_an_audit_shows_a_line_for_each_source(capsys):
    rows = replace(ROWS, done=1800, read=1795)
    audit_commands._print([rows])
    lines = capsys.readouterr().out.splitlines()
    numbers = next(line for line in lines if "ods.orders · load " in line).split()[3:]
    assert numbers == ["2,222", "1,800", "1,795", "419", "0", "2", "1", "0", "5", "0"]
    assert any(f"{SENTENCE}; 5 rows arrived after their windows ran" in line for line in lines)


def test_a_table_without_a_window_column_cannot_be_audited(shop, logdriven):
    (shop / "tables/plain.yaml").write_text(
        "table: plain\nperiod: 1 day\ndefault_start: 2022-01-01\n"
        "steps: [{step: load, sql: SELECT 1 AS one, target: {type: iceberg}}]\n"
    )
    result = logdriven("audit", "plain")
    assert result.code == 2
    assert "none of its sources has a window_column" in result.err.replace("\n", " ")


PROJECT = """\
project: shop
connections: {lite: {url: 'sqlite:///lite.db'}}
"""


@dataclass
class CountingEngine(NullEngine):
    """A null engine whose windows read five rows, and whose sources hold some of them."""

    held: int = 5

    def __post_init__(self) -> None:
        super().__init__(stage=lambda *_: 5)

    def count_source(self, run: Any, step: Any, *_: Any) -> SourceRows:  # type: ignore[override]
        return SourceRows(run.table, step.step, self.held, 0, 0, 0, 0, done=self.held)


@pytest.mark.parametrize("held", [5, 4, 0])
def test_an_audit_fails_where_fewer_rows_are_there_than_were_read(
    tmp_path, logdriven, monkeypatch, held: int
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/keys.yaml").write_text(KEYS)
    (tmp_path / "logdriven.yaml").write_text(PROJECT)
    with sqlite3.connect(tmp_path / "lite.db") as conn:
        conn.execute("CREATE TABLE orders AS SELECT 5 AS id")
    with null_engine(CountingEngine()) as engine:
        for day in (1, 2):  # the second one finds nothing new
            assert logdriven("run", "--now", f"2022-01-0{day}").code == 0
        engine.held = held
        result = logdriven("audit", "ods.keys", "--json")
        shown = logdriven("audit", "ods.keys").out
    (source,) = result.json["sources"]
    gone = 5 - held
    assert (result.code, source["read"], source["gone"], source["lost"]) == (gone > 0, 5, gone, 0)
    sentence = f"{gone} rows that windows read are not in the source any more"
    assert (sentence in shown.replace("\n", " ")) == bool(gone)
