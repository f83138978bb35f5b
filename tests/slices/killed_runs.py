"""Runs in processes of their own, which a test may kill."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.driver import ROOT
from tests.kafka.peer import Peer
from tests.patience import PATIENCE

SPARK = {
    "master": "local[1]",
    "config": {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    },
}


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


def run(folder: Path, *hurt: str, refresh: tuple[str, ...] = ()) -> int:
    """One catch-up, or refresh, in a process of its own, hurt or not; its exit code."""
    fault = hurt or ("", "", "1")
    command = [sys.executable, "-m", "tests.faults.victim", str(folder), *fault, "", *refresh]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(timeout=PATIENCE)
    finally:
        with_children(process.pid)


def with_children(leader: int) -> None:
    """End what a dead runner leaves behind, such as its JVM."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return
