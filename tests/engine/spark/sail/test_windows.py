"""Windows on Sail: the rows, counts and log that Spark gives, and what fails."""

import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from logdriven_dagster.config import load_project
from logdriven_dagster.engine.looking import rows_without_spark
from logdriven_dagster.execution.opening import open_runner
from tests.builders import at
from tests.runlog.logbook import rows

pytestmark = pytest.mark.usefixtures("long")

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


@pytest.fixture(scope="module")
def on_spark(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> Path:
    """A project whose windows ran on Spark one by one."""
    root = tmp_path_factory.mktemp("on-spark")
    write(root, "spark")
    list(open_runner(load_project(root), spark=lambda: spark).catch_up(at("2024-01-04")))
    return root


@pytest.fixture(scope="module", params=[1, "all"], ids=["one by one", "in one pass"])
def worlds(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, on_spark: Path
) -> tuple[Path, Path]:
    """One project that ran on Sail, and the one that ran on Spark."""
    sail = tmp_path_factory.mktemp("on-sail")
    write(sail, "sail", batch_size=request.param)
    done = run_on_sail(sail, "run", "--now", "2024-01-04")
    assert done.returncode == 0, done.stdout + done.stderr
    return sail, on_spark


@pytest.mark.parametrize("table", [*TARGETS, *READING])
def test_rows_are_those_of_spark(worlds: tuple[Path, Path], table: str) -> None:
    sail, oracle = (published(root, table) for root in worlds)
    assert sail
    assert sail == oracle


def test_counts_are_those_of_spark(worlds: tuple[Path, Path]) -> None:
    sail, oracle = (log_of(root, COUNTS) for root in worlds)
    # Spark's plan may leave out NULLs that an inner or outer join would never meet.
    for row in sail + oracle:
        row["source_count"] = None if row["job_name"] == "dwh.joined" else row["source_count"]
    assert len(sail) == 3 * (len(TARGETS) - 1) + 12 + 3 + 3 + 1
    assert sail == oracle


def test_windows_that_may_run_in_one_pass_do(worlds: tuple[Path, Path]) -> None:
    sail, _ = worlds
    one_by_one = "batch_size: 1\n" in (sail / "tables/ods.each.yaml").read_text()
    assert passes_of(sail) == ([] if one_by_one else sorted(IN_ONE_PASS))


def passes_of(root: Path) -> list[str]:
    """The table of each pass of several windows, by the folders that their rows were staged in."""
    return sorted(".".join(place.parts[-4:-2]) for place in root.rglob("*__stretch*"))


def test_the_log_says_which_engine_ran_each_attempt(worlds: tuple[Path, Path]) -> None:
    names = {row["application_id"] for row in log_of(worlds[0], "SELECT * FROM job_log")}
    assert len(names) == 1
    assert names.pop().startswith("sail-0.7.2-")


def test_a_window_that_runs_again_leaves_the_same_rows(worlds: tuple[Path, Path]) -> None:
    sail, _ = worlds
    before = {table: published(sail, table) for table in TARGETS}
    for table in ("ods.each", "ods.latest"):
        done = run_on_sail(sail, "refresh", table, "--from", "2024-01-02", "--to", "2024-01-03")
        assert done.returncode == 0, done.stdout + done.stderr
    assert {table: published(sail, table) for table in TARGETS} == before


def test_a_server_that_dies_is_replaced(tmp_path: Path) -> None:
    write(tmp_path, "sail")
    program = """
from datetime import datetime, timezone
from logdriven_dagster.config import load_project
from logdriven_dagster.engine.spark.connect.sail import server
from logdriven_dagster.execution.opening import open_runner
runner = open_runner(load_project("."))
now = datetime(2024, 1, 4, tzinfo=timezone.utc)
first = list(runner.catch_up(now, ["ods.each"], max_windows=1))
process = server._running[0].process
process.kill()
process.wait()
second = list(runner.catch_up(now, ["ods.each"], max_windows=1))
print([type(event).__name__ for event in first + second])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.count("WindowSucceeded") == 2, done.stdout + done.stderr


def test_nothing_is_left_of_the_server(worlds: tuple[Path, Path]) -> None:
    names = {row["application_id"] for row in log_of(worlds[0], "SELECT * FROM job_log")}
    assert not any(psutil.pid_exists(int(name.rpartition("-")[2])) for name in names)


OTHER_TYPES = {
    "quantity": pa.int64(),
    "amount": pa.decimal128(12, 3),
    "at": pa.timestamp("ns", "UTC"),
}
"""Column → a type that a file has in place of the declared one."""


def test_a_file_of_other_types_than_declared_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "sail")
    table = pq.read_table(tmp_path / "orders/all.parquet")
    text = (tmp_path / "tables/ods.each.yaml").read_text()
    for column, kind in OTHER_TYPES.items():
        place = table.column_names.index(column)
        other = table.set_column(place, column, table[column].cast(kind))
        (tmp_path / column).mkdir()
        pq.write_table(other, tmp_path / column / "a.parquet", version="2.6", store_schema=False)
        changed = text.replace("ods.each", f"odd.{column}").replace(
            "path: orders", f"path: {column}"
        )
        (tmp_path / f"tables/odd.{column}.yaml").write_text(changed)
    names = [f"odd.{column}" for column in OTHER_TYPES]
    run_on_sail(tmp_path, "run", "--now", "2024-01-02", *names)
    errors = log_of(tmp_path, "SELECT error FROM step_log ORDER BY job_id")
    told = sorted(each["error"] for each in errors)
    assert all("which Sail would convert in silence" in text for text in told)
    assert len(told) == len(OTHER_TYPES)


def test_a_value_that_does_not_fit_fails_its_window_alone(tmp_path: Path) -> None:
    write(tmp_path, "sail", ordered=False)
    path = tmp_path / "orders/all.parquet"
    table = pq.read_table(path)
    quantities = table["quantity"].to_pylist()
    quantities[30] = 2**31 - 1  # of the second day
    place = table.column_names.index("quantity")
    pq.write_table(table.set_column(place, "quantity", pa.array(quantities, pa.int32())), path)
    done = run_on_sail(tmp_path, "run", "--now", "2024-01-04", "ods.each")
    found = log_of(tmp_path, "SELECT status FROM job_log ORDER BY data_range_start")
    assert [row["status"] for row in found] == ["SUCCESS", "FAILURE", "SUCCESS"]
    assert "the value 2147483648 is too large for type int" in done.stdout


def test_a_row_outside_of_its_window_stops_it(tmp_path: Path) -> None:
    write(tmp_path, "sail")
    path = tmp_path / "tables/ods.each.yaml"
    path.write_text(path.read_text().replace("window_column: at", ""))
    done = run_on_sail(tmp_path, "run", "--now", "2024-01-02", "ods.each")
    assert done.returncode != 0
    assert "lies outside the window" in done.stdout


def test_a_file_of_a_larger_window_keeps_its_other_rows(tmp_path: Path) -> None:
    write(tmp_path, "sail", period="3 days")
    path = tmp_path / "tables/ods.each.yaml"
    assert run_on_sail(tmp_path, "run", "--now", "2024-01-04", "ods.each").returncode == 0
    before = published(tmp_path, "ods.each")
    changed = path.read_text().replace("3 days", "1 day").replace("quantity + 1", "quantity + 2")
    path.write_text(changed)
    days = ("--from", "2024-01-02", "--to", "2024-01-03")
    done = run_on_sail(tmp_path, "refresh", "ods.each", *days, "--now", "2024-01-04")
    assert done.returncode == 0, done.stdout + done.stderr
    expected = [
        {**row, "more": row["more"] + 1}
        if str(row["day"]) == "2024-01-02" and row["more"] is not None
        else row
        for row in before
    ]
    assert published(tmp_path, "ods.each") == sorted(expected, key=repr)
