"""The reach of tables downstream counts from the first attempt of their upstream on."""

from logdriven_dagster.runlog.history.reach import reach_since
from tests.builders import day
from tests.runlog.ageing import age, move
from tests.runlog.logbook import fail, succeed

B = {"name": "ods.b"}


def reach(log):
    return log.ask(lambda conn: reach_since(conn, ["ods.b", "ods.c"], "ods.a"))


def test_windows_before_the_first_attempt_of_the_upstream_do_not_count(log):
    succeed(log, day(1), **B)
    assert reach(log) is None
    fail(log, day(1), name="ods.a")
    assert reach(log) is None
    succeed(log, day(2), **B)
    assert reach(log) == day(3).span[0]
    age(log)
    move(log)
    assert reach(log) == day(3).span[0]
