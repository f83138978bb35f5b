"""What one more day costs, by the number of files that the source holds already.

`python -m benchmarks.growing_sources [--files 30 365 3650] [--layout folders] [--days 6]` prints a
line of JSON for each number of files. A file has 100 rows of a day: a Parquet file in a folder
`ds=2026-10-26` (`folders`), or a CSV file in one folder (`csv`). After three windows, all files are
in the index of the run log. Then a process starts Spark, and one file and one window are
added at a time. Measured are the seconds of processor of Python and of the JVM: those of the first
window of the process, in which Java compiles, and the median of the others.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pyarrow as pa
from pyarrow import parquet

from logdriven_dagster.config import load_project
from logdriven_dagster.execution.opening import open_runner

_LAST = date(2026, 10, 31)
_DAYS = 3650
"""The number of days that have files; more files are several for each day."""
_ROWS = 100
_SOURCES = {
    "folders": "type: parquet, path: in",
    "csv": 'type: csv, path: in, header: true, columns: "id INT, event_ts TIMESTAMP"',
}
_TABLE = """
table: ods.events
period: 1 day
default_start: {start}
steps:
  - step: load
    source: {{{source}, window_column: event_ts}}
    target: {{type: parquet}}
"""


def _write(root: Path, layout: str, day: date, name: str = "0") -> None:
    times = [datetime(day.year, day.month, day.day, n % 24) for n in range(_ROWS)]
    if layout == "csv":
        lines = ["id,event_ts", *(f"{n},{time}" for n, time in enumerate(times))]
        (root / f"in/{day}-{name}.csv").write_text("\n".join(lines))
        return
    folder = root / f"in/ds={day}"
    folder.mkdir()
    rows = pa.table({"id": range(_ROWS), "event_ts": pa.array(times, pa.timestamp("us", "UTC"))})
    parquet.write_table(rows, folder / "part-0.parquet")


def _make(root: Path, layout: str, files: int, days: int) -> None:
    (root / "tables").mkdir()
    (root / "in").mkdir()
    (root / "logdriven.yaml").write_text("project: growing\n")
    start = _LAST - timedelta(days=days + 2)
    text = _TABLE.format(start=start, source=_SOURCES[layout])
    (root / "tables/events.yaml").write_text(text)
    for n in range(files):
        _write(root, layout, _LAST - timedelta(days=days + n % _DAYS), str(n // _DAYS))


def _processor() -> tuple[float, float]:
    """Return the seconds of processor of this process, and of the JVM that it has started."""
    me = psutil.Process()
    mine, others = me.cpu_times(), (each.cpu_times() for each in me.children(recursive=True))
    return mine.user + mine.system, sum(each.user + each.system for each in others)


def _run_days(root: Path, layout: str, days: int) -> list[tuple[float, float]]:
    """Run windows in this process; return the seconds of processor of each."""
    from logdriven_dagster.engine import spark_session

    project = load_project(root)
    runner = open_runner(project)
    spark_session(project).range(1).count()
    found = []
    for n in reversed(range(days)):
        day = _LAST - timedelta(days=n)
        _write(root, layout, day)
        now = datetime(day.year, day.month, day.day, tzinfo=timezone.utc) + timedelta(days=1)
        before = _processor()
        for event in runner.catch_up(now, ["ods.events"]):
            if hasattr(event, "error"):
                raise RuntimeError(event.error)
        after = _processor()
        found.append((after[0] - before[0], after[1] - before[1]))
    return found


def _measure(layout: str, files: int, days: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _make(root, layout, files, days)
        first = f"{_LAST - timedelta(days=days - 1)}T00:00:00"
        command = [
            sys.executable,
            "-m",
            "logdriven_dagster.cli",
            "run",
            "-p",
            folder,
            "--now",
            first,
        ]
        subprocess.run(command, check=True, capture_output=True)
        command = [sys.executable, "-m", "benchmarks.growing_sources", "--root", folder]
        command += ["--layout", layout, "--days", str(days)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    first_day, *others = json.loads(done.stdout.splitlines()[-1])
    warm = [median(values) for values in zip(*others, strict=True)]
    return {
        "files": files,
        "first window": {"python": round(first_day[0], 2), "jvm": round(first_day[1], 2)},
        "next windows": {"python": round(warm[0], 2), "jvm": round(warm[1], 2)},
        "load": os.getloadavg(),
    }


def main() -> None:
    """Measure each number of files, or with `--root` run the days of one project."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[30, 365, 3650])
    parser.add_argument("--layout", choices=_SOURCES, default="folders")
    parser.add_argument("--days", type=int, default=6)
    parser.add_argument("--root", type=Path)
    given = parser.parse_args()
    if given.root:
        print(json.dumps(_run_days(given.root, given.layout, given.days)), flush=True)
        os._exit(0)  # without the end of Spark, which is not measured
    for files in given.files:
        print(json.dumps(_measure(given.layout, files, given.days)), flush=True)


if __name__ == "__main__":
    main()
