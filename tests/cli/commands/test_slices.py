"""Tables along keys on the command line: plan, status, refresh."""

import json
import sqlite3
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import CommandLine
from tests.cli.program import PROGRAM

NOW = ("--now", "2022-01-01T12:00")
STEP = {
    "step": "load",
    "source": {"type": "jdbc", "connection": "shop", "table": "orders", "key_column": "id"},
    "target": {"type": "iceberg"},
}


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logdriven: CommandLine) -> Path:
    """A project whose only table follows the keys of a table with four orders."""
    spark = {"config": {"spark.driver.memory": "1g"}, "master": "local[1]"}
    settings = {"project": "keys", "connections": {"shop": {"url": "sqlite:///shop.db"}}}
    (tmp_path / "logdriven.yaml").write_text(yaml.safe_dump({**settings, "spark": spark}))
    table = {"table": "ods.orders", "incremental_type": "auto_inc_id", "period": "1 day"}
    (tmp_path / "tables").mkdir()
    text = yaml.safe_dump({**table, "window_size": 2, "steps": [STEP]})
    (tmp_path / "tables/orders.yaml").write_text(text)
    with sqlite3.connect(tmp_path / "shop.db") as conn:
        conn.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY)")
        conn.executemany("INSERT INTO orders VALUES (?)", [(1,), (2,), (3,), (4,)])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def loaded(folder: Path, *command: str) -> list[tuple[str, str]]:
    """The ranges that a command loads, in a process with a JVM of its own."""
    whole = [*PROGRAM, *command, "--json", *NOW]
    done = subprocess.run(whole, cwd=folder, check=True, capture_output=True, text=True)
    windows = json.loads(done.stdout)["windows"]
    return [(window["data_range_start"], window["data_range_end"]) for window in windows]


@pytest.mark.parametrize("window", ["4", "2022-01-01"])
def test_key_ranges_are_not_skipped(keys, logdriven, window: str):
    for command in ("skip", "unskip"):
        refused = logdriven(command, "ods.orders", "--window", window, "--reason", "why")
        assert refused.code == 2
        assert "numbered windows, which cannot be skipped" in " ".join(refused.err.split())


def test_before_the_first_run_the_plan_has_one_slice_without_an_end(keys, logdriven):
    assert logdriven("plan", "--json", *NOW).json == [
        {
            "table": "ods.orders",
            "data_range_start": "0",
            "data_range_end": None,
            "state": "ready",
            "reason": "has not run",
        }
    ]
    assert "(0, …]" in logdriven("plan", *NOW).out
    (row,) = logdriven("status", "--json", *NOW).json["tables"]
    assert (row["watermark"], row["pending"]) == ("0", 1)


@pytest.mark.usefixtures("long")
def test_run_status_log_and_refresh_speak_of_keys(spark, keys, logdriven):
    assert loaded(keys, "run") == [("0", "2"), ("2", "4")]
    assert logdriven("status", "--json", *NOW).json["tables"][0]["watermark"] == "4"
    assert "0 – 2" in logdriven("log").out
    refused = logdriven("refresh", "ods.orders", "--from", "noon", "--to", "5", *NOW)
    assert (refused.code, "expected a key" in refused.err) == (2, True)
    beyond = logdriven("refresh", "ods.orders", "--from", "100", "--to", "200", *NOW)
    assert (beyond.code, "has loaded up to 4" in beyond.err) == (2, True)
    again = loaded(keys, "refresh", "ods.orders", "--from", "2", "--to", "3")
    assert again == [("2", "4")]
    assert loaded(keys, "refresh", "ods.orders", "--last", "1") == [("2", "4")]
    assert loaded(keys, "refresh", "ods.orders", "--window", "0") == [("0", "2")]
    assert logdriven("plan", "--json", *NOW).json == []
