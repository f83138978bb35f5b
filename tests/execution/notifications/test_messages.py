"""Who is told what, by real servers: S39 of the checklist, and what keeps it from being a flood."""

import logging
import socket
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from logdriven_dagster.config import load_project
from logdriven_dagster.config.models.notifications import EmailRecipient, NotifyRule
from logdriven_dagster.execution.events import WindowSucceeded
from logdriven_dagster.execution.notifications import senders
from logdriven_dagster.execution.notifications.messages import Message
from logdriven_dagster.execution.notifications.rules import events_by_recipient
from logdriven_dagster.model.attempts import Status
from tests.builders import day
from tests.execution.conftest import NOW
from tests.patience import within
from tests.recipients import free_port, mail_server, web_server

GOOD = [f"2022-01-0{d},{d}" for d in range(1, 6)]
BAD = [line if not line.startswith("2022-01-02") else "2022-01-02,oops" for line in GOOD]


@pytest.fixture
def mail():
    with mail_server() as server:
        yield server


@pytest.fixture
def web():
    with web_server() as server:
        yield server


@pytest.fixture
def notified(world, mail, web, monkeypatch):
    """`notified(rules)` lets a project's windows be told by these rules."""
    monkeypatch.setenv("HOOK", f"{web.url}/services/T0/B0/very-secret")
    world.mail, world.web = mail, web

    def configure(rules, **fields):
        world.write(
            "logdriven.yaml",
            f"""
            project: world
            ui_url: https://dagster.example.com/
            recipients:
              ops: {{type: email, server: "{mail.address}", security: none, from: a@b, to: c@d}}
              chat: {{type: slack, url: "${{env:HOOK}}"}}
              hook: {{type: webhook, url: "{web.url}/hook", headers: {{X-Token: "${{env:HOOK}}"}}}}
              gone: {{type: webhook, url: "http://127.0.0.1:{free_port()}"}}
            defaults:
              batch_size: 1
              notify: {rules}
            """,
        )
        return world

    return configure


def test_a_failure_is_reported_once_and_not_again_while_it_lasts_s39(notified):
    world = notified("[{to: ops, on: [failure, recovery]}]")
    world.numbers(*BAD)
    world.catch_up()
    first = "[world] ods.numbers 2022-01-02 – 2022-01-03 failed"
    assert world.mail.subjects == [first]
    assert "oops" in world.mail.body()
    world.catch_up()
    world.catch_up()
    assert world.statuses("ods.numbers")[1:] == [("02", "FAILURE")] * 3
    assert world.mail.subjects == [first]
    world.numbers(*GOOD)
    world.catch_up()
    recovered = "[world] ods.numbers 2022-01-02 – 2022-01-03 recovered"
    assert world.mail.subjects == [first, recovered]
    list(world.runner.refresh_windows("ods.numbers", [day(2)], NOW))
    assert len(world.mail.mails) == 2


def test_success_and_always_are_reported_each_time_s39(notified):
    world = notified("[{to: ops, on: success}, {to: hook, on: always}]")
    world.numbers(*BAD)
    world.catch_up(tables=["ods.numbers"])
    world.catch_up(tables=["ods.numbers"])
    assert world.mail.subjects == ["[world] ods.numbers 2022-01-01 – 2022-01-02 succeeded"]
    events = [[event["event"] for event in body["events"]] for body in world.web.bodies]
    assert events == [["failure", "success"], ["failure"]]


def test_a_run_sends_one_message_to_each_recipient_s39(notified):
    world = notified("[{to: [ops, hook], on: always}]")
    world.catch_up()
    assert world.mail.subjects == ["[world] 8 succeeded"]
    (body,) = world.web.bodies
    assert [event["subject"] for event in body["events"]].count("dws.sums") == 4
    assert body["events"][0]["written"] == 2


def test_windows_that_are_refreshed_one_after_the_other_are_one_message(notified):
    world = notified("[{to: ops, on: success}]")
    world.catch_up(tables=["ods.numbers"])
    list(world.runner.refresh_windows("ods.numbers", [day(1), day(2)], NOW))
    assert world.mail.subjects[1:] == ["[world] 2 succeeded of ods.numbers"]


def test_interrupted_and_discarded_attempts_are_not_reported(notified):
    world = notified("[{to: ops, on: always}]")
    events = world.runner.refresh_windows("ods.numbers", [day(1)], NOW)
    next(events)
    events.close()
    assert world.statuses("ods.numbers") == [("01", "DISCARDED")]
    assert world.mail.mails == []


def test_an_unreachable_recipient_changes_nothing_and_is_tried_again_later(notified, caplog):
    world = notified("[{to: gone, on: success}, {to: ops, on: success}]")
    with caplog.at_level(logging.WARNING):
        events = world.catch_up(tables=["ods.numbers"])
    assert len([e for e in events if isinstance(e, WindowSucceeded)]) == 4
    assert len(world.mail.mails) == 1
    assert "notification to gone; it is sent again later: ConnectionError" in caplog.text
    world.web.posts.clear()
    config = (world.root / "logdriven.yaml").read_text()
    gone = next(line for line in config.splitlines() if "gone:" in line)
    back = f'  gone: {{type: webhook, url: "{world.web.url}/back"}}'
    (world.root / "logdriven.yaml").write_text(config.replace(gone, back))
    world.catch_up(tables=["ods.numbers"])
    assert "/back" not in [path for path, *_ in world.web.posts]
    world.sql("UPDATE notification_log SET due_time = '2000-01-01 00:00:00.000'")
    world.catch_up(tables=["ods.numbers"])
    (body,) = [body for path, _, body in world.web.posts if path == "/back"]
    assert len(body["events"]) == 4


@pytest.mark.usefixtures("long")
def test_a_slow_recipient_does_not_hold_the_end_of_a_run_for_long(notified):
    world = notified("[{to: hook, on: success}]")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        config = (world.root / "logdriven.yaml").read_text()
        (world.root / "logdriven.yaml").write_text(
            config.replace(f"{world.web.url}/hook", f"http://127.0.0.1:{port}")
        )
        with within(15):
            world.catch_up(tables=["ods.numbers"], max_windows=1)
    assert world.statuses("ods.numbers") == [("01", "SUCCESS")]


@pytest.mark.usefixtures("slow")
def test_a_runner_that_dies_between_the_end_and_the_message_loses_and_repeats_nothing(notified):
    world = notified("[{to: ops, on: always}]")
    runner = world.runner
    runner.outbox.depth += 1  # it never gets to the end of its run
    list(runner.refresh_windows("ods.numbers", [day(1)], NOW))
    assert world.mail.mails == []
    world.sql("UPDATE notification_log SET due_time = '2000-01-01 00:00:00.000', owner = 'dead'")
    world.runner.outbox.deliver()
    world.runner.outbox.deliver()
    assert world.mail.subjects == ["[world] ods.numbers 2022-01-01 – 2022-01-02 succeeded"]


def test_a_message_that_is_sent_again_is_known_by_its_id(notified):
    world = notified("[{to: ops, on: success}]")
    world.catch_up(tables=["ods.numbers"], max_windows=1)
    world.sql("UPDATE notification_log SET sent_time = NULL, due_time = '2000-01-01 00:00:00.000'")
    world.runner.outbox.deliver()
    first, again = (mail["Message-ID"] for mail in world.mail.mails)
    assert first == again


def test_a_server_that_refuses_is_not_reached(notified):
    world = notified("[{to: hook, on: success}]")
    world.web.status = 500
    world.catch_up(tables=["ods.numbers"], max_windows=1)
    with world.runner.run_log.read() as conn:
        query = "SELECT sent_time, tries, error FROM notification_log"
        ((sent, tries, error),) = conn.exec_driver_sql(query).all()
    assert (sent, tries) == (None, 1)
    assert error == "NotReachedError: the server answered 500: "


def test_secrets_are_in_no_message_no_row_and_no_log_line(notified, caplog, monkeypatch):
    world = notified("[{to: [ops, hook, chat], on: failure}]")
    monkeypatch.setenv("HOOK", f"http://127.0.0.1:{free_port()}/services/very-secret")
    world.numbers("2022-01-01,password=hunter2")
    with caplog.at_level(logging.DEBUG):
        world.catch_up(tables=["ods.numbers"])
    assert "ods.numbers" in world.mail.body()
    sent = world.mail.mails[0].as_string() + str(world.web.bodies)
    with world.runner.run_log.read() as conn:
        stored = str(conn.exec_driver_sql("SELECT * FROM notification_log").all())
    for text in (sent, stored, caplog.text):
        assert "very-secret" not in text
        assert "hunter2" not in text
    assert "ConnectionError" in stored


def test_a_chat_gets_blocks_without_mentions(notified):
    world = notified("[{to: chat, on: failure}]")
    world.numbers("2022-01-01,<!channel> & more")
    world.catch_up(tables=["ods.numbers"])
    ((path, _, body),) = world.web.posts
    assert path == "/services/T0/B0/very-secret"
    assert body["text"] == "[world] ods.numbers 2022-01-01 – 2022-01-02 failed"
    assert [block["type"] for block in body["blocks"]] == ["header", "section"]
    assert "<!channel>" not in str(body)


def test_a_mail_is_text_and_a_page_with_everything_escaped(notified):
    world = notified("[{to: ops, on: failure}]")
    world.numbers("2022-01-01,<b>bold</b>")
    world.catch_up(tables=["ods.numbers"])
    assert "<b>bold</b>" in world.mail.body()
    assert "&lt;b&gt;bold&lt;/b&gt;" in world.mail.body(kind="html")
    assert world.mail.mails[0]["Auto-Submitted"] == "auto-generated"


def test_other_services_are_reached_by_apprise(notified, monkeypatch):
    pytest.importorskip("apprise")
    world = notified("[{to: ops, on: success}]")
    monkeypatch.setenv("SERVICE", world.web.url.replace("http", "json") + "/topic")
    config = (world.root / "logdriven.yaml").read_text()
    mail = next(line for line in config.splitlines() if "ops:" in line)
    service = '  ops: {type: apprise, url: "${env:SERVICE}"}'
    (world.root / "logdriven.yaml").write_text(config.replace(mail, service))
    world.catch_up(tables=["ods.numbers"], max_windows=1)
    ((_, _, body),) = world.web.posts
    assert body["title"] == "[world] ods.numbers 2022-01-01 – 2022-01-02 succeeded"


def test_a_missing_variable_is_reported_where_the_message_is_queued(notified, monkeypatch):
    world = notified("[{to: chat, on: success}]")
    monkeypatch.delenv("HOOK")
    world.catch_up(tables=["ods.numbers"], max_windows=1)
    with world.runner.run_log.read() as conn:
        error = conn.exec_driver_sql("SELECT error FROM notification_log").scalar()
    assert error == "UsageError: the environment variable HOOK is not set"


def test_a_project_without_recipients_writes_nothing(world):
    world.catch_up(tables=["ods.numbers"], max_windows=1)
    with world.runner.run_log.read() as conn:
        assert conn.exec_driver_sql("SELECT count(*) FROM notification_log").scalar() == 0
    assert load_project(world.root).config.recipients == {}


OCCASIONS = st.sets(st.sampled_from(["failure", "recovery", "success", "always"]), min_size=1)
ENDS = st.lists(st.sampled_from([Status.SUCCESS, Status.FAILURE, Status.DISCARDED]), max_size=12)


@given(OCCASIONS, ENDS)
def test_states_are_reported_when_they_change_and_ends_when_each_is_wanted_s39(on, ends):
    rules = [NotifyRule.model_validate({"to": "ops", "on": sorted(on)})]
    failing, events = False, []
    for end in ends:
        event = events_by_recipient(rules, end, lambda now=failing: now).get("ops")
        changed = {Status.SUCCESS: failing, Status.FAILURE: not failing}.get(end, False)
        state = {Status.SUCCESS: "recovery", Status.FAILURE: "failure"}.get(end)
        wanted = (
            (changed and state in on)
            or ("always" in on and state is not None)
            or ("success" in on and end is Status.SUCCESS)
        )
        assert (event is not None) == wanted
        events.append(event)
        failing = {Status.SUCCESS: False, Status.FAILURE: True}.get(end, failing)
    if on == {"failure", "recovery"}:
        changes = [event for event in events if event]
        assert all(a != b for a, b in pairwise(changes))


def test_no_text_adds_a_header_to_a_mail():
    recipient = EmailRecipient(type="email", server="h", **{"from": "a@b", "to": ["c@d"]})
    message = Message("p", "failed\r\nBcc: everybody@example.com\x1b[2J\u2028x", "d")
    mail = senders._mail(recipient, message)
    assert mail["Bcc"] is None
    assert mail["Subject"] == "failed Bcc: everybody@example.com [2J x"
    with pytest.raises(ValidationError):
        EmailRecipient(type="email", server="h", **{"from": "a@b", "to": ["c@d\nBcc: e@f"]})
