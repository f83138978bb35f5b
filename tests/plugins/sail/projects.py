"""A project whose tables run on Sail and on Spark, with the rows and the log that they leave."""

import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from logdriven_dagster.config import load_project
from logdriven_dagster.engine.looking import rows_without_spark
from logdriven_dagster.execution.opening import open_runner
from tests.builders import at
from tests.runlog.logbook import rows

HOURS = 24 * 3
COLUMNS = "id BIGINT, at TIMESTAMP, name STRING, amount DECIMAL(12,2), quantity INT"
SOURCE = {"type": "parquet", "path": "orders", "window_column": "at", "columns": COLUMNS}
EACH = """
SELECT id, CAST(at AS DATE) AS day, upper(coalesce(name, '?')) AS name, quantity + 1 AS more,
  CAST(amount * coalesce(quantity, 1) AS DECIMAL(18, 2)) AS revenue
FROM source WHERE id > 5
"""
SUMS = """
SELECT s.name, count(*) AS n, sum(s.amount) AS amount, max(s.at) AS last
FROM source s WHERE s.quantity > 2 GROUP BY s.name
"""
DAYS = """
SELECT CAST(s.at AS DATE) AS day, s.name, count(*) AS n, sum(s.amount) AS amount
FROM source s WHERE s.quantity > 2 GROUP BY CAST(s.at AS DATE), s.name
"""
JOINED = """
SELECT e.day, e.name, e.revenue, s.n FROM ods.each e
LEFT JOIN dwh.sums s ON s.name = e.name AND s.n < 100 WHERE e.revenue > 1
"""
LATEST = """
SELECT s.quantity, coalesce(s.name, '?') AS name, max(s.at) AS last, sum(s.amount) AS amount
FROM source s WHERE s.quantity >= 0 GROUP BY s.quantity, coalesce(s.name, '?')
"""
AGAIN = "SELECT e.day, e.name, e.more FROM ods.each e WHERE e.more > 1"
WEEKLY = "SELECT name, count(*) AS n, sum(more) AS more FROM files.each f GROUP BY name"
READING: Mapping[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "dwh.joined": (JOINED, {}, {"depends_on": ["ods.each", "dwh.sums"]}),
    "dwh.again": (AGAIN, {"window_column": "day"}, {"depends_on": ["ods.each"]}),
    "dwh.three_days": (WEEKLY, {}, {"depends_on": ["files.each"], "period": "3 days"}),
}
"""Tables that read others: query, fields of the target, and of the table."""
TARGETS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "ods.each": (EACH, {"type": "iceberg", "window_column": "day"}),
    "ods.appended": (EACH, {"type": "iceberg", "mode": "append"}),
    "ods.whole": (EACH, {"type": "iceberg", "mode": "overwrite"}),
    "ods.added": (EACH, {"type": "iceberg", "mode": "append", "window_column": "day"}),
    "dwh.sums": (SUMS, {"type": "iceberg"}),
    "dwh.days": (DAYS, {"type": "iceberg", "window_column": "day"}),
    "files.days": (DAYS, {"type": "parquet", "mode": "append", "window_column": "day"}),
    "files.quarters": ("SELECT * FROM source", {"type": "parquet", "window_column": "at"}),
    "ods.latest": (LATEST, {"type": "iceberg", "mode": "upsert", "key": ["quantity", "name"]}),
    "files.each": (EACH, {"type": "parquet", "window_column": "day"}),
    "files.sums": (SUMS, {"type": "parquet", "mode": "append"}),
    "files.whole": (SUMS, {"type": "parquet", "mode": "overwrite"}),
}
PERIODS = {"files.quarters": "6 hours"}
IN_ONE_PASS = ["ods.each", "ods.added", "dwh.days", "dwh.again"]
IN_ONE_PASS += ["files.days", "files.each", "files.quarters"]


def write(root: Path, engine: str, **fields: Any) -> None:
    settings = {"project": "shop", "timezone": "UTC"}
    settings["spark"] = {"engine": engine, "master": "local[2]"}
    (root / "logdriven.yaml").write_text(yaml.safe_dump(settings))
    for name, (sql, target) in TARGETS.items():
        step = {"step": "load", "source": SOURCE, "sql": sql, "target": target}
        period = PERIODS.get(name, "1 day")
        table = {"table": name, "period": period, "default_start": "2024-01-01", "steps": [step]}
        path = root / f"tables/{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump({**table, **fields}))
    for name, (sql, target, more) in READING.items():
        step = {"step": "load", "sql": sql, "target": {"type": "iceberg", **target}}
        table = {"table": name, "period": "1 day", "default_start": "2024-01-01", "steps": [step]}
        (root / f"tables/{name}.yaml").write_text(yaml.safe_dump({**table, **more, **fields}))
    orders = {
        "id": pa.array(range(HOURS), pa.int64()),
        "at": pa.array([at("2024-01-01") + timedelta(hours=n) for n in range(HOURS)]),
        "name": pa.array([None if n % 7 == 0 else f"n{n % 5}" for n in range(HOURS)]),
        "amount": pa.array([Decimal(n) / 4 for n in range(HOURS)], pa.decimal128(12, 2)),
        "quantity": pa.array([None if n % 11 == 0 else n % 6 for n in range(HOURS)], pa.int32()),
    }
    (root / "orders").mkdir(exist_ok=True)
    pq.write_table(pa.table(orders), root / "orders/all.parquet")


COUNTS = """
SELECT j.job_name, j.data_range_start, s.status, s.source_count, s.target_count, s.success_count,
  s.inserted_count, s.updated_count,
  j.current_file, s.source_type, s.target_type
FROM step_log s JOIN job_log j ON j.job_id = s.job_id ORDER BY j.job_name, j.data_range_start
"""


def run_on_sail(root: Path, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """`logdriven`, in a process of its own."""
    command = [str(Path(sys.executable).with_name("logdriven")), *words]
    variables = {**os.environ, **environment}
    return subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=False, env=variables
    )


def log_of(root: Path, query: str) -> list[dict[str, Any]]:
    return rows(open_runner(load_project(root)).run_log, query)


def published(root: Path, table: str) -> list[dict[str, Any]]:
    found = rows_without_spark(load_project(root), table, None)
    assert found is not None
    return sorted(found.first(10_000).to_pylist(), key=repr)
