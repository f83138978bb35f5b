"""New run logs as copies of one, on SQLite and PostgreSQL: 34 tables are made once per process."""

import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache

import pytest
from sqlalchemy import URL, Connection, create_engine, inspect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, StaticPool

from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.schema.version import HEAD
from tests.servers import NEW_DATABASE

_upgrade: Callable[[RunLog], str] = RunLog.upgrade
_USED = """
    SELECT (SELECT count(*) FROM pg_class WHERE oid >= 16384)
         + (SELECT count(*) FROM pg_namespace WHERE oid >= 16384)
         + (SELECT count(*) FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
              WHERE d.datname = current_database())
         + (SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database())"""
"""What a database holds, is set to and is used by, beside the connection that asks."""

_templates: list[tuple[URL, str]] = []


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


@cache
def _postgres_template(server: URL) -> str:
    """The name of a database whose only content is a run log."""
    name = f"template_{os.getpid()}"
    with _autocommitting(server) as conn:
        conn.exec_driver_sql(f"CREATE DATABASE {name}")
    engine = create_engine(server.set(database=name), poolclass=NullPool)
    _upgrade(RunLog(engine))
    _templates.append((server, name))
    return name


@contextmanager
def _autocommitting(server: URL) -> Iterator[Connection]:
    engine = create_engine(
        server.set(database="postgres"), isolation_level="AUTOCOMMIT", poolclass=NullPool
    )
    with engine.connect() as conn:
        yield conn


def _copied(log: RunLog) -> str:
    """Bring the schema up to date; a log without any table becomes a copy of the template."""
    copy = {"sqlite": _copy_sqlite, "postgresql": _copy_postgres}.get(log.engine.dialect.name)
    if copy is None or inspect(log.engine).get_table_names():
        return _upgrade(log)
    return copy(log)


def _copy_sqlite(log: RunLog) -> str:
    with log.engine.connect() as conn:
        target = conn.connection.driver_connection
        assert isinstance(target, sqlite3.Connection)
        _template().backup(target)
    return HEAD


def _copy_postgres(log: RunLog) -> str:
    """Replace an empty database of the tests; others, and those in use, are upgraded."""
    url = log.engine.url
    if url.query or not re.fullmatch(NEW_DATABASE, url.database or ""):
        return _upgrade(log)
    with log.engine.connect() as conn:
        used = conn.exec_driver_sql(_USED).scalar()
    log.engine.dispose()
    if used:
        return _upgrade(log)
    server = url.set(database="postgres")
    with _autocommitting(server) as conn:
        template = _postgres_template(server)
        conn.exec_driver_sql(f"DROP DATABASE {url.database}")
        conn.exec_driver_sql(f"CREATE DATABASE {url.database} TEMPLATE {template}")
    return HEAD


@pytest.fixture(scope="session", autouse=True)
def postgres_templates() -> Iterator[None]:
    """Leave none on a server that goes on after the tests."""
    yield
    for server, name in _templates:
        with suppress(DBAPIError), _autocommitting(server) as conn:
            conn.exec_driver_sql(f"DROP DATABASE {name}")


@pytest.fixture(scope="session")
def real_upgrade() -> None:
    """Let the test make the schema of a new run log as users have it made."""


@pytest.fixture(autouse=True)
def copied_run_logs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "real_upgrade" not in request.fixturenames:
        monkeypatch.setattr(RunLog, "upgrade", _copied)
