"""Runners killed between reading and finishing: every row of every kind of source once."""

import json
import signal
import sqlite3
from collections import Counter
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import yaml

from logdriven_dagster.config import load_project
from logdriven_dagster.engine.iceberg.names import identifier
from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.runlog.history import logs as history
from tests.faults.projects import NOW
from tests.plugins.kafka.conftest import peer, topic
from tests.plugins.kafka.peer import Peer
from tests.slices.killed_runs import SPARK, run

__all__ = ["peer", "topic"]
pytestmark = pytest.mark.usefixtures("long", "spark_processes")

POINTS = ["staged", "published", "before publishing", "persisted"]
THIRD_WINDOW = "3"
"""Each runner finishes what the one before left, and one more, and dies in the next window."""


def sliced(name: str, kind: str, source: dict[str, Any] | None, **fields: Any) -> dict[str, Any]:
    sql = fields.pop("sql", None)
    step = {"step": "load", "target": {"type": "iceberg"}}
    step |= {"source": source} if source else {}
    step |= {"sql": sql} if sql else {}
    return {"table": name, "incremental_type": kind, "period": "1 day", "steps": [step], **fields}


@pytest.fixture
def folder(tmp_path: Path, peer: Peer, topic: str) -> Path:
    """A table of each kind, each with three slices."""
    connections = {
        "shop": {"url": "sqlite:///shop.db"},
        "broker": {"kafka": {"bootstrap.servers": peer.servers}},
    }
    settings = {"project": "kills", "connections": connections, "spark": SPARK}
    (tmp_path / "logdriven.yaml").write_text(yaml.safe_dump(settings))
    orders = {"type": "jdbc", "connection": "shop", "table": "orders", "key_column": "id"}
    lines = {"type": "csv", "path": "in/*.csv", "header": True}
    views = {"type": "kafka", "connection": "broker", "topic": topic}
    as_text = "SELECT CAST(value AS STRING) AS v FROM source"
    copy = "SELECT id FROM ods.orders"
    tables = [
        sliced("ods.orders", "auto_inc_id", orders, window_size=2),
        sliced("ods.lines", "files", lines, max_batches=1),
        sliced("ods.views", "kafka_offset", views, max_offsets_per_window=2, sql=as_text),
        sliced("dwd.copies", "upstream", None, sql=copy, depends_on=["ods.orders"]),
    ]
    (tmp_path / "tables").mkdir()
    for table in tables:
        (tmp_path / f"tables/{table['table']}.yaml").write_text(yaml.safe_dump(table))
    with sqlite3.connect(tmp_path / "shop.db") as conn:
        conn.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY)")
        conn.executemany("INSERT INTO orders VALUES (?)", [(n,) for n in range(1, 7)])
    (tmp_path / "in").mkdir()
    for n in range(1, 4):
        (tmp_path / f"in/{n}.csv").write_text(f"v\n{n}\n")
    peer.send(topic, *"abcdef")
    return tmp_path


def values(folder: Path, table: str) -> list[str]:
    loaded = open_catalog(load_project(folder)).load_table(identifier(table))
    return sorted(str(row) for row in loaded.scan().to_arrow().column(0).to_pylist())


def test_killed_between_reading_and_finishing_every_row_is_there_once(folder: Path, topic: str):
    runner = open_runner(load_project(folder))
    killed = 0
    for point in cycle(POINTS):
        code = run(folder, "kill", point, THIRD_WINDOW)
        if code != -signal.SIGKILL:
            break
        killed += 1
    assert code == 0
    assert not list(runner.plan(NOW).windows())
    assert values(folder, "ods.orders") == values(folder, "dwd.copies") == list("123456")
    assert values(folder, "ods.lines") == list("123")
    assert values(folder, "ods.views") == list("abcdef")
    with runner.run_log.read() as conn:
        rows = history.attempts(conn, limit=1000)
    ended = Counter((row["job_name"], row["status"]) for row in rows if row["data_range_end"])
    assert killed == sum(n for (_, status), n in ended.items() if status == "FAILURE") >= 5
    for table in ("ods.orders", "ods.lines", "ods.views", "dwd.copies"):
        assert ended[table, "SUCCESS"] == 3
        assert ended[table, "FAILURE"] >= 1
    ends = [json.loads(r["data_range_end"]) for r in rows if r["job_name"] == "ods.views"]
    assert max(end[topic]["0"] for end in ends) == 6


def test_slices_stand_whose_refreshes_were_killed_and_whose_sources_have_gone_s08(
    folder: Path, peer: Peer, topic: str
):
    """What was staged as a whole is published, what was not leaves what was there before."""
    assert run(folder) == 0
    for table, key, point in (
        ("ods.views", "0", "claimed"),
        ("ods.views", "1", "staged"),
        ("ods.views", "2", "persisted"),
        ("dwd.copies", "0", "staged"),
    ):
        assert run(folder, "kill", point, "1", refresh=(table, key)) == -signal.SIGKILL
    peer.delete_records(topic, 0, 6)
    assert run(folder) == 0
    runner = open_runner(load_project(folder))
    assert not list(runner.plan(NOW).windows())
    assert values(folder, "ods.views") == list("abcdef")
    assert values(folder, "ods.orders") == values(folder, "dwd.copies") == list("123456")
    gone = runner.plan(NOW).tables["ods.views"].log.failed_refreshes
    assert [item.window.number for item in gone] == [0, 1]
    tomorrow = runner.plan(NOW + timedelta(days=1)).tables["ods.views"]
    assert [(item.number, item.low) for item in tomorrow.unfinished] == [
        (3, f'{{"{topic}":{{"0":6}}}}')
    ]
