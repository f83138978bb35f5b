"""Refreshes that are killed at the points of their life, into every kind of target at once. S08."""

import signal
import sqlite3
from pathlib import Path

import pytest
import yaml

from logdriven_dagster.config import load_project
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.planning.plan import Plan
from tests.builders import day
from tests.faults.projects import NOW
from tests.slices.killed_runs import SPARK, run

pytestmark = pytest.mark.usefixtures("long", "spark_processes")
TARGETS = {
    "kept": {"type": "iceberg"},
    "logged": {"type": "delta", "path": "logged"},
    "filed": {"type": "parquet"},
    "sold": {"type": "jdbc", "connection": "lite", "table": "sold"},
}
POINTS = [("claimed", "1"), ("staged", "3"), ("persisted", "1"), ("published", "1")]
"""Point and call at which the refresh of the first day is killed, then of the second, …"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table with three targets, of which the last one is a database, and four days."""
    settings = {"project": "killed", "spark": SPARK}
    settings |= {"connections": {"lite": {"url": "sqlite:///t.db"}}}
    (tmp_path / "logdriven.yaml").write_text(yaml.safe_dump(settings))
    (tmp_path / "tables").mkdir()
    with sqlite3.connect(tmp_path / "t.db") as conn:
        conn.execute("CREATE TABLE sold (n BIGINT, _window_start VARCHAR(40))")
    write(tmp_path, "SELECT 1 AS n")
    return tmp_path


def write(folder: Path, sql: str) -> None:
    steps = [{"step": step, "sql": sql, "target": target} for step, target in TARGETS.items()]
    table = {"table": "t", "period": "1 day", "default_start": "2022-01-01", "end": "2022-01-05"}
    (folder / "tables/t.yaml").write_text(yaml.safe_dump({**table, "steps": steps}))


def planned(folder: Path) -> Plan:
    return open_runner(load_project(folder)).plan(NOW)


def test_what_was_published_stands_unless_publication_had_begun(folder: Path):
    assert run(folder) == 0
    for number, (point, call) in enumerate(POINTS, 1):
        hurt = ("kill", point, call)
        assert run(folder, *hurt, refresh=("t", str(number))) == -signal.SIGKILL
    write(folder, "SELECT CAST('broken' AS INT) AS n")
    assert run(folder) == 0
    log = planned(folder).tables["t"].log
    assert [item.window for item in log.failed_refreshes] == [day(1), day(2), day(3)]
    assert [item.window for item in log.open] == [day(4)]
    write(folder, "SELECT 1 AS n")
    assert run(folder) == 0
    assert planned(folder).tables["t"].pending == 0
    with sqlite3.connect(folder / "t.db") as conn:
        assert conn.execute("SELECT sum(n), count(*) FROM sold").fetchall() == [(4, 4)]
