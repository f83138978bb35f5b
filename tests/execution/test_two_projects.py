"""Two projects on one run log are two projects, also where their tables have the same names."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.engine import URL

from logdriven_dagster.execution.definitions.changes import set_settings
from logdriven_dagster.execution.definitions.homes import open_run_log
from logdriven_dagster.execution.definitions.registering import author, consult, register
from logdriven_dagster.execution.definitions.removed_tables import find_removed_tables
from logdriven_dagster.execution.events import WindowFailed
from logdriven_dagster.execution.metrics import Metrics
from logdriven_dagster.execution.opening import open_runner
from logdriven_dagster.execution.upkeep import archive_log
from logdriven_dagster.model.definitions import Kind
from logdriven_dagster.runlog.history import logs as history
from logdriven_dagster.runlog.observed.activity import Today
from logdriven_dagster.runlog.schema.attempts import file
from logdriven_dagster.runlog.sql.projects import match_project
from logdriven_dagster.testing.null_engine import NullEngine, null_engine
from tests.builders import at, day
from tests.execution.two_projects import NOW, OnLog


@pytest.fixture
def engine() -> Iterator[NullEngine]:
    with null_engine() as engine:
        yield engine


@pytest.fixture
def projects(tmp_path: Path, database_url: URL) -> tuple[OnLog, OnLog]:
    log = database_url.render_as_string(hide_password=False)
    one, two = (OnLog(tmp_path / name, log, name).write() for name in "ab")
    one.put("1.csv").put("2.csv")
    return one, two.put("1.csv")


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled("database_url")
def test_two_processes_at_once_give_each_project_its_own_windows(projects: tuple[OnLog, OnLog]):
    running = [project.begin_run() for project in projects]
    ended = [(process.communicate(timeout=300)[0], process.returncode) for process in running]
    assert [code for _, code in ended] == [0, 0], ended
    for project, files in zip(projects, (2, 1), strict=True):
        days = [f"2022010{n}000000" for n in (1, 2, 3, 4)]
        daily = [("ods.a", start, end, "SUCCESS", "1") for start, end in pairwise(days)]
        found = project.attempts()
        assert [row for row in found if row[0] == "ods.a"] == daily
        assert {row[3:] for row in found} == {("SUCCESS", "1")}
        with open_run_log(project.runner.project).read() as conn:
            mine = select(func.count()).select_from(file).where(match_project(file))
            assert conn.execute(mine).scalar() == files


@pytest.mark.usefixtures("slow")
@pytest.mark.sampled("database_url")
@pytest.mark.usefixtures("engine")
def test_what_one_project_does_changes_nothing_of_another(projects: tuple[OnLog, OnLog]):
    one, two = projects
    nothing = two.stands()
    one.run()
    assert two.stands() == nothing
    assert len(nothing["plan"]) > 3
    two.run()
    before, of_one = two.stands(), one.stands()
    assert [len(each["attempts"]) for each in (of_one, before)] == [7, 7]

    runner = one.runner
    assert len(list(runner.refresh("ods.a", day(2), NOW))) > 0
    one.write(lookback=1, value=2).put("3.csv")
    one.run(at("2022-01-05"))
    runner = one.runner
    runner.skip("ods.a", [day(5)], NOW, "broken", "me")
    assert one.stands() != of_one
    assert two.stands() == before

    shown = Metrics(two.runner.run_log, lambda: two.runner.project, Today()).text()
    assert 'project="b"' in str(shown)
    with runner.run_log.begin() as conn:
        conn.execute(text("UPDATE job_log SET job_end_time = '2022-01-01'"))
    assert sum(archive_log(runner.project, runner.run_log, timedelta(days=1))) > 0
    assert two.stands() == before
    assert two.run() == []


@pytest.mark.usefixtures("long")
def test_rows_lie_with_the_project_whose_windows_wrote_them(
    projects: tuple[OnLog, OnLog], spark: Any
):
    for value, project in enumerate(projects, start=1):
        registered = register(project.write(value=value).root)
        runner = open_runner(registered.project, spark=lambda: spark, run_log=registered.run_log)
        assert not [e for e in runner.catch_up(NOW) if isinstance(e, WindowFailed)]
        for table in ("ods.a", "dwd.c"):
            assert [row.n for row in runner.engine.read(table, None).collect()] == [value] * 3


@pytest.mark.usefixtures("engine")
def test_definitions_of_a_renamed_project_are_not_those_of_a_later_one_of_its_name(
    tmp_path: Path,
):
    log = f"sqlite:///{tmp_path}/log.db"
    one = OnLog(tmp_path / "a", log, "first").write(value=1)
    one.run()
    set_settings(one.root, {"ods.a": {"priority": "7"}}, author("set"))
    renamed = replace(one, name="second").write(value=1)
    assert renamed.run() == []

    other = OnLog(tmp_path / "b", log, "first").write(value=2)
    other.run()
    for project, priority, versions in ((renamed, 7, 2), (other, 0, 1)):
        runner = project.runner
        assert runner.in_force().table("ods.a").priority == priority
        assert runner.project.version(Kind.TABLE, "ods.a") == versions
        with runner.run_log.read() as conn:
            ran = {
                row["table_version"] for row in history.list_attempts(conn) if row["table_version"]
            }
        assert ran == {1}
    assert find_removed_tables(consult(renamed.root)) == []
