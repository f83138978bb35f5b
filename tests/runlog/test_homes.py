"""Homes of tables: whose they are is decided once, on each kind of database."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import text

from logdriven_dagster.errors import RunLogError
from logdriven_dagster.model.definitions import Home, project_entry
from logdriven_dagster.runlog import RunLog, homes

NAMES = ["ods.a", "ods.b", "ods.c"]


def home(project: str, name: str = "ods.a", place: str | None = "/lake") -> Home:
    return Home(name, project, "host", f"/{project}", place)


def take(log: RunLog, project: str) -> str:
    """Take the tables unless another project has them, as a first run does; the owner."""
    wanted = {name: home(project, name) for name in NAMES}

    def work(conn) -> str:
        before = homes.recorded(conn, wanted)
        if before:
            (owner,) = {item.project for item in before.values()}
            return owner
        homes.put(conn, wanted.values(), before)
        return project

    return log.write(work)


def test_of_first_runs_at_once_one_project_has_all_tables(log: RunLog):
    barrier = Barrier(4)

    def race(project: str) -> str:
        barrier.wait()
        return take(log, project)

    with ThreadPoolExecutor(4) as pool:
        owners = set(pool.map(race, ["a", "b", "c", "d"]))
    assert len(owners) == 1
    recorded = log.ask(lambda conn: homes.recorded(conn, NAMES))
    assert {item.project for item in recorded.values()} == owners
    assert len(recorded) == len(NAMES)


def test_a_home_is_replaced_only_as_it_was_read(log: RunLog):
    take(log, "a")
    stale = {"ods.a": home("other")}
    with pytest.raises(RunLogError, match="recorded elsewhere"), log.begin() as conn:
        homes.put(conn, [home("b")], stale)


def test_a_renamed_project_leaves_no_entry_of_its_old_name(log: RunLog):
    entry = home("a", project_entry("a"))
    log.write(lambda conn: homes.put(conn, [home("a"), entry], {}))
    log.write(lambda conn: homes.put(conn, [home("b")], {"ods.a": home("a")}))
    found = log.ask(lambda conn: homes.recorded(conn, ["ods.a", entry.name]))
    assert found == {"ods.a": home("b")}


def test_names_of_other_projects_are_found(log: RunLog):
    take(log, "a")
    with log.read() as conn:
        assert conn.execute(homes.owned_by_others("a")).all() == []
        assert sorted(conn.execute(homes.owned_by_others("b")).scalars()) == NAMES
        assert conn.execute(text("SELECT COUNT(*) FROM table_home")).scalar() == len(NAMES)
