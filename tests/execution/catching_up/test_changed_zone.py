"""A project whose time zone changes: windows keep their identity, and nothing is stuck."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdriven_dagster.config.models.fields import read_instant
from logdriven_dagster.execution.events import WindowRefused, WindowSucceeded
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.history.logs import list_attempts, list_attempts_at
from logdriven_dagster.testing import memory_run_log
from tests.builders import at
from tests.clock_changes import CHANGES, attempted, null_project, null_table
from tests.random_examples import examples

DAILY = null_table("ods.a", "1 day", "2022-01-01")
HOURLY = null_table("ods.a", "1 hour", "2022-01-01")


def done(events):
    return [str(e.attempt.window) for e in events if isinstance(e, WindowSucceeded)]


def finished(runner):
    """The bounds of the windows that count, which must not overlap and leave no gap."""
    with runner.run_log.read() as conn:
        rows = [row for row in list_attempts(conn, limit=10_000) if row["latest"]]
    assert {row["status"] for row in rows} == {"SUCCESS"}
    spans = sorted((row["window_start"], row["window_end"]) for row in rows)
    assert all(one[1] == other[0] for one, other in pairwise(spans))
    assert len({row["job_schedule_id"] for row in rows}) == len(rows)
    return spans


def test_days_of_utc_go_on_as_days_of_berlin(tmp_path: Path):
    log = memory_run_log()
    list(null_project(tmp_path, "UTC", [DAILY], log).catch_up(at("2022-01-04")))
    berlin = null_project(tmp_path, "Europe/Berlin", [DAILY], log)
    now = at("2022-01-06 00:00", "Europe/Berlin")
    events = list(berlin.catch_up(now))
    assert done(events) == [
        "[2022-01-01, 2022-01-01 01:00)",
        "[2022-01-04 01:00, 2022-01-05)",
        "[2022-01-05, 2022-01-06)",
    ]
    assert not [event for event in events if isinstance(event, WindowRefused)]
    assert list(berlin.catch_up(now)) == []
    assert len(finished(berlin)) == 6


def test_an_hour_that_was_done_in_another_zone_is_the_same_window_there(tmp_path: Path):
    log = memory_run_log()
    list(null_project(tmp_path, "UTC", [HOURLY], log).catch_up(at("2022-01-01 05:00")))
    berlin = null_project(tmp_path, "Europe/Berlin", [HOURLY], log)
    now = at("2022-01-01 08:00", "Europe/Berlin")
    first, last = (at(f"2022-01-01 0{hour}:00", "Europe/Berlin") for hour in (1, 6))
    list(berlin.refresh("ods.a", TimeWindow(first, last), now))
    with log.read() as conn:
        rows = list_attempts(conn)
    again = [(row["window_start"], row["attempt_number"]) for row in rows if row["latest"]]
    begin = int(at("2022-01-01").timestamp())
    assert sorted(again) == [(begin + 3600 * n, 2) for n in range(5)]
    window = berlin.project.table("ods.a").grid.window(3)
    with log.read() as conn:
        found = list_attempts_at(conn, [("ods.a", window)])[0]
    assert [row["window_start"] for row in found] == [int(window.span[0])] * 2
    assert found[0]["data_range_start"] == "20220101030000+0100"
    list(berlin.catch_up(now))
    assert len(finished(berlin)) == 8


def test_a_window_that_failed_in_another_zone_is_tried_again_there(tmp_path: Path):
    log = memory_run_log()
    utc = null_project(tmp_path, "UTC", [HOURLY], log)
    list(utc.catch_up(at("2022-01-01 03:00")))
    log.write(lambda conn: conn.exec_driver_sql("UPDATE job_log SET status = 'FAILURE'"))
    log.write(lambda conn: conn.exec_driver_sql("DELETE FROM log_range"))
    berlin = null_project(tmp_path, "Europe/Berlin", [HOURLY], log)
    list(berlin.catch_up(at("2022-01-01 05:00", "Europe/Berlin")))
    assert len(finished(berlin)) == 5
    assert len(attempted(berlin)) == 8


@pytest.mark.sampled
@pytest.mark.parametrize("zone", sorted(CHANGES))
def test_a_database_keeps_the_windows_of_two_zones_apart(tmp_path: Path, database_url, zone):
    log = RunLog.open(database_url)
    list(null_project(tmp_path, "UTC", [DAILY], log).catch_up(at("2022-01-03")))
    there = null_project(tmp_path, zone, [DAILY], log)
    now = read_instant("2022-01-05", there.project.zone)
    list(there.catch_up(now))
    assert list(there.catch_up(now)) == []
    assert finished(there)[-1][1] == now.timestamp()


ZONES = st.lists(st.sampled_from(["UTC", *sorted(CHANGES)]), min_size=2, max_size=4)


@pytest.mark.usefixtures("slow")
@settings(max_examples=examples(10), deadline=None)
@given(ZONES, st.sampled_from(["1 hour", "6 hours", "1 day", "2 days"]))
def test_a_project_may_change_its_zone_again_and_again(tmp_path_factory, zones, period):
    folder, log = tmp_path_factory.mktemp("project"), memory_run_log()
    table = null_table("ods.a", period, "2022-01-01")
    for day, zone in enumerate(zones, start=2):
        runner = null_project(folder, zone, [table], log)
        now = read_instant(f"2022-01-{2 * day:02}", runner.project.zone)
        list(runner.catch_up(now))
        assert list(runner.catch_up(now)) == []
        finished(runner)
