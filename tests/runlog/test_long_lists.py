"""Lists of names that are longer than what a database takes as parameters of one statement."""

import pytest
import sqlalchemy as sa

from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.attempts import coverage
from logdriven_dagster.runlog.schema.attempts import log_range
from logdriven_dagster.runlog.sql.among import among

KNOWN = ["ods.visits", "o'brien", 'a "quoted" one', "100 %(s) ä, \\"]


@pytest.fixture
def conn(log: RunLog):
    with log.begin() as conn:
        rows = [{"job_name": name, "status": "SUCCESS"} for name in KNOWN]
        conn.execute(sa.insert(log_range).values(window_start=0, window_end=60), rows)
        yield conn


def found(conn: sa.Connection, names: list[str]) -> set[str]:
    query = sa.select(log_range.c.job_name).where(among(log_range.c.job_name))
    return set(conn.execute(query, {"names": names}).scalars())


def test_each_name_is_found_as_it_is_written(conn):
    for name in KNOWN:
        assert found(conn, [name]) == {name}
        assert found(conn, [name, "unknown"]) == {name}


def test_no_name_finds_nothing(conn):
    assert found(conn, []) == set()


def test_the_ranges_of_seventy_thousand_tables_are_one_statement(conn):
    names = [f"table_{n}" for n in range(70_000)]
    rows = coverage.list_ranges(conn, [*names, "ods.visits"])
    assert [row.job_name for row in rows] == ["ods.visits"]
