"""New run logs as copies of one: a schema of 34 tables is made once per process and server."""

import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import pytest
from sqlalchemy import URL, Connection, Dialect, Engine, Select, create_engine, event, inspect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, StaticPool
from sqlalchemy.sql.compiler import SQLCompiler

from logdriven_dagster.runlog import RunLog
from logdriven_dagster.runlog.schema.version import HEAD
from logdriven_dagster.runlog.sql import unions
from tests import one_project
from tests.servers import NEW_DATABASE, administration, copy_files

_upgrade: Callable[[RunLog], str] = RunLog.upgrade
_USED = """
    SELECT (SELECT count(*) FROM pg_class WHERE oid >= 16384)
         + (SELECT count(*) FROM pg_namespace WHERE oid >= 16384)
         + (SELECT count(*) FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
              WHERE d.datname = current_database())
         + (SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database())"""
"""What a database holds, is set to and is used by, beside the connection that asks."""

_COLLATION = "SELECT @@collation_database"
_templates: list[URL] = []


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
def _template_on(server: URL) -> URL:
    """A database whose only content is a run log."""
    made = server.set(database=f"template_{os.getpid()}")
    with _autocommitting(server) as conn:
        conn.exec_driver_sql(f"CREATE DATABASE {made.database}")
    _templates.append(made)
    _upgrade(RunLog(create_engine(made, poolclass=NullPool)))
    return made


@cache
def _statements_on(server: URL) -> tuple[str, list[str]]:
    """The collation of a run log's database of MariaDB, and what makes its tables and rows."""
    template = _template_on(server)
    with _autocommitting(template) as conn:
        names = conn.exec_driver_sql("SHOW TABLES").scalars().all()
        made = [conn.exec_driver_sql(f"SHOW CREATE TABLE {name}").one()[1] for name in names]
        rows = [
            f"INSERT INTO {name} SELECT * FROM {template.database}.{name}"
            for name in names
            if conn.exec_driver_sql(f"SELECT 1 FROM {name} LIMIT 1").first()
        ]
        return str(conn.exec_driver_sql(_COLLATION).scalar()), [*made, *rows]


@contextmanager
def _autocommitting(url: URL) -> Iterator[Connection]:
    engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as conn:
        yield conn


def _copied(log: RunLog) -> str:
    """Bring the schema up to date; a log without any table becomes a copy of the template."""
    dialect, url = log.engine.dialect.name, log.engine.url
    copy = _COPIES.get(dialect)
    is_new = dialect == "sqlite" or re.fullmatch(NEW_DATABASE, url.database or "")
    if copy is None or not is_new or url.query or inspect(log.engine).get_table_names():
        return _upgrade(log)
    return copy(log)


def _copy_sqlite(log: RunLog) -> str:
    with log.engine.connect() as conn:
        target = conn.connection.driver_connection
        assert isinstance(target, sqlite3.Connection)
        _template().backup(target)
    return HEAD


def _copy_postgres(log: RunLog) -> str:
    """Replace a database that is empty and not in use."""
    with log.engine.connect() as conn:
        used = conn.exec_driver_sql(_USED).scalar()
    log.engine.dispose()
    if used:
        return _upgrade(log)
    name, server = log.engine.url.database, log.engine.url.set(database="postgres")
    template = _template_on(server).database
    with administration(server).connect() as conn:
        conn.exec_driver_sql(f"DROP DATABASE {name}")
        conn.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {template}{copy_files(conn)}")
    return HEAD


def _copy_mariadb(log: RunLog) -> str:
    collation, statements = _statements_on(log.engine.url.set(database=""))
    with log.engine.connect() as conn:
        if conn.exec_driver_sql(_COLLATION).scalar() != collation:
            return _upgrade(log)
        conn.exec_driver_sql("SET foreign_key_checks = 0")
        for statement in statements:
            conn.exec_driver_sql(statement.replace("%", "%%"))
        conn.exec_driver_sql("SET foreign_key_checks = 1")
        conn.commit()
    return HEAD


_COPIES = {
    "sqlite": _copy_sqlite,
    "postgresql": _copy_postgres,
    "mysql": _copy_mariadb,
    "mariadb": _copy_mariadb,
}


@pytest.fixture(scope="session", autouse=True)
def templates() -> Iterator[None]:
    """Leave none on a server that goes on after the tests."""
    yield
    for made in _templates:
        beside = "postgres" if made.get_backend_name() == "postgresql" else ""
        with suppress(DBAPIError), _autocommitting(made.set(database=beside)) as conn:
            conn.exec_driver_sql(f"DROP DATABASE {made.database}")


@pytest.fixture(scope="session")
def real_upgrade() -> None:
    """Let the test make the schema of a new run log as users have it made."""


@pytest.fixture(scope="session", autouse=True)
def rows_of_one_project() -> Iterator[None]:
    """Let no statement of ours meet the rows of several projects."""
    compiled = unions._compile_query

    def checked(query: Select[Any], dialect: Dialect) -> SQLCompiler:
        one_project.refuse(None, query)
        return compiled(query, dialect)

    event.listen(Engine, "before_execute", one_project.refuse)
    unions._compile_query = checked
    yield
    event.remove(Engine, "before_execute", one_project.refuse)
    unions._compile_query = compiled


@pytest.fixture(autouse=True)
def copied_run_logs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "real_upgrade" not in request.fixturenames:
        monkeypatch.setattr(RunLog, "upgrade", _copied)
