"""New run logs on SQLite as copies of one: the schema of 34 tables is made once per process."""

import sqlite3
from collections.abc import Callable
from functools import cache

import pytest
from sqlalchemy import create_engine, inspect
from sqlalchemy.pool import StaticPool

from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.schema.version import HEAD

_upgrade: Callable[[RunLog], str] = RunLog.upgrade


@cache
def _template() -> sqlite3.Connection:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    _upgrade(RunLog(engine))
    copy = sqlite3.connect(":memory:", check_same_thread=False)
    with engine.connect() as conn:
        source = conn.connection.driver_connection
        assert isinstance(source, sqlite3.Connection)
        source.backup(copy)
    return copy


def _copied(log: RunLog) -> str:
    """Bring the schema up to date; a log without any table becomes a copy of the template."""
    if log.engine.dialect.name != "sqlite" or inspect(log.engine).get_table_names():
        return _upgrade(log)
    with log.engine.connect() as conn:
        target = conn.connection.driver_connection
        assert isinstance(target, sqlite3.Connection)
        _template().backup(target)
    return HEAD


@pytest.fixture(scope="session")
def real_upgrade() -> None:
    """Let the test make the schema of a new run log as users have it made."""


@pytest.fixture(autouse=True)
def copied_run_logs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "real_upgrade" not in request.fixturenames:
        monkeypatch.setattr(RunLog, "upgrade", _copied)
