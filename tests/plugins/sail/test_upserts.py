"""Upserts on Sail: the rows, counts and refusals of Spark, also where an older window runs last."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.builders import at
from tests.plugins.sail.engines import ROOT
from tests.plugins.sail.projects import log_of, published, run_on_sail
from tests.plugins.sail.tables import VALUES
from tests.plugins.sail.upserting import BOUNDS, run

pytestmark = pytest.mark.usefixtures("long")

KEYS = ("b", "i", "l", "s", "d", "t", "m")
"""Columns of VALUES, a table with such a key for each."""
COUNTS = """
SELECT j.job_name, j.data_range_start, j.status, s.source_count, s.target_count, s.success_count,
  s.inserted_count, s.updated_count
FROM step_log s JOIN job_log j ON j.job_id = s.job_id ORDER BY j.job_name, j.job_id
"""
QUERY = "SELECT k, day, v FROM source"


def write(root: Path, engine: str) -> None:
    settings = {"project": "shop", "timezone": "UTC", "spark": {"engine": engine}}
    (root / "logdriven.yaml").write_text(yaml.safe_dump(settings))
    (root / "tables").mkdir()
    for name in KEYS:
        # Each day has two of three values, and what it says of a value is its own.
        values = [value for value in VALUES[name][2] if value is not None]
        rows = [(day, v) for day in range(4) for n, v in enumerate(values) if (n + day) % 3]
        write_table(root, name, ["k"], rows)
    texts = [f"{sign * 70}{n}" for sign in ("x", "😀", "\U0010ffff") for n in range(4)]
    long = [(day, text) for day in range(4) for n, text in enumerate(texts) if (n + day) % 3]
    write_table(root, "long", ["k"], long)
    write_table(root, "several", ["k", "day"], [(day, n) for day in range(4) for n in range(day)])


def write_table(root: Path, name: str, key: list[str], rows: list[tuple[int, Any]]) -> None:
    kind, arrow, _ = VALUES[{"several": "l", "long": "s"}.get(name, name)]
    days = [day for day, _ in rows]
    columns = {
        "k": pa.array([value for _, value in rows], arrow),
        "at": pa.array([at(BOUNDS[day]) + timedelta(hours=1) for day in days]),
        "day": pa.array([day // 2 for day in days], pa.int32()),
        "v": pa.array([f"of day {day}" for day in days]),
    }
    (root / name).mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), root / name / "all.parquet")
    ddl = f"k {kind}, at TIMESTAMP, day INT, v STRING"
    source = {"type": "parquet", "path": name, "window_column": "at", "columns": ddl}
    target = {"type": "iceberg", "mode": "upsert", "key": key}
    step = {"step": "load", "source": source, "sql": QUERY, "target": target}
    table = {"table": f"ods.{name}", "period": "1 day", "default_start": BOUNDS[0], "steps": [step]}
    (root / f"tables/{name}.yaml").write_text(yaml.safe_dump(table))


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory, spark: Any) -> tuple[Path, Path]:
    """One project that ran on Sail, and one that ran on Spark."""
    sail, oracle = tmp_path_factory.mktemp("on-sail"), tmp_path_factory.mktemp("on-spark")
    write(sail, "sail")
    write(oracle, "spark")
    command = [sys.executable, "-m", "tests.plugins.sail.upserting", str(sail)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    run(oracle, lambda: spark)
    return sail, oracle


@pytest.mark.parametrize("table", [*KEYS, "long", "several"])
def test_rows_are_those_of_spark(worlds: tuple[Path, Path], table: str) -> None:
    sail, oracle = (published(root, f"ods.{table}") for root in worlds)
    assert sail
    assert sail == oracle


def test_what_was_inserted_and_updated_is_that_of_spark(worlds: tuple[Path, Path]) -> None:
    sail, oracle = (log_of(root, COUNTS) for root in worlds)
    assert sail == oracle
    assert {row["status"] for row in sail} == {"SUCCESS"}
    assert sum(row["updated_count"] for row in sail) > 0


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([(0, 7), (0, 7)], "2 rows have one key: k=7"),
        ([(0, 7), (0, None)], "a key must not be null: k=None"),
    ],
)
def test_keys_that_do_not_identify_a_row_are_refused(
    tmp_path: Path, rows: list[tuple[int, Any]], problem: str
) -> None:
    write(tmp_path, "sail")
    write_table(tmp_path, "l", ["k"], rows)
    done = run_on_sail(tmp_path, "run", "--now", BOUNDS[1], "ods.l")
    assert done.returncode != 0
    assert problem in " ".join(done.stdout.split())


def test_a_file_of_the_table_that_is_gone_stops_the_window(tmp_path: Path) -> None:
    write(tmp_path, "sail")
    assert run_on_sail(tmp_path, "run", "--now", BOUNDS[1], "ods.l").returncode == 0
    (file,) = (tmp_path / ".logdriven/warehouse/ods/l/data").rglob("*.parquet")
    file.unlink()
    done = run_on_sail(tmp_path, "run", "--now", BOUNDS[2], "ods.l")
    assert done.returncode != 0
    assert file.name in "".join(done.stdout.split())
