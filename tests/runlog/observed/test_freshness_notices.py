"""The last notice of a table's freshness to each recipient, on real databases."""

from logdriven_dagster.runlog.observed import notifications
from logdriven_dagster.runlog.observed.freshness_notices import Standing, find_changed, post
from logdriven_dagster.runlog.schema.observations import notification_log

ME = "here:1:2"


def standing(event, instant=1, *, is_news=True):
    return Standing("ops", "ods.t", event, instant, is_news)


def notify(log, *standings):
    return log.write(lambda conn: post(conn, standings, ME))


def sent(log):
    """The message with what is due has reached its recipient; what it tells."""
    parcel = log.write(lambda conn: notifications.take(conn, "ops", ME))
    log.write(lambda conn: notifications.record_sent(conn, parcel))
    return [(notice.event, notice.job_id) for notice in parcel.notices]


def waiting(log):
    return list(log.ask(lambda conn: notifications.find_waiting_recipients(conn, ["ops"], ME)))


def test_each_change_is_reported_once_by_all_processes_together(log):
    assert notify(log, standing("recovery")) == 0
    assert notify(log, standing("late")) == 1
    assert notify(log, standing("late", instant=2)) == 0
    assert sent(log) == [("late", 1)]
    assert notify(log, standing("warning")) == 0
    assert notify(log, standing("recovery", instant=3)) == 1
    assert sent(log) == [("recovery", 3)]
    assert notify(log, standing("late", instant=4)) == 1
    assert sent(log) == [("late", 4)]


def test_what_is_known_needs_no_writing(log):
    notify(log, standing("late"))
    found = [standing("late"), Standing("chat", "ods.t", "late", 1, is_news=True)]
    assert log.ask(lambda conn: find_changed(conn, found)) == found[1:]


def test_who_does_not_want_to_hear_of_it_is_sent_nothing(log):
    assert notify(log, standing("late", is_news=False)) == 0
    assert waiting(log) == []
    assert notify(log, standing("recovery")) == 1


def test_a_recovery_takes_an_unsent_notice_back(log):
    notify(log, standing("late"))
    assert notify(log, standing("recovery")) == 0
    assert waiting(log) == []
    with log.read() as conn:
        assert conn.execute(notification_log.select()).all() == []


def test_that_a_table_is_late_is_not_forgotten(log):
    notify(log, standing("late"))
    sent(log)
    with log.begin() as conn:
        conn.exec_driver_sql("UPDATE notification_log SET create_time = '2000-01-01 00:00:00'")
        assert notifications.forget(conn, notifications.OLDEST) == 0
    notify(log, standing("recovery"))
    sent(log)
    with log.begin() as conn:
        conn.exec_driver_sql("UPDATE notification_log SET create_time = '2000-01-01 00:00:00'")
        assert notifications.forget(conn, notifications.OLDEST) == 1
