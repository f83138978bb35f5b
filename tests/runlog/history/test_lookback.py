"""What attempts with `lookback` had seen, and what makes them run again, on three databases."""

import pytest

from logdriven_dagster.model.attempts import Trigger
from tests.builders import day, days, table
from tests.runlog.ageing import age, move
from tests.runlog.logbook import execute, fail, succeed, table_log

pytestmark = pytest.mark.sampled("database_url")


def noted(log, config):
    return [(item.window, item.seen) for item in table_log(log, config).within_lookback]


def test_a_window_that_had_not_seen_all_is_known_however_old_it_is(log):
    looking = table(lookback=1)
    succeed(log, day(1), seen_until=day(1).end)
    for n in range(2, 6):
        succeed(log, day(n), now=f"2022-01-{n + 2:02}")
    newest = [(day(n), day(n + 1).end) for n in (4, 5)]
    assert noted(log, looking) == [(day(1), day(1).end), *newest]
    age(log)
    move(log, looking)
    assert noted(log, looking) == [(day(1), day(1).end), *newest]
    succeed(log, day(1), trigger=Trigger.LOOKBACK)
    assert noted(log, looking) == newest


def test_what_failed_has_seen_nothing(log):
    looking = table(lookback=1)
    fail(log, day(1), seen_until=day(1).end)
    assert noted(log, looking) == []


def test_a_late_window_of_an_upstream_that_ran_again_makes_those_stale_that_reach_it(log):
    reading = [{"table": "a", "read": "all"}]
    tables = table("a"), table("b", lookback=2, depends_on=reading), table("c", depends_on=reading)
    for n in range(1, 6):
        for config in tables:
            succeed(log, day(n), name=config.table)
    assert table_log(log, *tables)["b"].stale == ()
    succeed(log, day(4), name="a", trigger=Trigger.REFRESH)
    assert table_log(log, *tables)["b"].stale == (day(2), day(3), day(4))
    assert table_log(log, *tables)["c"].stale == (day(4),)
    for n in (2, 3, 4):
        succeed(log, day(n), name="b", trigger=Trigger.UPSTREAM)
    assert table_log(log, *tables)["b"].stale == ()


def test_it_counts_the_wall_clock_where_the_periods_do(log):
    """25 hours have the day on which the clocks go back; a quarter of an hour is within reach."""
    zone = "Europe/Berlin"
    fine = table("a", period=15, zone=zone, default_start="2022-10-29")
    reading = [{"table": "a", "read": "all"}]
    config = table("b", zone=zone, default_start="2022-10-29", lookback=1, depends_on=reading)
    for n in (0, 1):
        succeed(log, config.grid.window(n), name="b")
    last, beyond = (fine.grid.window(4 * (24 + 25) + n) for n in (-1, 0))
    for window in (last, beyond):
        succeed(log, window, name="a")
    succeed(log, beyond, name="a", trigger=Trigger.REFRESH)
    assert table_log(log, fine, config)["b"].stale == (config.grid.window(1),)
    succeed(log, last, name="a", trigger=Trigger.REFRESH)
    assert table_log(log, fine, config)["b"].stale == tuple(map(config.grid.window, (0, 1)))


def test_a_log_of_before_has_seen_what_was_due(log):
    """Rows without the note: of an older version, or of a table that had no `lookback`."""
    for n in (1, 2):
        succeed(log, day(n), now=f"2022-01-0{n + 1} 05:00")
    execute(log, "UPDATE job_log SET seen_until = NULL")
    config = table(lookback=1, delay="5 hours")
    assert noted(log, config) == [(day(1), day(1).end), (day(2), day(2).end)]
    assert table_log(log, config).finished == (days(1, 3),)
