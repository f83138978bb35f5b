"""Memory of Python and of the JVM after few and after many windows of one run.

`python -m benchmarks.window_memory [--windows 30 365] [--batch-size auto] [--target iceberg]`
prints a line of JSON for each number of windows. The source has a folder `ds=2026-10-26` for each
day, with a Parquet file of 2,000 rows. A process of its own runs all windows. Measured are the
peaks of both processes, and what is in use after garbage collection: resident memory of Python,
Java's heap (`jcmd GC.heap_info` after `GC.run`) and its classes. Java fills its heap before it
collects, so its peak alone does not show whether memory grows.
"""

import argparse
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from pyarrow import parquet

from benchmarks.machine import peak_megabytes
from logdriven_dagster.config import load_project
from logdriven_dagster.execution.events import WindowSucceeded
from logdriven_dagster.execution.opening import open_runner

_START = date(2025, 1, 1)
_ROWS = 2000
_TABLE = """
table: ods.events
period: 1 day
default_start: {start}
batch_size: {batch_size}
steps:
  - step: load
    source: {{type: parquet, path: in, window_column: event_ts}}
    target: {{type: {target}}}
"""


def _make(root: Path, windows: int, batch_size: str, target: str) -> None:
    (root / "tables").mkdir()
    (root / "logdriven.yaml").write_text("project: memory\n")
    text = _TABLE.format(start=_START, batch_size=batch_size, target=target)
    (root / "tables/events.yaml").write_text(text)
    for n in range(windows):
        day = _START + timedelta(days=n)
        folder = root / f"in/ds={day}"
        folder.mkdir(parents=True)
        midnight = datetime(day.year, day.month, day.day, tzinfo=timezone.utc)
        times = [midnight + timedelta(seconds=40 * k) for k in range(_ROWS)]
        rows = pa.table(
            {"id": range(_ROWS), "event_ts": pa.array(times, pa.timestamp("us", "UTC"))}
        )
        parquet.write_table(rows, folder / "part-0.parquet")


def _run(root: Path, windows: int) -> dict[str, Any]:
    """Run all windows in this process; return megabytes."""
    runner = open_runner(load_project(root))
    day = _START + timedelta(days=windows)
    now = datetime(day.year, day.month, day.day, tzinfo=timezone.utc)
    done = 0
    for event in runner.catch_up(now, ["ods.events"]):
        if hasattr(event, "error"):
            raise RuntimeError(event.error)
        done += isinstance(event, WindowSucceeded)
    if done != windows:
        raise RuntimeError(f"{done} of {windows} windows have succeeded")
    python = peak_megabytes()
    children = psutil.Process().children(recursive=True)
    java = next(each.pid for each in children if each.name() == "java")
    found = {"windows": windows, "python peak": python, "java peak": peak_megabytes(java)}
    gc.collect()
    found["python in use"] = psutil.Process().memory_info().rss / 2**20
    _jcmd(java, "GC.run")
    heap, classes = re.findall(r"used (\d+)K", _jcmd(java, "GC.heap_info"))[:2]
    return found | {"java heap in use": int(heap) / 1024, "java classes": int(classes) / 1024}


def _jcmd(pid: int, command: str) -> str:
    return subprocess.run(
        ["jcmd", str(pid), command], check=True, capture_output=True, text=True
    ).stdout


def _measure(windows: int, batch_size: str, target: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        _make(Path(folder), windows, batch_size, target)
        command = [sys.executable, "-m", __spec__.name, "--root", folder, "--windows", str(windows)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {name: round(value) for name, value in found.items()}


def main() -> None:
    """Measure each number of windows, or with `--root` run the windows of one project."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, nargs="+", default=[30, 365])
    parser.add_argument("--batch-size", default="auto")
    parser.add_argument("--target", default="iceberg")
    parser.add_argument("--root", type=Path)
    given = parser.parse_args()
    if given.root:
        print(json.dumps(_run(given.root, *given.windows)), flush=True)
        os._exit(0)  # without the end of Spark, which is not measured
    for windows in given.windows:
        print(json.dumps(_measure(windows, given.batch_size, given.target)), flush=True)


if __name__ == "__main__":
    main()
