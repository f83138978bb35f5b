"""What ended lately is delivered where somebody waits with a delay, and only there."""

from datetime import datetime

import pytest
from sqlalchemy import event, insert

from logdriven_dagster.model.attempts import Status
from logdriven_dagster.runlog.attempts import claiming
from logdriven_dagster.runlog.history import recent
from logdriven_dagster.runlog.schema.attempts import job_log
from tests.builders import day, table
from tests.runlog.logbook import end, execute, fail, request, set_clock, start, succeed, table_log

pytestmark = pytest.mark.sampled("database_url")

DELAYED = table("b", depends_on=[{"table": "ods.t", "condition": "always", "delay": "30 min"}])


def ended_lately(log, *tables):
    return table_log(log, *(tables or (table(), DELAYED)))["ods.t"].recent


def test_windows_that_ended_lately_come_with_how_long_ago_by_the_databases_clock(log):
    succeed(log, day(1))
    fail(log, day(2))
    end(log, start(log, day(3)), Status.DISCARDED)
    with log.begin() as conn:
        claiming.skip(conn, [request(day(4))], "for a reason")
    start(log, day(5))
    found = ended_lately(log)
    assert [(item.window, item.status) for item in found] == [
        (day(1), Status.SUCCESS),
        (day(2), Status.FAILURE),
        (day(3), Status.DISCARDED),
        (day(4), Status.SKIPPED),
    ]
    assert all(0 <= item.ago.total_seconds() < 60 for item in found)


def test_only_the_latest_attempt_counts(log):
    fail(log, day(1))
    succeed(log, day(1))
    assert [item.status for item in ended_lately(log)] == [Status.SUCCESS]


def test_what_ended_before_the_delay_is_not_read(log):
    succeed(log, day(1))
    execute(log, "UPDATE job_log SET job_end_time = '2022-01-01 00:00:00.000000'")
    assert ended_lately(log) == ()


def test_what_ended_in_the_future_of_a_clock_that_was_set_back_delays_nothing(log):
    succeed(log, day(1))
    set_clock(log, hours=-2)
    assert ended_lately(log) == ()


def test_nothing_is_asked_where_no_table_has_a_delay(log):
    succeed(log, day(1))
    asked = []
    event.listen(log.engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
    found = table_log(log, table(), table("b", depends_on=["ods.t"]))
    assert found["ods.t"].recent == ()
    assert not any("job_end_time >" in statement for statement in asked)


def finished_long_ago(log, number):
    """A history of windows that ended in 2022."""
    then = datetime(2022, 1, 1)
    rows = [
        {
            "job_name": "ods.t",
            "job_period": 1440,
            "job_schedule_id": f"ods.t-{n}",
            "status": "SUCCESS",
            "latest": 1,
            "window_start": n,
            "window_end": n + 1,
            "job_end_time": then,
        }
        for n in range(number)
    ]
    with log.begin() as conn:
        conn.execute(insert(job_log), rows)
    analyze = {"sqlite": "ANALYZE", "postgresql": "ANALYZE job_log"}
    execute(log, analyze.get(log.engine.dialect.name, "ANALYZE TABLE job_log"))


def test_the_index_of_endings_is_read_and_not_the_history(log):
    succeed(log, day(1))
    finished_long_ago(log, 3000)
    asked = []
    event.listen(log.engine, "before_cursor_execute", lambda *args: asked.append(args[2:4]))
    explain = "EXPLAIN QUERY PLAN" if log.engine.dialect.name == "sqlite" else "EXPLAIN"
    with log.read() as conn:
        assert len(recent.find_ended_windows(conn, [table(), DELAYED])["ods.t"]) == 1
        query, parameters = next(item for item in asked if "job_end_time >" in item[0])
        told = conn.exec_driver_sql(f"{explain} {query}", parameters).all()
    assert "ix_job_log_ended" in "\n".join(str(tuple(row)) for row in told)
