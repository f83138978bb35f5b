"""Who receives a notice that source files changed after their windows ran, and once."""

import pytest

from tests.recipients import mail_server
from tests.source_files import Events

OUTDATED = "[events] ods.events out of date"


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
