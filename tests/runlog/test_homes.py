"""Projects of a log and the homes of their tables, on each kind of database."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import delete, func, insert, select, update

from logdriven_dagster.errors import RunLogError
from logdriven_dagster.model.definitions import Home
from logdriven_dagster.runlog import RunLog, homes
from logdriven_dagster.runlog.homes import LogProject
from logdriven_dagster.runlog.schema.attempts import job_log, step_log
from logdriven_dagster.runlog.sql.projects import match_project
from tests.builders import day
from tests.one_project import unnamed
from tests.runlog.logbook import open_log, rows, succeed, table_log

pytestmark = pytest.mark.sampled("database_url")

A = LogProject("a", "host", "/a", "/lake")


def entered(log: RunLog, project: LogProject) -> RunLog:
    opened = RunLog(log.engine)
    opened.enter(project)
    return opened


def home(name: str = "ods.a", place: str | None = "/lake/ods/a", host: str = "host") -> Home:
    return Home(name, host, "/a", place)


def known(log: RunLog) -> list[tuple[str, str]]:
    return [
        (row["project_name"], row["folder"])
        for row in rows(log, "SELECT * FROM project ORDER BY project_name")
    ]


def test_each_project_reads_its_own_windows(log: RunLog):
    other = open_log(log.engine.url, "other")
    assert table_log(other) == table_log(log)
    succeed(log, day(1))
    assert table_log(other).finished == ()
    succeed(other, day(1))
    succeed(other, day(2))
    assert [table_log(each).finished for each in (log, other)] == [
        (day(1),),
        (day(1).up_to_end_of(day(2)),),
    ]
    other.engine.dispose()


def test_reading_records_no_project_and_the_first_transaction_that_writes_does(log: RunLog):
    opened = entered(log, A)
    assert opened.ask(lambda conn: homes.find_homes(conn, ["ods.a"])) == {}
    assert known(log) == []
    opened.write(lambda conn: homes.put(conn, [home()], {}))
    assert known(log) == [("a", "/a")]
    assert opened.ask(lambda conn: homes.find_homes(conn, ["ods.a"])) == {"ods.a": home()}


def test_of_first_runs_at_once_of_a_name_one_folder_has_it(log: RunLog):
    barrier = Barrier(4)

    def race(folder: str) -> str | None:
        opened = entered(log, LogProject("a", "host", folder, f"{folder}/lake"))
        barrier.wait()
        try:
            opened.write(lambda conn: homes.put(conn, [home()], {}))
        except RunLogError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(4) as pool:
        refused = [text for text in pool.map(race, ["/1", "/2", "/3", "/4"]) if text]
    assert len(refused) == 3
    assert all("a second project needs a name of its own" in text for text in refused)
    assert len(known(log)) == 1


def test_a_home_is_replaced_only_as_it_was_read(log: RunLog):
    opened = entered(log, A)
    opened.write(lambda conn: homes.put(conn, [home()], {}))
    stale = {"ods.a": home(place="/other")}
    with pytest.raises(RunLogError, match="is recording"), opened.begin() as conn:
        homes.put(conn, [home(place="/new")], stale)


def test_a_renamed_project_keeps_its_number_and_frees_its_name(log: RunLog):
    number = entered(log, A).write(A.record)
    renamed = LogProject("b", A.host, A.folder, A.place)
    assert entered(log, renamed).ask(renamed.find) == number
    assert not entered(log, renamed).ask(renamed.is_recorded)
    entered(log, renamed).write(renamed.record)
    assert known(log) == [("b", "/a")]
    anew = LogProject("a", "host", "/elsewhere", "/elsewhere/lake")
    assert entered(log, anew).write(anew.record) != number


@pytest.mark.parametrize(
    "other",
    [
        LogProject("b", "host", "/b", "/lake"),
        LogProject("b", "host", "/a", "/another"),
        LogProject("b", "another host", "/a", "/lake"),
    ],
)
def test_another_name_in_another_folder_or_warehouse_is_another_project(
    log: RunLog, other: LogProject
):
    entered(log, A).write(A.record)
    assert entered(log, other).ask(other.find) is None


def test_places_of_other_projects_are_found(log: RunLog):
    one, two = entered(log, A), entered(log, LogProject("b", "host", "/b", "/b"))
    kept = [home(), home("ods.s", "s3://lake/ods/s"), home("ods.j", "ods_j"), home("ods.n", None)]
    one.write(lambda conn: homes.put(conn, kept, {}))
    assert two.ask(lambda conn: homes.find_taken_places(conn, [home("ods.x", "/b/ods/x")])) == []
    assert one.ask(lambda conn: homes.find_taken_places(conn, kept)) == []
    found = two.ask(lambda conn: homes.find_taken_places(conn, kept))
    assert sorted((each.home.name, each.project) for each in found) == [
        ("ods.a", "a"),
        ("ods.s", "a"),
    ]
    moved = [home(each.name, each.place, "another host") for each in kept]
    found = two.ask(lambda conn: homes.find_taken_places(conn, moved))
    assert [each.home.name for each in found] == ["ods.s"]


def test_a_project_with_windows_is_not_removed(log: RunLog):
    succeed(log, day(1))
    ((number, _),) = [log.ask(lambda conn: homes.find_project(conn, "project"))]
    assert not log.write(lambda conn: homes.remove_unused(conn, number))
    other = entered(log, A)
    other.write(lambda conn: homes.put(conn, [home()], {}))
    ((number, _),) = [log.ask(lambda conn: homes.find_project(conn, "a"))]
    assert log.write(lambda conn: homes.remove_unused(conn, number))
    assert known(log) == [("project", "/project")]
    assert rows(log, "SELECT * FROM table_home") == []


def test_a_log_that_no_project_has_entered_refuses_its_rows(log: RunLog):
    unbound = RunLog(log.engine)
    with pytest.raises(RunLogError, match="opened without a project"), unbound.read() as conn:
        conn.execute(select(job_log).where(match_project(job_log)))
    succeed(log, day(1))
    with pytest.raises(RunLogError, match="another project"):
        log.enter(A)


def test_the_guard_of_the_tests_finds_statements_that_do_not_name_the_project():
    mine, key = match_project(job_log), job_log.c.job_id == 1
    log = job_log.alias()
    joined = select(step_log).join(job_log, job_log.c.job_id == step_log.c.job_id)
    assert unnamed(select(job_log)) == ["job_log"]
    assert unnamed(select(job_log).where(mine | key)) == ["job_log"]
    assert unnamed(select(job_log).where(mine, job_log.c.job_name == "t")) == []
    assert unnamed(select(job_log).where(key)) == []
    assert unnamed(update(job_log).values(latest=1)) == ["job_log"]
    assert unnamed(delete(job_log).where(job_log.c.job_name == "t")) == ["job_log"]
    assert unnamed(select(job_log, log).where(mine, log.c.job_name == job_log.c.job_name)) != []
    assert unnamed(select(step_log).where(step_log.c.job_id.in_(select(job_log.c.job_id)))) == [
        "job_log"
    ]
    assert unnamed(joined) == []
    newest = select(func.max(job_log.c.job_id)).scalar_subquery()
    assert unnamed(insert(step_log).from_select(["job_id"], select(newest))) == ["job_log"]
