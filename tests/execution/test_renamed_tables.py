"""A table with `renamed_from` continues with the windows of its earlier name."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from logdriven_dagster.errors import (
    AlreadyRunningError,
    InvalidProjectError,
    RunLogError,
    UsageError,
)
from logdriven_dagster.execution.definitions.changes import set_settings
from logdriven_dagster.execution.definitions.registering import author, consult
from logdriven_dagster.execution.definitions.removed_tables import find_removed_tables
from logdriven_dagster.execution.definitions.renames import find_rename_notes
from logdriven_dagster.execution.window.claiming import ClaimTransaction
from logdriven_dagster.model.attempts import Claim, Owner, Trigger
from logdriven_dagster.model.definitions import Kind
from logdriven_dagster.runlog import renaming
from logdriven_dagster.runlog.history import logs as history
from logdriven_dagster.testing.null_engine import null_engine
from tests.builders import at, claimed, day
from tests.execution.renamed_project import NEW, NOW, OLD, Renamed, daily
from tests.execution.two_projects import COMMAND


@pytest.fixture(autouse=True)
def engine() -> Iterator[None]:
    with null_engine():
        yield


@pytest.fixture
def project(tmp_path: Path) -> Renamed:
    """Three days of each table are done."""
    project = Renamed(tmp_path).write_all(OLD)
    assert len(project.run()) == 9
    return project


def attempts(project: Renamed) -> list[tuple[str, ...]]:
    with project.runner.run_log.read() as conn:
        rows = history.list_attempts(conn, limit=1_000)
    names = ("job_id", "job_name", "job_schedule_id", "status", "table_version")
    return [tuple(str(row[name]) for name in names) for row in rows]


def test_all_rows_of_the_log_get_the_new_name(project: Renamed):
    runner = project.runner
    list(runner.refresh(OLD, day(2), NOW))
    runner.skip(OLD, [day(4)], at("2022-01-05"), "broken", "me")
    set_settings(project.root, {OLD: {"priority": "7"}}, author("set"))
    before = attempts(project)
    assert project.texts(OLD) > {"job_log.job_schedule_id", "batch_queue.source_job_name"}

    project.write_all(NEW, renamed_from=OLD)
    done = project.run(at("2022-01-05"))
    assert [each for each in done if not each.startswith("dwd.c")] == [
        "dwd.d [2022-01-02, 2022-01-03)",
        "dwd.d [2022-01-04, 2022-01-05)",
    ]
    assert len(done) == 3
    assert project.texts(OLD) == {"table_rename.renamed_from", "relation_definition_log.pre_name"}
    after = attempts(project)
    assert [tuple(f.replace(OLD, NEW) for f in row) for row in before] == after[-len(before) :]
    assert project.runner.in_force().table(NEW).priority == 7
    assert project.run(at("2022-01-05")) == []


def test_it_is_reported_before_and_when_it_can_be_removed(project: Renamed):
    project.write_all(NEW, renamed_from=OLD)
    registered = consult(project.root)
    (note,) = find_rename_notes(registered.project, registered.run_log)
    assert (
        "the next run continues with ods.old: 3 attempts in the run log and the rows" in note.text
    )
    assert f"{project.root}/.logdriven/warehouse/ods/old" in note.text
    assert find_removed_tables(registered) == []
    assert project.run() == []
    registered = consult(project.root)
    (note,) = find_rename_notes(registered.project, registered.run_log)
    assert note.text == "ods.new: it has the windows of ods.old; remove renamed_from"
    project.write_all(NEW)
    assert project.run() == []


def test_a_new_project_ignores_it(tmp_path: Path):
    project = Renamed(tmp_path).write_all(NEW, renamed_from=OLD)
    assert len(project.run()) == 9
    registered = consult(project.root)
    (note,) = find_rename_notes(registered.project, registered.run_log)
    assert "the run log has no window of ods.old" in note.text


def test_a_chain_of_renames_and_the_way_back_keep_the_windows(project: Renamed):
    for name, before in ((NEW, OLD), ("ods.third", NEW), (OLD, "ods.third")):
        project.write_all(name, renamed_from=before)
        assert project.run() == []
    with project.runner.run_log.read() as conn:
        known = {each.renamed_from: each.table for each in renaming.find_renames(conn)}
    assert known == {NEW: OLD, "ods.third": OLD}


def test_a_table_that_was_removed_first_continues_as_well(project: Renamed):
    project.write(daily("t.other"))
    project.run()
    project.write(daily("t.other"), daily(NEW, renamed_from=OLD))
    assert project.run() == []
    assert find_removed_tables(consult(project.root))[0].table == "dwd.c"


def test_a_table_that_was_registered_before_keeps_its_versions_behind_the_others(
    project: Renamed,
):
    project.write_all(NEW)
    project.runner  # noqa: B018 - registers it
    project.write_all(NEW, renamed_from=OLD)
    assert project.run() == []
    assert {row[4] for row in attempts(project) if row[1] == NEW} == {"1"}
    # Version 1, its removal, the one that was registered before, and that with renamed_from.
    assert project.runner.project.version(Kind.TABLE, NEW) == 4


def test_a_running_window_refuses_it_until_its_lease_is_over(project: Renamed):
    run_log = project.runner.run_log
    claim = Claim(
        *(OLD, day(4), 1440, "time_window", "p", Trigger.PENDING, Owner("elsewhere", 1, 2)),
        now=at("2022-01-05"),
        steps=("load",),
        definition="d",
    )
    run_log.write(lambda conn: claimed(conn, claim))
    project.write_all(NEW, renamed_from=OLD)
    with pytest.raises(AlreadyRunningError, match=r"renamed_from: ods\.old is running in job"):
        project.run()
    registered = consult(project.root)
    assert "is running in job" in find_rename_notes(registered.project, registered.run_log)[0].text
    with run_log.begin() as conn:  # its runner has not come back
        conn.execute(text("UPDATE job_log SET lease_expires_at = '2022-01-01'"))
    assert project.run(at("2022-01-05"))[0] == "ods.new [2022-01-04, 2022-01-05)"
    with project.runner.run_log.read() as conn:
        rows = history.list_attempts(conn, limit=100)
    ended = [(r["status"], r["attempt_number"]) for r in rows if "20220104" in r["job_schedule_id"]]
    assert ("FAILURE", 1) in ended
    assert ("SUCCESS", 2) in ended


def test_windows_of_its_own_refuse_it(project: Renamed):
    project.write(daily(NEW))
    project.run()
    project.write(daily(NEW, renamed_from=OLD))
    with pytest.raises(UsageError, match=r"ods\.new has windows of its own in the run log"):
        project.run()
    with consult(project.root).run_log.read() as conn:
        names = [row["job_name"] for row in history.list_attempts(conn, limit=100)]
    assert names.count(OLD) == names.count(NEW) == 3


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        ([daily(NEW, renamed_from=OLD), daily(OLD)], "ods.old is still a table of this project"),
        ([daily(NEW, renamed_from=NEW)], "names the table itself"),
        (
            [daily(NEW, renamed_from=OLD), daily("ods.z", renamed_from=OLD)],
            "ods.new has the same renamed_from",
        ),
        (
            [daily(NEW, renamed_from=OLD), daily("dwd.d", OLD)],
            "it is named ods.new now (renamed_from)",
        ),
    ],
)
def test_a_contradiction_is_an_error_of_the_file(tmp_path: Path, tables, problem: str):
    project = Renamed(tmp_path).write(*tables)
    with pytest.raises(InvalidProjectError) as error:
        project.run()
    assert problem in str(error.value)


def test_a_process_with_the_old_files_is_refused(project: Renamed):
    old = project.runner
    project.write_all(NEW, renamed_from=OLD)
    project.run()
    with pytest.raises(RunLogError, match=r"ods\.old was renamed to ods\.new"):
        list(old.catch_up(at("2022-01-06")))
    project.write_all(OLD)
    with pytest.raises(RunLogError, match=r"write `renamed_from: ods\.new` into ods\.old"):
        project.run(at("2022-01-06"))
    project.write(daily(NEW), daily(OLD))  # a new table of the earlier name
    assert len(project.run()) == 3


@pytest.mark.sampled("database_url")
def test_a_run_that_began_before_it_claims_no_window_after_it(tmp_path: Path, database_url: URL):
    project = Renamed(tmp_path, database_url.render_as_string(hide_password=False))
    old = project.write(daily(OLD), daily("t.other")).runner
    events = old.catch_up(NOW)
    while "WindowSucceeded" not in type(next(events)).__name__:
        pass
    project.write(daily(NEW, renamed_from=OLD), daily("t.other")).runner  # noqa: B018 - applies it
    with pytest.raises(RunLogError, match=r"ods\.old was renamed to ods\.new"):
        list(events)
    for change in (old.skip, old.unskip):
        with pytest.raises(RunLogError, match=r"ods\.old was renamed to ods\.new"):
            change(OLD, [day(3)], NOW, "why", "me")
    assert project.texts(OLD) == {"table_rename.renamed_from"}


@pytest.mark.sampled("database_url")
@pytest.mark.parametrize("first", ["claim", "rename"])
def test_a_claim_and_a_rename_wait_for_each_other(
    tmp_path: Path, database_url: URL, monkeypatch: pytest.MonkeyPatch, first: str
):
    project = Renamed(tmp_path, database_url.render_as_string(hide_password=False))
    old = project.write(daily(OLD)).runner
    list(old.catch_up(at("2022-01-02")))
    project.write(daily(NEW, renamed_from=OLD))
    begun, goes_on = Event(), Event()

    def halt(function: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            found = function(*arguments, **named)
            begun.set()
            goes_on.wait(0.5)  # the other side waits for the database meanwhile
            return found

        return call

    place = (ClaimTransaction, "claim") if first == "claim" else (renaming, "rename")
    monkeypatch.setattr(*place, halt(getattr(*place)))
    with ThreadPoolExecutor(2) as pool:
        works = {"claim": lambda: list(old.catch_up(NOW)), "rename": lambda: project.runner}
        one = pool.submit(works.pop(first))
        assert begun.wait(60)
        (other,) = (pool.submit(work) for work in works.values())
        ended = [other.exception(60)]
        goes_on.set()
        ended.append(one.exception(60))
    refused = {type(error) for error in ended if error is not None}
    assert refused in ({AlreadyRunningError}, {RunLogError}, set()), ended
    with old.run_log.read() as conn:
        names = {row["job_name"] for row in history.list_attempts(conn)}
    assert names == {OLD if AlreadyRunningError in refused else NEW}


def test_an_interrupted_rename_continues_with_the_next_command(project: Renamed, monkeypatch):
    project.write_all(NEW, renamed_from=OLD)
    with monkeypatch.context() as patched:
        patched.setattr(renaming, "finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            project.run()
    project.write_all(NEW)
    assert project.run() == []
    with project.runner.run_log.read() as conn:
        assert [each.moved for each in renaming.find_renames(conn)] == [True]


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled("database_url")
def test_two_processes_at_once_apply_it_once(tmp_path: Path, database_url: URL):
    log = database_url.render_as_string(hide_password=False)
    project = Renamed(tmp_path / "a", log).write_all(OLD)
    other = Renamed(tmp_path / "b", log, "q").write_all(OLD)
    assert [len(each.run()) for each in (project, other)] == [9, 9]
    project.write_all(NEW, renamed_from=OLD)
    words = ["run", "--project", str(project.root), "--now", "2022-01-04", "--json"]
    running = [
        subprocess.Popen([sys.executable, "-c", COMMAND, *words], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    ended = [(process.communicate(timeout=300)[0], process.returncode) for process in running]
    assert [code for _, code in ended] == [0, 0], ended
    assert all('"done": 0' in out for out, _ in ended)
    assert project.run() == other.run() == []
    assert {row[1] for row in attempts(project)} == {NEW, "dwd.c", "dwd.d"}
    assert {row[1] for row in attempts(other)} == {OLD, "dwd.c", "dwd.d"}
