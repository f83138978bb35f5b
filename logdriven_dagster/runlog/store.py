"""Opening the run log: engine, transactions, schema."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import create_engine, event, inspect, text
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError

from logdriven_dagster.config.secrets import redact, remember
from logdriven_dagster.errors import RunLogError

HEAD = "0001"
"""The newest migration; a test proves that it is."""

VERSION_TABLE = "logdriven_version"
"""Not Alembic's default name: the log may share a database with Dagster's own storage."""

_EXTRAS = {"psycopg": "postgres", "pymysql": "mysql", "MySQLdb": "mysql"}
_WRITES = "logdriven_writes"
_BUSY_SECONDS = 60


class RunLog:
    """A run log whose schema is up to date. Store functions get a connection and never commit."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @classmethod
    def open(cls, url: URL | str) -> "RunLog":
        """Open a log, creating or migrating its schema on first use.

        RunLogError if it cannot be reached, its driver is missing, or a newer version wrote it.
        """
        url = make_url(url)
        remember(url.password)
        log = cls(_engine(url))
        try:
            if log._version() != HEAD:
                log.upgrade()
        except SQLAlchemyError as error:
            shown = url.render_as_string(hide_password=True)
            raise RunLogError(redact(f"cannot use the run log {shown}: {_cause(error)}")) from None
        return log

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """One transaction that writes: committed at the end, rolled back by an exception."""
        with self.engine.connect().execution_options(**{_WRITES: True}) as conn, conn.begin():
            yield conn

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One transaction that only reads."""
        with self.engine.connect() as conn:
            yield conn

    def upgrade(self) -> str:
        """Bring the schema up to date, one process at a time; the version it has then."""
        from logdriven_dagster.runlog.migrating import upgrade

        with self.begin() as conn:
            upgrade(conn)
        return HEAD

    def _version(self) -> str | None:
        with self.read() as conn:
            if not inspect(conn).has_table(VERSION_TABLE):
                return None
            return conn.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608


def _engine(url: URL) -> Engine:
    try:
        if url.get_backend_name() == "sqlite":
            return _sqlite_engine(url)
        # Read committed: the checks of a claim must see what others have just finished.
        return create_engine(url, isolation_level="READ COMMITTED", pool_pre_ping=True)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(str(error.name))
        fix = f"pip install 'logdriven_dagster[{extra}]'" if extra else "install it"
        problem = f"the run log needs the package {error.name}; {fix}"
        raise RunLogError(problem) from None
    except NoSuchModuleError:
        known = "sqlite, postgresql, mysql and mariadb"
        raise RunLogError(f"the run log cannot be kept in {url.drivername}; use {known}") from None


def _sqlite_engine(url: URL) -> Engine:
    from pathlib import Path

    if url.database and url.database != ":memory:":
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        connection.execute("PRAGMA journal_mode = WAL")
        # FULL: a finished window must be finished after a power cut too; it costs one fsync.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(conn: Connection) -> None:
        # IMMEDIATE: a transaction that reads first and writes later cannot wait for the lock.
        writes = conn.get_execution_options().get(_WRITES)
        conn.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _cause(error: SQLAlchemyError) -> str:
    if isinstance(error, DBAPIError):
        return str(error.orig)
    return str(error)
