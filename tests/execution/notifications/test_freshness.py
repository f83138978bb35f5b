"""Who is told that a table is late, and once; real servers and a real log."""

import pytest

from logdriven_dagster.runlog.observed import notifications
from tests.builders import at
from tests.execution.conftest import SUMS
from tests.recipients import free_port, mail_server

DAYS = [f"2022-01-0{d},{d}" for d in range(1, 6)]
LATE = "[world] ods.numbers 2022-01-03 – 2022-01-04 late"
FRESH = "[world] ods.numbers 2022-01-05 – 2022-01-06 fresh again"


@pytest.fixture
def mail():
    with mail_server() as server:
        yield server


@pytest.fixture
def watched(world, mail):
    """`watched()` lets the numbers of each day be done two hours after its end."""
    world.mail = mail

    def configure(fresh="{within: 2 h}", on="[failure, recovery]", recipient="ops"):
        world.write(
            "logdriven.yaml",
            f"""
            project: world
            recipients:
              ops: {{type: email, server: "{mail.address}", security: none, from: a@b, to: c@d}}
              gone: {{type: webhook, url: "http://127.0.0.1:{free_port()}"}}
            defaults:
              notify: [{{to: {recipient}, on: {on}}}]
              freshness: {fresh}
            """,
        )
        world.write("tables/sums.yaml", SUMS + "    freshness: none")
        world.numbers(*DAYS)
        world.catch_up(now=at("2022-01-03"))
        return world

    return configure


def watch(world, now):
    """What a tick does at an instant."""
    found = world.runner.watch_freshness(at(now))
    return found["ods.numbers"].verdict.value


def test_a_table_that_becomes_late_is_reported_once_and_once_that_it_is_fresh_again(watched):
    world = watched()
    assert watch(world, "2022-01-04 01:59") == "fresh"
    assert world.mail.subjects == []
    for now in ("2022-01-04 02:00", "2022-01-04 02:01", "2022-01-05 02:00"):
        assert watch(world, now) == "late"
    assert world.mail.subjects == [LATE]
    assert "should have finished by 2022-01-04 02:00:00; has not run" in world.mail.body()
    world.catch_up(now=at("2022-01-06"))
    for now in ("2022-01-06 02:00", "2022-01-06 02:01"):
        assert watch(world, now) == "fresh"
    assert world.mail.subjects == [LATE, FRESH]


def test_a_table_that_becomes_late_again_is_reported_again(watched):
    world = watched()
    watch(world, "2022-01-04 02:00")
    world.catch_up(now=at("2022-01-04"))
    watch(world, "2022-01-04 02:01")
    watch(world, "2022-01-05 02:00")
    assert [subject.rpartition(" ")[2] for subject in world.mail.subjects] == [
        "late",
        "again",
        "late",
    ]
    assert len({mail["Message-ID"] for mail in world.mail.mails}) == 3


def test_a_warning_comes_first_and_what_is_late_stays_so_until_it_is_fresh(watched):
    world = watched(fresh="{within: 4 h, warn: 2 h}")
    watch(world, "2022-01-04 02:00")
    watch(world, "2022-01-04 04:00")
    world.catch_up(now=at("2022-01-04"))
    assert watch(world, "2022-01-05 02:00") == "warning"
    span = "2022-01-03 – 2022-01-04"
    assert world.mail.subjects == [
        f"[world] ods.numbers {span} nearly late",
        f"[world] ods.numbers {span} late",
    ]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("on", "told"),
    [("[failure]", [LATE]), ("[recovery]", [FRESH]), ("[success]", []), ("always", [LATE, FRESH])],
)
def test_recipients_of_failures_are_notified_of_lateness(watched, on, told):
    world = watched(on=on)
    world.mail.mails.clear()
    watch(world, "2022-01-04 02:00")
    late = world.mail.subjects
    world.catch_up(now=at("2022-01-06"))
    world.mail.mails.clear()
    watch(world, "2022-01-06 02:00")
    assert [*late, *world.mail.subjects] == told


def test_an_unreported_failure_has_no_recovery_notice(watched):
    world = watched(recipient="gone")
    watch(world, "2022-01-04 02:00")
    world.catch_up(now=at("2022-01-06"))
    watch(world, "2022-01-06 02:00")
    with world.runner.run_log.read() as conn:
        rows = conn.exec_driver_sql("SELECT subject_type FROM notification_log").scalars().all()
    assert "freshness" not in rows


def test_cleaning_does_not_make_it_news_again(watched):
    world = watched()
    watch(world, "2022-01-04 02:00")
    run_log = world.runner.run_log
    with run_log.begin() as conn:
        conn.exec_driver_sql("UPDATE notification_log SET create_time = '2000-01-01 00:00:00.000'")
        notifications.forget(conn, notifications.OLDEST)
    watch(world, "2022-01-04 03:00")
    assert world.mail.subjects == [LATE]
