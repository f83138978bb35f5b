"""Renames with failed reruns, other changes of the definition, and interrupted moves."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logdriven_dagster.engine.targets.files.contents import FilesContents
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.definitions.changed_targets import list_changed_targets
from logdriven_dagster.execution.definitions.registering import consult
from logdriven_dagster.execution.definitions.renames import find_rename_notes
from logdriven_dagster.runlog.history import logs as history
from logdriven_dagster.testing import NullEngine
from logdriven_dagster.testing.null_engine import null_engine
from tests.builders import at, day
from tests.execution.renamed_project import NEW, NOW, OLD, Renamed, daily

THIRD = "ods.third"
PLACE = ".logdriven/warehouse/ods/old"


@pytest.fixture(autouse=True)
def engine() -> Iterator[NullEngine]:
    with null_engine(NullEngine()) as engine:
        yield engine


@pytest.fixture
def project(tmp_path: Path) -> Renamed:
    """Three days of each table are done."""
    project = Renamed(tmp_path).write_all(OLD)
    assert len(project.run()) == 9
    return project


def states(project: Renamed, table: str) -> list[tuple[str, str]]:
    with project.runner.run_log.read() as conn:
        rows = history.list_attempts(conn, table, limit=100)
    return sorted((str(row["job_schedule_id"])[len(table) :], str(row["status"])) for row in rows)


def changes(project: Renamed, *names: str) -> list[tuple[str, str]]:
    registered = consult(project.root)
    found = list_changed_targets(registered.run_log, registered.project, names or [NEW])
    return [(each.was, each.now) for each in found]


def notes(project: Renamed) -> list[str]:
    registered = consult(project.root)
    return [note.text for note in find_rename_notes(registered.project, registered.run_log)]


def test_failed_windows_and_reruns_keep_their_states(project: Renamed, engine: NullEngine):
    engine.fail(OLD, times=2)
    list(project.runner.refresh(OLD, day(2), NOW))
    project.run(at("2022-01-05"))
    before = states(project, OLD)
    assert [status for _, status in before].count("FAILURE") == 2
    project.write_all(NEW, renamed_from=OLD)
    found = project.runner.plan(at("2022-01-05")).tables[NEW]
    assert [str(each.window) for each in found.log.failed_refreshes] == [str(day(2))]
    assert states(project, NEW) == before
    done = project.run(at("2022-01-05"))
    assert [each for each in done if "dwd.c" not in each] == [f"{NEW} {day(4)}", f"dwd.d {day(4)}"]


def test_a_name_that_another_rename_replaced_is_refused(project: Renamed):
    project.write_all(NEW, renamed_from=OLD)
    project.run()
    project.write_all(THIRD, renamed_from=OLD)
    assert f"{OLD} was renamed to {NEW}; write `renamed_from: {NEW}`" in notes(project)[0]
    with pytest.raises(UsageError, match=r"ods\.old was renamed to ods\.new"):
        project.run()
    project.write(daily(NEW), daily(THIRD, renamed_from=OLD))
    with pytest.raises(UsageError, match=r"renamed to ods\.new; remove renamed_from"):
        project.run()
    project.write_all(THIRD, renamed_from=NEW)
    assert project.run() == []


def test_another_period_in_the_same_change_keeps_finished_windows(project: Renamed):
    weeks: dict[str, Any] = {"period": "1 week", "default_start": "2021-12-27"}
    project.write(daily(NEW, renamed_from=OLD, **weeks))
    renamed = project.run(at("2022-01-11"))
    assert renamed == [f"{NEW} [2021-12-27, 2022-01-01)", f"{NEW} [2022-01-04, 2022-01-10)"]


def test_the_earlier_place_as_path_is_no_change_of_the_target(project: Renamed):
    project.write_all(NEW, renamed_from=OLD, target={"type": "parquet", "path": PLACE})
    for _ in range(2):
        assert changes(project) == []
        assert project.run() == []
    project.write_all(NEW, target={"type": "parquet"})
    assert changes(project) == [(f"place files {OLD}", f"place files {NEW}")]


def test_another_target_in_the_same_change_is_reported_with_the_earlier_place(project: Renamed):
    project.write_all(NEW, renamed_from=OLD, target={"type": "parquet", "path": "elsewhere"})
    for _ in range(2):
        assert changes(project) == [(f"place files {OLD}", "place files elsewhere")]
        assert project.run() == []


def test_a_later_change_of_the_target_is_reported_with_the_place_of_the_rename(project: Renamed):
    target = {"type": "parquet", "mode": "append"}
    project.write_all(NEW, renamed_from=OLD, target=target)
    for _ in range(2):
        assert changes(project) == [("mode overwrite_window", "mode append")]
        assert project.run() == []
    project.write_all(THIRD, renamed_from=NEW, target=target)
    assert project.run() == []
    project.write_all(THIRD, target={"type": "iceberg"})
    assert changes(project, THIRD)[0][0].endswith(f"place files {THIRD}")


def test_a_rename_that_is_interrupted_before_the_rows_follow_continues(
    project: Renamed, monkeypatch: pytest.MonkeyPatch
):
    rows = project.root / PLACE / "data/1.parquet"
    rows.parent.mkdir(parents=True)
    rows.write_text("1")
    project.write_all(NEW, renamed_from=OLD)
    with monkeypatch.context() as patched:

        def die(*_: Any) -> None:
            raise KeyboardInterrupt

        patched.setattr(FilesContents, "move", die)
        with pytest.raises(KeyboardInterrupt):
            project.run()
    assert rows.exists()
    assert project.run() == []
    assert not rows.exists()
    assert (project.root / ".logdriven/warehouse/ods/new/data/1.parquet").read_text() == "1"


def test_a_run_warns_of_an_earlier_name_without_windows(
    project: Renamed, caplog: pytest.LogCaptureFixture
):
    project.write_all(NEW, renamed_from="ods.odl")
    assert project.run()
    (warning,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert warning.startswith(f"renamed_from: {NEW}: the run log has no window of ods.odl;")
