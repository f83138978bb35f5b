"""Bookmarks: up to which attempt of an upstream that ran again nothing is stale by it."""

import pytest

from logdriven_dagster.model.attempts import Trigger
from logdriven_dagster.runlog.history import refreshes
from tests.builders import day, table
from tests.runlog.logbook import execute, rows, start, succeed, table_log

pytestmark = pytest.mark.sampled("database_url")

TABLES = (table("ods.t"), table("b", depends_on=["ods.t"]))


@pytest.fixture
def refreshed(log):
    """Day 1 of `b` is made, and then its upstream has run again."""
    for day_ in (day(1), day(2)):
        succeed(log, day_)
        succeed(log, day_, name="b")
    succeed(log, day(1), trigger=Trigger.REFRESH)
    return log


def a_minute_passes(log):
    execute(log, "UPDATE job_log SET job_end_time = '2022-01-01 00:00:00.000000'")


def bookmark(log):
    with log.begin() as conn:
        refreshes.advance_bookmarks(conn, TABLES[1], TABLES)
    return [row["job_id"] for row in rows(log, "SELECT * FROM refresh_bookmark")]


def stale(log):
    return table_log(log, *TABLES)["b"].stale


def test_a_bookmark_stays_before_what_makes_a_window_stale(refreshed):
    a_minute_passes(refreshed)
    assert bookmark(refreshed) == []
    assert stale(refreshed) == (day(1),)


def test_a_bookmark_moves_when_the_window_has_run_again(refreshed):
    succeed(refreshed, day(1), trigger=Trigger.UPSTREAM, name="b")
    a_minute_passes(refreshed)
    assert bookmark(refreshed) == [5]
    assert stale(refreshed) == ()


def test_the_next_refresh_is_behind_the_bookmark(refreshed):
    succeed(refreshed, day(1), trigger=Trigger.UPSTREAM, name="b")
    a_minute_passes(refreshed)
    bookmark(refreshed)
    succeed(refreshed, day(2), trigger=Trigger.REFRESH)
    assert stale(refreshed) == (day(2),)
    succeed(refreshed, day(2), trigger=Trigger.UPSTREAM, name="b")
    a_minute_passes(refreshed)
    assert bookmark(refreshed) == [7]


def test_a_window_that_runs_may_yet_be_older_than_the_refresh(log):
    succeed(log, day(1))
    start(log, day(1), name="b")
    succeed(log, day(1), trigger=Trigger.REFRESH)
    a_minute_passes(log)
    assert bookmark(log) == []


def test_an_attempt_of_the_upstream_that_runs_may_yet_succeed(refreshed):
    succeed(refreshed, day(1), trigger=Trigger.UPSTREAM, name="b")
    start(refreshed, day(2), trigger=Trigger.REFRESH)
    succeed(refreshed, day(1), trigger=Trigger.REFRESH)
    succeed(refreshed, day(1), trigger=Trigger.UPSTREAM, name="b")
    a_minute_passes(refreshed)
    assert bookmark(refreshed) == []


def test_what_ended_just_now_is_not_passed_since_others_may_have_begun_before_it(refreshed):
    succeed(refreshed, day(1), trigger=Trigger.UPSTREAM, name="b")
    assert bookmark(refreshed) == []


def test_a_table_that_begins_to_depend_on_another_one_has_no_bookmark(refreshed):
    succeed(refreshed, day(1), trigger=Trigger.UPSTREAM, name="b")
    a_minute_passes(refreshed)
    bookmark(refreshed)
    succeed(refreshed, day(2), name="c")
    succeed(refreshed, day(2), trigger=Trigger.REFRESH)
    third = table("c", depends_on=["ods.t"])
    assert table_log(refreshed, TABLES[0], third)["c"].stale == (day(2),)
