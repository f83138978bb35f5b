"""Source files that change after their windows ran (`on_source_change`).

The null engine reads no files, so `Events.run` records them as windows on Spark do.
"""

import os
import shutil
from pathlib import Path

import pytest

from logdriven_dagster.execution.events import WindowSucceeded
from logdriven_dagster.execution.source_files.changes import OutdatedWindows
from logdriven_dagster.execution.source_files.window_files import find_source_folder, is_within
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.testing import NullEngine, Sandbox
from tests.builders import at, day, days, hours
from tests.source_files import NOW, Events, without_folder


@pytest.fixture
def reaction() -> str:
    return "report"


@pytest.fixture
def events(tmp_path: Path, reaction: str) -> Events:
    """Five finished windows and the index of their files."""
    made = Events(tmp_path, reaction)
    made.run()
    assert made.outdated == {}
    return made


reruns = pytest.mark.parametrize("reaction", ["rerun"])


def test_a_file_delivered_again_is_reported_for_the_windows_of_its_earlier_version(events: Events):
    events.deliver("3.csv", 3, 3)
    assert events.outdated == {day(3): "3.csv (changed)"}
    assert events.run() == []
    assert events.outdated == {day(3): "3.csv (changed)"}  # the run has recorded it, once


def test_the_windows_of_the_new_version_are_reported_once_it_is_counted(events: Events):
    events.deliver("3.csv", 4, 5)
    events.run()
    events.count_files()
    assert events.outdated == dict.fromkeys((day(3), day(4), day(5)), "3.csv (changed)")


def test_the_windows_of_both_versions_are_reported_if_a_window_notices_the_change(events: Events):
    events.deliver("3.csv", 4)
    events.count_files()
    assert list(events.outdated) == [day(3), day(4)]


@reruns
def test_changed_windows_run_again_once(events: Events):
    events.deliver("2.csv", 2, 2)
    events.deliver("4.csv", 4, 4)
    assert events.run() == [day(2), day(4)]
    assert events.outdated == {}
    assert events.run() == []


@reruns
def test_the_windows_of_a_new_version_run_after_it_is_counted(events: Events):
    events.deliver("2.csv", 5)
    assert events.run() == [day(2)]
    assert events.run() == [day(5)]
    assert events.run() == []


@reruns
def test_a_failed_rerun_changes_nothing_and_is_due_again(events: Events):
    events.deliver("2.csv", 2, 2)
    events.sandbox.engine.fail("ods.events", day(2).start)
    assert events.run() == []
    assert events.outdated == {day(2): "2.csv (changed)"}
    assert events.run() == [day(2)]
    assert events.outdated == {}


@reruns
def test_downstream_windows_follow_a_rerun(events: Events):
    events.sandbox.write(
        "tables/totals.yaml",
        """
        table: dws.totals
        period: 1 day
        default_start: 2022-01-01
        depends_on: [ods.events]
        steps: [{step: add, sql: SELECT 1 AS one FROM ods.events, target: {type: iceberg}}]
        """,
    )
    assert len(events.run()) == 5
    events.deliver("2.csv", 2, 2)
    done = [each for each in events.sandbox.run(now=NOW) if isinstance(each, WindowSucceeded)]
    assert [(each.attempt.table, each.attempt.window) for each in done] == [
        ("ods.events", day(2)),
        ("dws.totals", day(2)),
    ]


def test_a_refresh_clears_the_report(events: Events):
    events.deliver("3.csv", 3, 3)
    events.run()
    events.refresh(day(3))
    assert events.outdated == {}


def test_a_change_after_the_rerun_is_reported_again(events: Events):
    events.deliver("3.csv", 3, 3)
    events.run()
    events.refresh(day(3))
    events.deliver("3.csv", 3, 3, 3)
    assert list(events.outdated) == [day(3)]


@pytest.mark.parametrize("reaction", ["report", "rerun"])
def test_a_deleted_file_is_reported_and_never_rerun(events: Events):
    (events.folder / "2.csv").unlink()
    assert events.outdated == {day(2): "2.csv (gone)"}
    assert events.run() == []
    events.count_files()
    assert events.outdated == {day(2): "2.csv (gone)"}
    assert events.run() == []


def test_files_that_come_back_before_the_next_window_are_not_reported(events: Events):
    away = events.folder.with_name("away")
    shutil.move(events.folder, away)
    events.run()
    assert len(events.outdated) == 5
    shutil.move(away, events.folder)
    assert events.outdated == {}


@reruns
def test_a_file_that_replaces_a_deleted_one_reruns_the_window(events: Events):
    (events.folder / "2.csv").unlink()
    events.deliver("2b.csv", 2)
    events.count_files()
    assert events.outdated == {day(2): "2b.csv (new), 2.csv (gone)"}
    assert events.run() == [day(2)]
    assert events.outdated == {}


def test_a_new_file_with_rows_of_finished_windows_is_reported_once_it_is_counted(events: Events):
    events.deliver("late.csv", 2, 3)
    assert events.outdated == {}
    events.count_files()
    assert events.outdated == dict.fromkeys((day(2), day(3)), "late.csv (new)")


def test_windows_that_read_the_new_file_are_up_to_date(events: Events):
    events.deliver("6.csv", 5, 6)
    assert events.run("2022-01-07") == [day(6)]
    assert events.outdated == {day(5): "6.csv (new)"}


def test_the_first_count_of_a_source_reports_nothing(tmp_path: Path):
    events = Events(tmp_path, "report")
    list(events.sandbox.run(now=NOW))
    events.count_files()
    assert events.outdated == {}


def test_other_settings_of_the_source_make_no_file_new(events: Events):
    events.deliver("late.csv", 2, 3)
    events.deliver("4.csv", 4, 4)
    events.count_files(digest="another column")
    assert events.outdated == {day(4): "4.csv (changed)"}


def test_a_change_of_attributes_is_no_change_of_content(events: Events):
    file = events.folder / "3.csv"
    file.chmod(0o600)
    file.rename(events.folder / "x")
    (events.folder / "x").rename(file)
    assert events.outdated == {}
    events.count_files()
    assert events.outdated == {}


def test_a_new_modification_time_counts_as_a_change(events: Events):
    os.utime(events.folder / "3.csv", (0, 0))
    assert list(events.outdated) == [day(3)]


@pytest.mark.parametrize("reaction", ["ignore"])
def test_a_table_can_ignore_changes(events: Events):
    events.deliver("3.csv", 3, 3)
    events.deliver("late.csv", 2)
    events.run()
    events.count_files()
    assert events.outdated == {}


def test_many_files_of_neighbouring_windows_are_one_row_of_the_run_log(events: Events):
    for n in (1, 2, 4):
        events.deliver(f"{n}.csv", n, n)
    events.run()
    with events.sandbox.runner.run_log.read() as conn:
        query = "SELECT file_count FROM source_change ORDER BY window_start"
        assert conn.exec_driver_sql(query).scalars().all() == [2, 1]


def test_a_change_without_outdated_windows_is_closed_by_the_next_run(events: Events):
    events.deliver("3.csv", 3, 3)
    events.run()
    events.refresh(day(3))
    events.run()
    with events.sandbox.runner.run_log.read() as conn:
        assert conn.exec_driver_sql("SELECT done FROM source_change").scalars().all() == [1]


def test_the_message_names_windows_files_and_the_fix(events: Events):
    for n in (2, 3, 5):
        events.deliver(f"{n}.csv", n, n)
    plan = events.sandbox.runner.plan(at(NOW)).tables["ods.events"]
    found = OutdatedWindows.build(plan.table, plan.log)
    assert without_folder(events.folder, found.text) == (
        f"ods.events: source files changed after 3 windows in {days(2, 6)} ran: "
        "2.csv and 1 more (changed), 5.csv (changed); `logdriven refresh` runs these windows again"
    )


FOLDERS = """
    table: ods.events
    period: 1 day
    default_start: 2022-01-01
    on_source_change: {reaction}
    steps:
      - step: load
        source:
          type: csv
          path: {path}
          columns: "n INT"
          missing_files: no_rows
        target: {{type: iceberg}}
"""
FOLDER, FILE = "in/${DATA_RANGE:dd}", "in/${DATA_RANGE:dd}/a.csv"


class Folders:
    """A table whose windows read the folder or the file of their day; three of them are finished.

    The third day has no files.
    """

    def __init__(self, folder: Path, path: str, reaction: str = "report") -> None:
        self.sandbox = Sandbox(folder, engine=NullEngine())
        self.folder = folder / "in"
        self.sandbox.write("tables/events.yaml", FOLDERS.format(path=path, reaction=reaction))
        for name in ("01/a.csv", "02/a.csv", "02/_SUCCESS"):
            self.sandbox.write(f"in/{name}", "1")
        assert self.run() == [day(1), day(2), day(3)]
        assert self.outdated == {}

    def run(self) -> list[TimeWindow]:
        events = self.sandbox.run(now="2022-01-04")
        return [each.attempt.window for each in events if isinstance(each, WindowSucceeded)]

    @property
    def outdated(self) -> dict[TimeWindow, str]:
        found = self.sandbox.runner.plan(at("2022-01-04")).tables["ods.events"].log.changed
        return {each.window: without_folder(self.folder, each.text) for each in found}


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        (FOLDER, "02/a.csv", {day(2): "02/a.csv (changed)"}),
        (FOLDER, "02/b.csv", {day(2): "02/b.csv (new)"}),
        (FOLDER, "02/part/b.csv", {day(2): "02/part/b.csv (new)"}),
        (FOLDER, "02/_b.csv", {}),
        (FOLDER, "03/a.csv", {day(3): "03/a.csv (new)"}),
        (FOLDER, "04/a.csv", {}),
        ("in/${DAY}", "02/a.csv", {day(2): "02/a.csv (changed)"}),
        (FILE, "02/a.csv", {day(2): "02/a.csv (changed)"}),
        (FILE, "02/b.csv", {}),
        (FILE, "03/a.csv", {day(3): "03/a.csv (new)"}),
    ],
)
@pytest.mark.parametrize("reaction", ["report", "rerun"])
def test_files_of_a_window_that_change_or_arrive_late_concern_this_window(
    tmp_path: Path, path: str, name: str, expected: dict[TimeWindow, str], reaction: str
):
    folders = Folders(tmp_path, path, reaction)
    folders.sandbox.write(f"in/{name}", "1\n2")
    assert folders.outdated == expected
    assert folders.run() == (list(expected) if reaction == "rerun" else [])
    assert folders.outdated == ({} if reaction == "rerun" else expected)
    assert folders.run() == []


@pytest.mark.parametrize("name", ["02", "02/a.csv"])
@pytest.mark.parametrize("path", [FOLDER, FILE])
def test_a_deleted_file_or_folder_of_a_window_is_reported(tmp_path: Path, path: str, name: str):
    folders = Folders(tmp_path, path, "rerun")
    place = folders.folder / name
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    assert folders.outdated == {day(2): "02/a.csv (gone)"}
    assert folders.run() == []


def test_a_refresh_of_a_window_records_its_present_files(tmp_path: Path):
    folders = Folders(tmp_path, FOLDER)
    folders.sandbox.write("in/02/b.csv", "1")
    folders.run()
    assert list(folders.outdated) == [day(2)]
    list(folders.sandbox.runner.refresh("ods.events", day(2), at(NOW)))
    assert folders.outdated == {}
    folders.sandbox.write("in/02/b.csv", "1\n2")
    assert folders.outdated == {day(2): "02/b.csv (changed)"}


def test_a_file_of_several_windows_concerns_all_of_them(tmp_path: Path):
    sandbox = Sandbox(tmp_path, engine=NullEngine())
    text = FOLDERS.format(path=FILE, reaction="report")
    sandbox.write("tables/events.yaml", text.replace("1 day", "8 hours"))
    sandbox.write("in/01/a.csv", "1")
    list(sandbox.run(now="2022-01-02"))

    def outdated() -> list[TimeWindow]:
        log = sandbox.runner.plan(at("2022-01-02")).tables["ods.events"].log
        return [each.window for each in log.changed]

    sandbox.write("in/01/a.csv", "1\n2")
    assert outdated() == [hours(0, 8), hours(8, 16), hours(16, 24)]
    list(sandbox.runner.refresh("ods.events", hours(8, 16), at("2022-01-02")))
    assert outdated() == [hours(0, 8), hours(16, 24)]


@pytest.mark.parametrize("path", [FOLDER, FILE])
def test_files_of_an_earlier_place_of_the_source_are_not_reported(tmp_path: Path, path: str):
    table = Folders(tmp_path, path)
    (tmp_path / "in").rename(tmp_path / "moved")
    assert set(table.outdated) == {day(1), day(2)}
    moved = FOLDERS.format(path=path.replace("in/", "moved/"), reaction="report")
    table.sandbox.write("tables/events.yaml", moved)
    assert table.outdated == {}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("in", "in"),
        ("in/a.csv", "in/a.csv"),
        ("in/a*/b.csv", "in"),
        ("in/day-${DATA_RANGE:dd}/a.csv", "in"),
        ("${place}/${YEAR}", "data/shop"),
        ("${unknown}/in", None),
    ],
)
def test_the_folder_of_a_source_ends_before_its_first_varying_part(
    tmp_path: Path, path: str, expected: str | None
):
    sandbox = Sandbox(tmp_path, engine=NullEngine())
    text = FOLDERS.format(path=path, reaction="report")
    sandbox.write("tables/events.yaml", f"    variables: {{place: data/shop}}{text}")
    project = sandbox.runner.project
    found = find_source_folder(project, project.table("ods.events"), "load")
    assert found == (None if expected is None else str(tmp_path / expected))


def test_a_file_is_within_a_folder_that_a_link_leads_to(tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert is_within(str(tmp_path / "data/1.csv"), str(tmp_path / "link"))
    assert not is_within(str(tmp_path / "data2/1.csv"), str(tmp_path / "data"))
