"""Changes of source files in the run log, over SQLite, PostgreSQL and MariaDB."""

from dataclasses import replace

import pytest

from logdriven_dagster.model.attempts import Status, Trigger
from logdriven_dagster.model.source_rows import (
    ChangedFile,
    FileChange,
    FileRows,
    FileVersion,
    sum_files,
)
from logdriven_dagster.runlog.observed import source_changes, source_files
from logdriven_dagster.runlog.observed.source_changes import ChangedWindows
from tests.builders import day, days, table
from tests.runlog.logbook import end, fail, start, succeed

SOURCE = {"type": "csv", "path": "in", "window_column": "at"}
TABLE = table(steps=[{"step": "load", "source": SOURCE, "target": {"type": "iceberg"}}])


def changed_file(first: int, end_day: int, change: FileChange = FileChange.CHANGED) -> ChangedFile:
    """A file with rows of the days from the first one on, up to the second one."""
    span = days(first, end_day)
    bounds = (int(span.start.timestamp()), int(span.end.timestamp()) - 1)
    positions = [each * 1_000_000 for each in bounds]
    version = FileVersion(f"/in/{first}.csv", 1, 1, 1)
    return ChangedFile(change, FileRows("", version, 2, 0, 0, 0, *positions))


def record(log, *files: ChangedFile, readers=()) -> None:
    log.write(lambda conn: source_changes.record_changes(conn, TABLE, "load", files, readers))


def read(log) -> ChangedWindows:
    found = log.ask(lambda conn: source_changes.read_changed_windows(conn, [TABLE]))
    return found.get("ods.t", ChangedWindows((), ()))


def windows(log) -> list:
    return [each.window for each in read(log).windows]


@pytest.fixture
def done(log):
    for n in (1, 2, 3):
        succeed(log, day(n))
    return log


def test_only_windows_that_overlap_with_the_times_of_the_file_are_recorded(done):
    record(done, changed_file(2, 3))
    assert windows(done) == [day(2)]


def test_files_without_finished_windows_are_not_recorded(done):
    record(done, changed_file(4, 6))
    assert read(done) == ChangedWindows((), ())


def test_a_later_success_of_a_window_settles_its_changes(done):
    record(done, changed_file(1, 3))
    succeed(done, day(1), trigger=Trigger.SOURCE)
    assert windows(done) == [day(2)]
    succeed(done, day(2), trigger=Trigger.SOURCE)
    (change,) = read(done).settled
    done.write(lambda conn: source_changes.close_changes(conn, [change]))
    assert read(done) == ChangedWindows((), ())


def test_a_running_or_failed_rerun_settles_nothing(done):
    record(done, changed_file(1, 2))
    attempt = start(done, day(1), Trigger.SOURCE)
    assert read(done) == ChangedWindows((), ())
    end(done, attempt, Status.FAILURE, "broken", nothing=True)
    assert windows(done) == [day(1)]
    succeed(done, day(1), trigger=Trigger.SOURCE)
    assert len(read(done).settled) == 1


def test_a_window_that_runs_while_its_file_changes_is_recorded(done):
    running = start(done, day(4))
    record(done, changed_file(4, 5))
    end(done, running)
    assert windows(done) == [day(4)]


def test_a_window_that_failed_reads_the_new_file_anyway(done):
    fail(done, day(4))
    record(done, changed_file(4, 5))
    succeed(done, day(4))
    assert windows(done) == []


def test_attempts_that_read_the_new_file_are_up_to_date(done):
    reader = start(done, day(4))
    record(done, changed_file(3, 5), readers=[reader.job_id])
    end(done, reader)
    assert windows(done) == [day(3)]


def test_each_kind_of_change_is_recorded_for_itself(done):
    record(done, changed_file(1, 2), changed_file(2, 3, FileChange.GONE))
    found = {each.window: each.has_new_rows for each in read(done).windows}
    assert found == {day(1): True, day(2): False}


def test_a_version_is_marked_as_uncounted_once(done):
    version = FileVersion("/in/1.csv", 1, 1, 1)
    rows = sum_files("ods.t", "load", "x", [changed_file(1, 2).rows])
    done.write(lambda conn: source_files.record_files(conn, rows, all_anew=True))

    def mark(size: int) -> bool:
        present = version._replace(size=size)
        return done.write(lambda conn: source_files.mark_uncounted(conn, "ods.t", "load", present))

    assert [mark(1), mark(2), mark(2)] == [False, True, False]


def test_a_version_that_several_windows_read_has_the_range_of_all_of_them(log):
    first, second = (changed_file(n, n + 1).rows for n in (1, 2))
    second = replace(second, version=first.version)

    def write(conn):
        files = [
            source_files.record_window_files(conn, "ods.t", "load", [each])
            for each in (first, second, first)
        ]
        (rows,) = source_files.read_rows_of(conn, "ods.t", "load", [first.version.path])
        return files, (rows.first, rows.last)

    assert log.write(write) == ([[], [], []], (first.first, second.last))


def test_the_files_that_changed_last_are_kept(log, monkeypatch):
    monkeypatch.setattr(source_files, "_MOST_FILES", 2)
    monkeypatch.setattr(source_files, "_WRITTEN", 1)
    rows = changed_file(1, 2).rows
    files = [replace(rows, version=FileVersion(f"/in/{n}", 1, 1, n)) for n in (3, 1, 4, 2)]
    log.write(lambda conn: source_files.record_window_files(conn, "ods.t", "load", files))
    left = log.ask(lambda conn: source_files.read_versions(conn, ["ods.t"]))
    assert {each.modified for each in left["ods.t", "load"]} == {3, 4}


@pytest.mark.parametrize(("size", "expected"), [(2, []), (3, [day(4)])])
def test_attempts_after_the_record_of_a_version_are_up_to_date(done, size: int, expected: list):
    file = changed_file(1, 2).rows
    first = sum_files("ods.t", "load", "x", [file])
    done.write(lambda conn: source_files.record_files(conn, first, all_anew=True))
    present = file.version._replace(size=2)
    done.write(lambda conn: source_files.mark_uncounted(conn, "ods.t", "load", present))
    parallel = start(done, day(4))  # while another window counts the file, which holds its rows
    counted = replace(
        changed_file(1, 5).rows, version=present._replace(size=size, changed=5, modified=1)
    )
    rows = sum_files("ods.t", "load", "x", [counted])

    def count(conn):
        files = source_files.record_files(conn, rows, all_anew=False)
        source_changes.record_changes(conn, TABLE, "load", files)

    done.write(count)
    end(done, parallel)
    assert windows(done) == [day(1), day(2), day(3), *expected]
