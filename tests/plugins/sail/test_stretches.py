"""Rows of several windows in one pass on Sail lie in the files of the window that has them."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logdriven_dagster.model.periods import Grid, Period
from tests.builders import at
from tests.plugins.sail.engines import ROOT

pytestmark = pytest.mark.usefixtures("long")

MICROSECOND = timedelta(microseconds=1)
GRIDS = {
    "1 day": ("2023-12-30", 365),
    "3 days": ("1969-12-25", 30),
    "1 hour": ("1969-12-31T20:00", 48),
    "15 min": ("2024-02-28T20:15", 200),
    "1 month": ("2023-11-01", 30),
    "2 weeks": ("1700-01-04", 4),
    "1 year": ("2023-04-01", 3),
}
"""Period → where the first window starts, and how many there are."""


def rows_of(folder: Path, period: str, column: str) -> tuple[dict[str, Any], list[list[int]]]:
    """A table with rows at the bounds of its windows and between them, and whose rows they are."""
    start, number = GRIDS[period]
    grid = Grid(at(start), Period.parse(period))
    windows = [grid.window(n) for n in range(number)]
    chosen = random.Random(period)
    instants = []
    for window in windows[::3] + windows[1::3]:  # every third window stays empty
        between = window.start + (window.end - window.start) * chosen.random()
        instants += [window.start, window.end - MICROSECOND, between]
    chosen.shuffle(instants)
    if column == "day":
        instants = [at.replace(hour=0, minute=0, second=0, microsecond=0) for at in instants]
    expected: list[list[int]] = [[] for _ in windows]
    for n, instant in enumerate(instants):
        expected[grid.index(instant)].append(n)
    table = {
        "id": pa.array(range(len(instants)), pa.int64()),
        "at": pa.array(instants, pa.timestamp("us", "UTC")),
        "day": pa.array([instant.date() for instant in instants], pa.date32()),
    }
    pq.write_table(pa.table(table), file := folder / "rows.parquet")
    bounds = [each.start.isoformat() for each in windows] + [windows[-1].end.isoformat()]
    asked = {"file": str(file), "bounds": bounds, "column": column, "lost": None}
    return asked, expected


@pytest.fixture(scope="module")
def dividing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("dividing")
    spark = "spark: {engine: sail, master: 'local[2]'}"
    (folder / "logdriven.yaml").write_text(f"project: sail\ntimezone: UTC\n{spark}\n")
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "tests.plugins.sail.dividing", str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def answer(asked: dict[str, Any]) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield answer
    process.stdin.close()
    process.wait(30)


@pytest.mark.parametrize("column", ["at", "day"])
@pytest.mark.parametrize("period", GRIDS)
def test_each_row_lies_in_its_window(
    dividing: Any, tmp_path: Path, period: str, column: str
) -> None:
    if column == "day" and period in ("1 hour", "15 min"):
        pytest.skip("days do not tell hours")
    for tasks, mode in product((1, 3), ("overwrite_window", "append")):
        (folder := tmp_path / f"{tasks}-{mode}").mkdir()
        asked, expected = rows_of(folder, period, column)
        found = dividing({**asked, "tasks": tasks, "mode": mode})
        assert found["error"] is None
        assert found["ids"] == expected


def test_a_row_of_no_window_stops_the_pass_and_leaves_no_folder(
    dividing: Any, tmp_path: Path
) -> None:
    asked, _ = rows_of(tmp_path, "1 day", "at")
    found = dividing({**asked, "tasks": 2, "mode": "append", "lost": 5})
    assert "a row does not belong to any of the windows" in found["error"]
    assert list((tmp_path / "rows.parquet.staged").iterdir()) == []


@pytest.mark.parametrize("column", ["at", "day"])
def test_a_row_outside_of_all_windows_and_one_without_a_time_stop_the_pass(
    dividing: Any, tmp_path: Path, column: str
) -> None:
    asked, _ = rows_of(tmp_path, "1 day", column)
    for instant in (at("2025-12-30"), None):
        table = pq.read_table(asked["file"]).slice(0, 1)
        kinds = {"at": pa.timestamp("us", "UTC"), "day": pa.date32()}
        values = {"at": instant, "day": None if instant is None else instant.date()}
        for name, kind in kinds.items():
            place = table.column_names.index(name)
            table = table.set_column(place, name, pa.array([values[name]], kind))
        pq.write_table(table, other := tmp_path / "other.parquet")
        found = dividing({**asked, "file": str(other), "tasks": 1, "mode": "append"})
        assert "lies outside the window" in found["error"]
