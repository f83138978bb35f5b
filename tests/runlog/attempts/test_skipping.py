"""Windows that operators skip, as each kind of database keeps them."""

from logdriven_dagster.model.attempts import Status, Trigger
from logdriven_dagster.model.logs import LeftOut, TableLog
from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.attempts import claiming
from tests.builders import day
from tests.runlog.ageing import age, move
from tests.runlog.logbook import fail, request, rows, succeed, table_log

WHY = "skipped by ann: lost"


def skip(log: RunLog, *days: int, trigger: Trigger = Trigger.SKIP, reason: str = WHY) -> None:
    requests = [request(day(n), trigger) for n in days]
    log.write(lambda conn: claiming.skip(conn, requests, reason))


def unskip(log: RunLog, *days: int) -> None:
    requests = [request(day(n), Trigger.SKIP) for n in days]
    log.write(lambda conn: claiming.unskip(conn, requests, "unskipped by ben: found"))


def of_table(log: RunLog) -> TableLog:
    return table_log(log)


def test_who_skipped_a_window_and_why_is_known_and_a_rule_is_no_operator(log: RunLog):
    skip(log, 1, trigger=Trigger.PENDING, reason="passed over")
    fail(log, day(2))
    skip(log, 2)
    found = of_table(log)
    assert found.left_out == (LeftOut(day(2), WHY),)
    assert [(w.start, w.end) for w in found.skipped] == [(day(1).start, day(2).end)]
    assert found.open == ()


def test_an_unskipped_window_is_open_again_and_keeps_its_history(log: RunLog):
    skip(log, 1, 2)
    unskip(log, 2)
    found = of_table(log)
    assert found.left_out == (LeftOut(day(1), WHY),)
    assert [(item.window, item.status) for item in found.open] == [(day(2), Status.DISCARDED)]
    statuses = [row["status"] for row in rows(log, "SELECT status FROM job_log ORDER BY job_id")]
    assert statuses == ["SKIPPED", "SKIPPED", "DISCARDED"]
    succeed(log, day(2))
    assert of_table(log).finished == (day(2),)


def test_what_a_rule_passed_over_is_open_once_it_is_unskipped(log: RunLog):
    skip(log, 1, trigger=Trigger.PENDING)
    unskip(log, 1)
    assert of_table(log).skipped == ()
    assert [item.window for item in of_table(log).open] == [day(1)]


def test_archiving_keeps_what_operators_have_skipped(log: RunLog):
    succeed(log, day(1))
    skip(log, 2)
    age(log)
    move(log)
    assert of_table(log).left_out == (LeftOut(day(2), WHY),)
