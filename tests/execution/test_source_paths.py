"""`validate` compares the paths of sources with the files that exist."""

from pathlib import Path

import pytest

from logdriven_dagster.execution.inspection.source_paths import find_path_notes
from logdriven_dagster.testing import NullEngine, Sandbox

EVENTS = """
    table: ods.events
    period: {period}
    default_start: {start}
    steps:
      - step: load
        source: {{type: csv, path: "{path}", header: true, columns: "id INT"}}
        target: {{type: iceberg}}
"""


def notes(
    folder: Path,
    path: str,
    *files: str,
    period: str = "1 day",
    start: str = "2026-11-02",
    zone: str = "UTC",
) -> list[str]:
    sandbox = Sandbox(folder, engine=NullEngine())
    sandbox.write("logdriven.yaml", f"project: paths\ntimezone: {zone}")
    sandbox.write("tables/events.yaml", EVENTS.format(path=path, period=period, start=start))
    for name in files:
        sandbox.write(f"in/{name}", "id\n1\n")
    found = find_path_notes(sandbox.project, connect=False)
    return [note.text.replace(f"{sandbox.folder}/", "") for note in found]


READ = [
    ("in", ["a.csv"], "1 day"),
    ("in/*.csv", ["a.csv"], "1 day"),
    ("in/{a,b}/*.csv", ["b/1.csv"], "1 day"),
    ("in/dt=${DATA_RANGE:yyyy-MM-dd}", ["dt=2026-11-02/a.csv", "dt=2026-11-30/a.csv"], "1 day"),
    ("in/${DATA_RANGE:yyyy/MM/dd}/*.gz", ["2026/11/02/a.gz", "2026/11/08/b.gz"], "1 week"),
    ("in/${DATA_RANGE:yyyy-MM-dd/HH}", ["2026-11-02/00/a", "2026-11-02/23/a"], "1 day"),
    ("in/${DATA_RANGE:yyyyMM}/*", ["202611/a.csv", "202612/a.csv"], "1 day"),
    ("in/${YEAR}/${MONTH}/${DAY}", ["2026/11/02/a.csv", "2026/11/03/a.csv"], "1 day"),
    ("in/until-${DATA_RANGE_END:yyyyMMdd}-*.csv", ["until-20261103-7.csv"], "1 day"),
    ("in/${DATA_RANGE_START:yyyyMMdd}", ["20261102/a", "_temporary/a", "20251231/a"], "1 day"),
]


@pytest.mark.parametrize(("path", "files", "period"), READ)
def test_nothing_is_noted_if_windows_read_all_files(
    tmp_path: Path, path: str, files: list[str], period: str
):
    assert notes(tmp_path, path, *files, period=period) == []


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("in/new/*.csv", "in/new/*.csv"),
        ("in/new/${DATA_RANGE:yyyy/MM/dd}/*.csv", "in/new/*/*/*"),
    ],
)
def test_a_source_without_files_is_noted(tmp_path: Path, path: str, pattern: str):
    assert notes(tmp_path, path, "old/a.csv") == [f"there are no files in {pattern}"]


def test_folders_with_another_format_are_noted(tmp_path: Path):
    (note,) = notes(tmp_path, "in/dt=${DATA_RANGE:yyyyMMdd}", "dt=2026-11-02/a", "dt=2026-11-03/a")
    assert note == (
        "no window reads 2 of the 2 files and folders in in/dt=*, such as in/dt=2026-11-02; "
        "the window [2026-11-02, 2026-11-03) reads in/dt=20261102"
    )


def test_folders_between_the_starts_of_windows_are_noted(tmp_path: Path):
    days = [f"202611{day:02}/a.csv" for day in range(2, 16)]
    path = "in/${DATA_RANGE_START:yyyyMMdd}/*.csv"
    (note,) = notes(tmp_path, path, *days, period="1 week")
    assert note == (
        "no window reads 12 of the 14 files and folders in in/*, such as in/20261103; "
        "the window [2026-11-02, 2026-11-09) reads in/20261102; "
        "${DATA_RANGE:…} reads the files of every time of a window"
    )


def test_an_hour_that_the_clocks_repeat_or_skip_is_no_problem(tmp_path: Path):
    hours = [f"2026-10-25/{hour:02}/a" for hour in range(24)]
    path = "in/${DATA_RANGE:yyyy-MM-dd/HH}"
    assert notes(tmp_path, path, *hours, start="2026-10-25", zone="Europe/Berlin") == []


def test_a_folder_without_a_time_is_noted(tmp_path: Path):
    (note,) = notes(tmp_path, "in/${DATA_RANGE:yyyyMMdd}", "20261102/a", "20261399/a", "late/a")
    assert "no window reads 2 of the 3 files and folders" in note
