"""Windows on Sail: the rows, counts and log that Spark gives, and what fails."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logdriven_dagster.config import load_project
from logdriven_dagster.execution.opening import open_runner
from tests.builders import at
from tests.plugins.sail import conformance
from tests.plugins.sail.projects import (
    COUNTS,
    IN_ONE_PASS,
    READING,
    TARGETS,
    log_of,
    published,
    run_on_sail,
    write,
)

pytestmark = pytest.mark.usefixtures("long")


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


def test_it_passes_the_conformance_tests() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--noconftest"]
    ended = subprocess.run(
        [*command, "-p", "no:cacheprovider", conformance.__file__],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_log_records_the_engine_of_each_attempt(worlds: tuple[Path, Path]) -> None:
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
from logdriven_dagster.plugins.sail import server
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
    assert all("which Sail would convert without an error" in text for text in told)
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


def test_a_part_of_a_larger_window_is_refused_and_the_whole_is_replaced(tmp_path: Path) -> None:
    write(tmp_path, "sail", period="3 days")
    path = tmp_path / "tables/ods.each.yaml"
    assert run_on_sail(tmp_path, "run", "--now", "2024-01-04", "ods.each").returncode == 0
    before = published(tmp_path, "ods.each")
    changed = path.read_text().replace("3 days", "1 day").replace("quantity + 1", "quantity + 2")
    path.write_text(changed)
    refresh = ("refresh", "ods.each", "--now", "2024-01-04")
    part = run_on_sail(tmp_path, *refresh, "--from", "2024-01-02", "--to", "2024-01-03")
    assert part.returncode != 0
    assert "`logdriven refresh ods.each --from 2024-01-01 --to 2024-01-04`" in part.stderr
    assert published(tmp_path, "ods.each") == before
    whole = run_on_sail(tmp_path, *refresh, "--from", "2024-01-01", "--to", "2024-01-04")
    assert whole.returncode == 0, whole.stdout + whole.stderr
    expected = [row if row["more"] is None else {**row, "more": row["more"] + 1} for row in before]
    assert published(tmp_path, "ods.each") == sorted(expected, key=repr)
