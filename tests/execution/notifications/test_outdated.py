"""Who receives a notice that source files changed after their windows ran, and once."""

import pytest

from tests.builders import day
from tests.recipients import mail_server
from tests.source_files import Events

OUTDATED = "[events] ods.events out of date"
OUTDATED_FILES = {(2, 4): "4.csv (changed)", (2, 3): "2.csv and 1 more (changed)"}


@pytest.fixture
def mail():
    with mail_server() as server:
        yield server


@pytest.fixture
def events(tmp_path, mail):
    """`events(reaction, on)` has run its five windows, and has recipients."""

    def configure(reaction="report", on="[failure, recovery]"):
        found = Events(tmp_path, reaction)
        found.sandbox.write(
            "logdriven.yaml",
            f"""
            project: events
            recipients:
              ops: {{type: email, server: "{mail.address}", security: none, from: a@b, to: c@d}}
            defaults:
              notify: [{{to: ops, on: {on}}}]
            """,
        )
        found.run()
        return found

    return configure


def test_a_changed_file_is_reported_once_with_its_windows(events, mail):
    found = events()
    assert mail.subjects == []
    found.deliver("2.csv", 2, 2)
    found.run()
    found.run()
    assert mail.subjects == [OUTDATED]
    assert "2022-01-02" in mail.body()
    assert "2.csv (changed); `logdriven refresh` runs these windows again" in mail.body()


def test_the_next_change_is_reported_with_all_windows_that_are_out_of_date(events, mail):
    found = events()
    found.deliver("2.csv", 2, 2)
    found.run()
    found.deliver("4.csv", 4, 4)
    found.run()
    assert mail.subjects == [OUTDATED] * 2
    assert "2.csv (changed)" in mail.body()
    assert "4.csv (changed)" in mail.body()


@pytest.mark.parametrize("delivered", [(2, 4), (2, 3)])
def test_a_window_that_counts_a_reported_file_sends_no_second_notice(events, mail, delivered):
    found = events()
    for n in delivered:
        found.deliver(f"{n}.csv", n, n)
    found.run()
    found.refresh(day(2))
    found.run()
    assert mail.subjects == [OUTDATED]
    assert found.outdated == {day(delivered[1]): OUTDATED_FILES[delivered]}


def test_windows_of_the_new_version_of_a_reported_file_are_reported(events, mail):
    found = events()
    found.deliver("2.csv", 2, 5)
    found.run()
    found.refresh(day(3))
    found.run()
    assert mail.subjects == [OUTDATED] * 2
    assert list(found.outdated) == [day(2), day(4), day(5)]


def test_windows_that_run_again_by_themselves_are_not_reported(events, mail):
    found = events("rerun")
    found.deliver("2.csv", 2, 2)
    assert len(found.run()) == 1
    assert mail.subjects == []


@pytest.mark.parametrize(("reaction", "on"), [("ignore", "always"), ("report", "[recovery]")])
def test_other_tables_and_recipients_receive_no_notice(events, mail, reaction, on):
    found = events(reaction, on)
    mail.mails.clear()
    found.deliver("2.csv", 2, 2)
    found.run()
    assert mail.subjects == []
