"""A server that goes away in the middle of a transaction, and one that is frozen out."""

import threading
import time
from contextlib import suppress
from functools import partial

import pytest
from sqlalchemy import create_engine, inspect, text

from logdriven_dagster.config.server_limits import build_limits
from logdriven_dagster.errors import RunLogError
from logdriven_dagster.runlog import RunLog, store
from logdriven_dagster.runlog.schema import migrating
from logdriven_dagster.runlog.store import UnreachableError
from tests.builders import claim_one, day
from tests.faults.network import wire_to
from tests.patience import PATIENCE, within
from tests.runlog.logbook import open_log, request, rows

WHO = {"postgresql": "SELECT pg_backend_pid()", "mysql": "SELECT CONNECTION_ID()"}
END = {"postgresql": "SELECT pg_terminate_backend({})", "mysql": "KILL {}"}


@pytest.fixture(params=["postgres_url", "mariadb_url"])
def url(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def log(url):
    opened = open_log(url)
    yield opened
    opened.engine.dispose()


def kill_session(log, conn):
    kind = log.engine.dialect.name.replace("mariadb", "mysql")
    number = conn.execute(text(WHO[kind])).scalar()
    with log.engine.connect() as other:
        other.execute(text(END[kind].format(number)))


def test_a_transaction_whose_connection_was_killed_is_done_again(log):
    tries = []

    def work(conn):
        tries.append(1)
        attempt = claim_one(conn, request(day(1)))
        if len(tries) == 1:
            kill_session(log, conn)
            conn.execute(text("SELECT 1"))
        return attempt

    assert log.write(work).attempt_number == 1
    assert len(tries) == 2
    assert len(rows(log, "SELECT * FROM job_log")) == 1


def kill_idle_session(log):
    kind = log.engine.dialect.name.replace("mariadb", "mysql")
    number = log.ask(lambda conn: conn.execute(text(WHO[kind])).scalar())
    other = create_engine(log.engine.url, isolation_level="AUTOCOMMIT")
    with other.connect() as conn:
        conn.execute(text(END[kind].format(number)))
    other.dispose()


def test_a_connection_that_was_killed_while_idle_is_opened_again(log, monkeypatch):
    monkeypatch.setattr(store, "_IDLE_SECONDS", 0)
    kill_idle_session(log)
    with log.begin() as conn:
        assert claim_one(conn, request(day(1))).attempt_number == 1


def test_so_is_one_that_was_just_used_when_its_transaction_is_repeated(log):
    kill_idle_session(log)
    assert log.write(lambda conn: claim_one(conn, request(day(1)))).attempt_number == 1


def test_a_connection_lost_during_the_commit_is_an_error_since_the_outcome_is_unknown(log):
    def work(conn):
        claim_one(conn, request(day(1)))
        kill_session(log, conn)

    with pytest.raises(RunLogError, match="lost during a commit") as caught:
        log.write(work)
    assert not isinstance(caught.value, UnreachableError)


def test_a_statement_alone_is_done_again_only_where_a_commit_would_have_come_behind_it(log):
    tries = []

    def work(conn):
        tries.append(1)
        if len(tries) == 1:
            kill_session(log, conn)
        conn.execute(text("DELETE FROM job_log"))

    if log.engine.dialect.name == "postgresql":  # the statement is its own commit
        with pytest.raises(RunLogError, match="lost during a commit"):
            log.write(work, alone=True)
        log.write(work, alone=True)
    else:
        log.write(work, alone=True)
    assert len(tries) == 2


def test_a_server_that_stays_away_is_an_error_after_some_patience(log, monkeypatch):
    monkeypatch.setattr(RunLog, "patience", 0.3)
    monkeypatch.setattr(log.engine, "connect", _refused(log))
    began = time.monotonic()
    with within(5), pytest.raises(UnreachableError):
        log.write(lambda conn: None)
    assert time.monotonic() - began > 0.1


def test_a_connection_that_is_lost_when_a_runner_opens_the_log_is_had_again(log, monkeypatch):
    looks = []

    def look(conn):
        looks.append(1)
        if len(looks) == 1:
            kill_session(log, conn)
        return inspect(conn)

    monkeypatch.setattr("logdriven_dagster.runlog.store.inspect", look)
    assert rows(RunLog.open(log.engine.url), "SELECT * FROM job_log") == []
    assert len(looks) == 2


def test_a_schema_whose_making_was_cut_off_is_made_again(url, monkeypatch, real_upgrade):
    drop, tries = migrating.drop_views, []

    def dropped(conn):
        tries.append(1)
        if len(tries) == 1:
            kill_session(RunLog(create_engine(url)), conn)
        drop(conn)

    monkeypatch.setattr(migrating, "drop_views", dropped)
    assert rows(RunLog.open(url), "SELECT * FROM job_log") == []
    assert len(tries) == 2


@pytest.mark.sampled
def test_a_network_that_is_cut_when_a_runner_opens_the_log_may_come_back(log, monkeypatch):
    monkeypatch.setattr("logdriven_dagster.config.server_limits._CONNECT_SECONDS", 1)
    with wire_to(log.engine.url.port) as wire:
        wire.cut()
        healing = threading.Timer(3, wire.mend)
        healing.start()
        opened = RunLog.open(log.engine.url.set(port=wire.port))
        assert not healing.is_alive()
        assert rows(opened, "SELECT * FROM job_log") == []
        opened.engine.dispose()


@pytest.mark.sampled
def test_a_network_that_stays_cut_is_an_error_after_some_patience(log, monkeypatch):
    for limit in ("_CONNECT_SECONDS", "_ANSWER_SECONDS"):  # PyMySQL waits for an answer, too
        monkeypatch.setattr(f"logdriven_dagster.config.server_limits.{limit}", 1)
    monkeypatch.setattr(RunLog, "patience", 0.3)
    with wire_to(log.engine.url.port) as wire:
        wire.cut()
        with within(30), pytest.raises(UnreachableError, match="cannot use the run log"):
            RunLog.open(log.engine.url.set(port=wire.port))


def test_a_server_that_refuses_is_not_asked_again(log):
    with within(5), pytest.raises(RunLogError, match="nowhere"):
        RunLog.open(log.engine.url.set(database="nowhere"))


@pytest.mark.sampled
def test_a_runner_that_was_frozen_in_a_transaction_does_it_again_when_it_wakes(log, monkeypatch):
    monkeypatch.setattr(
        "logdriven_dagster.runlog.store.build_limits", partial(build_limits, idle=1)
    )
    monkeypatch.setattr("logdriven_dagster.runlog.store._FROZEN_SECONDS", 1.0)
    monkeypatch.setattr(RunLog, "patience", 0.5)
    frozen = open_log(log.engine.url)
    tries = []

    def work(conn):
        tries.append(1)
        attempt = claim_one(conn, request(day(1)))
        if len(tries) == 1:
            time.sleep(3)
        return attempt

    assert frozen.write(work).attempt_number == 1
    assert len(tries) == 2


def _refused(log):
    """Connects to where no server is."""
    return create_engine(log.engine.url.set(port=1)).connect


@pytest.mark.sampled
def test_a_frozen_transaction_does_not_keep_its_locks(log, monkeypatch):
    monkeypatch.setattr(
        "logdriven_dagster.runlog.store.build_limits", partial(build_limits, idle=1)
    )
    frozen = open_log(log.engine.url)
    held, done = threading.Event(), threading.Event()

    def freeze():
        with suppress(RunLogError), frozen.begin() as conn:
            claim_one(conn, request(day(1)))
            held.set()
            done.wait(PATIENCE)
            conn.execute(text("SELECT 1"))

    thread = threading.Thread(target=freeze)
    thread.start()
    assert held.wait(PATIENCE)
    with within(5), log.begin() as conn:
        claim_one(conn, request(day(1)))
    done.set()
    thread.join(PATIENCE)
    frozen.engine.dispose()
