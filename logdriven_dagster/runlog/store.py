"""Opening the run log: engine, transactions, schema."""

import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sqlalchemy import create_engine, event, inspect, text
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    InvalidatePoolError,
    NoSuchModuleError,
    OperationalError,
    SQLAlchemyError,
)
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from logdriven_dagster.config.connections import describe_missing_driver
from logdriven_dagster.config.secrets import redact, remember
from logdriven_dagster.config.server_limits import build_limits
from logdriven_dagster.errors import RunLogError, get_driver_message
from logdriven_dagster.model.backoff import compute_back_off
from logdriven_dagster.runlog.schema.version import HEAD, VERSION_TABLE
from logdriven_dagster.runlog.sql.projects import PROJECT_ID, UNRECORDED, follow_connections

_DATABASES = ("sqlite", "postgresql", "mysql", "mariadb")
_UNDONE_STATES = ("40001", "40P01", "55P03", "25P03", "25P04")
"""PostgreSQL's serialization failure, deadlock, lock timeout, and the ends of transactions that
were idle, or lasted, for too long: this process was frozen."""
_MYSQL_AWAY = {1053, 2002, 2003, 2006, 2013, 2055}
"""MySQL's codes for a server that is shutting down or cannot be reached."""
_WRITES, _USED_AT = "logdriven_writes", "logdriven_used_at"
_BY_ITSELF = {"isolation_level": "AUTOCOMMIT"}
"""Options of a connection on which each statement is a transaction."""
_BUSY_SECONDS = 60
_IDLE_SECONDS = 1.0
"""A connection that was used more recently is assumed to be alive."""
_ANSWER_SECONDS = 2
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 3.0
"""Seconds between two tries."""
_FROZEN_SECONDS = 5.0
"""A transaction that takes longer may have been ended by the server."""

logger = logging.getLogger(__name__)
T = TypeVar("T")


class Entrant(Protocol):
    """A project that uses the log, as `homes.LogProject` looks it up and records it."""

    def find(self, conn: Connection) -> int | None:
        """Return its `project_id`, None if it is not in the log. Raises RunLogError if refused."""

    def record(self, conn: Connection) -> int:
        """Record changes of the project, and return its `project_id`."""


class RunLog:
    """A run log whose schema is up to date. Store functions get a connection and never commit.

    Its rows belong to projects: after `enter`, all statements are restricted to the rows of one.
    """

    patience = 30.0
    """The seconds for which a server may be away; a restart takes less."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._entrant: Entrant | None = None
        self._project_id: int | None = None
        follow_connections(engine)

    @classmethod
    def open(cls, url: URL | str) -> "RunLog":
        """Open a log, creating or migrating its schema on first use.

        An unreachable server may come back within `patience`; a server that refuses is not retried.
        Raises RunLogError if it cannot be reached, its driver is missing, or a newer version wrote
        it.
        """
        log = cls(_make_engine(_validate_url(url)))
        if log._check_version() != HEAD:
            log.upgrade()
        return log

    @classmethod
    def open_to_look(cls, url: URL | str) -> "RunLog | None":
        """Open a log read-only; None if it does not exist, or has another schema version.

        Raises RunLogError if it cannot be reached, or its driver is missing.
        """
        url = _validate_url(url)
        if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
            return None
        log = cls(_make_engine(url))
        return log if log._read_version() == HEAD else None

    def enter(self, project: Entrant) -> None:
        """Select the project of the log. Raises RunLogError if the log refuses it, or has another.

        Nothing is written. A project that is not in the log has no rows; its first transaction
        that writes records it.
        """
        if project == self._entrant:
            return
        found = self.ask(project.find)
        if self._project_id not in (None, found):
            raise RunLogError("this run log was opened for another project")
        self._entrant, self._project_id = project, found

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Begin a transaction that writes: committed at the end, rolled back by an exception.

        Raises RunLogError if the database cannot be used.
        """
        with self._open_connection({_WRITES: True}) as conn, conn.begin():
            if self._entrant is not None and self._project_id is None:
                conn.execution_options(**{PROJECT_ID: self._entrant.record(conn)})
            yield conn

    def write(self, work: Callable[[Connection], T], *, alone: bool = False) -> T:
        """Run `work` in one transaction, and again if a deadlock or a lost connection undid it.

        An unreachable server may come back within `patience`. If the connection is lost during the
        commit, the outcome is unknown: that is a RunLogError, and the lease decides later which
        process goes on. `alone` declares that `work` is a single statement, which PostgreSQL
        commits by itself: that saves two round trips.
        """
        by_itself = alone and self._commits_by_itself
        return self._retry(lambda: self._write_once(work, by_itself=by_itself))

    def ask(self, work: Callable[[Connection], T]) -> T:
        """Read in one transaction; again if the connection is lost, within `patience`."""

        def read_once() -> T:
            with self.read() as conn:
                return work(conn)

        return self._retry(read_once)

    def _retry(self, once: Callable[[], T]) -> T:
        until: float | None = None
        failures = 0
        while True:
            failures += 1
            pause = compute_back_off(failures, _FIRST_PAUSE, _LONGEST_PAUSE)
            try:
                return once()
            except UndoneError:
                time.sleep(pause * random.random())  # noqa: S311 - spreads the victims
            except UnreachableError as error:
                # From the first failure on: a process that was frozen has had no time to try.
                if until is None:
                    until = time.monotonic() + self.patience
                    logger.warning("run_log_away: %s; retried for %g s", error, self.patience)
                if time.monotonic() + pause > until:
                    raise
                time.sleep(pause)

    def _write_once(self, work: Callable[[Connection], T], *, by_itself: bool) -> T:
        commits, began = False, time.monotonic()
        try:
            with self._open_connection(_BY_ITSELF) if by_itself else self.begin() as conn:
                commits = by_itself
                result = work(conn)
                if time.monotonic() - began > _FROZEN_SECONDS:
                    conn.execute(text("SELECT 1"))  # a lost connection fails here, not in COMMIT
                commits = True
        except UnreachableError as error:
            if commits:
                raise RunLogError(f"{error}; the connection was lost during a commit") from None
            raise
        return result

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Begin a transaction that only reads. Raises RunLogError if the database cannot be used.

        On PostgreSQL each statement is a transaction of its own, which saves two round trips: with
        READ COMMITTED it sees the same rows as in a longer transaction.
        """
        with self._open_connection(_BY_ITSELF if self._commits_by_itself else {}) as conn:
            yield conn

    @property
    def _commits_by_itself(self) -> bool:
        """True if a statement without a transaction costs one round trip; others need to ask."""
        return self.engine.dialect.driver == "psycopg"

    @contextmanager
    def _open_connection(self, options: dict[str, Any]) -> Iterator[Connection]:
        try:
            own = self._own_number()
            with self.engine.connect().execution_options(**options, **own) as conn:
                yield conn
        except SQLAlchemyError as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            shown = self.engine.url.render_as_string(hide_password=True)
            kind = UnreachableError if _is_unreachable(error) else RunLogError
            kind = UndoneError if _is_undone(cause) else kind
            raise kind(
                redact(f"cannot use the run log {shown}: {get_driver_message(cause)}")
            ) from None

    def _own_number(self) -> dict[str, int]:
        """Return the option of connections that passes the project to statements."""
        if self._entrant is None:
            return {}
        if self._project_id is None:
            with self.engine.connect() as conn:
                self._project_id = self._entrant.find(conn)
        return {PROJECT_ID: UNRECORDED if self._project_id is None else self._project_id}

    def upgrade(self) -> str:
        """Upgrade the schema, one process at a time, and return the version."""
        from logdriven_dagster.runlog.schema.migrating import upgrade

        def once() -> str:
            with self._open_connection({_WRITES: True}) as conn:
                upgrade(conn)
            return HEAD

        return self._retry(once)

    def _check_version(self) -> str | None:
        """Return the version of the schema; a server that answers with an error is not retried."""
        try:
            return self._read_version()
        except UnreachableError:
            if _can_connect(self.engine):
                return self._read_version()  # it has just come back, or refuses the connection
        return self._retry(self._read_version)

    def _read_version(self) -> str | None:
        with self.read() as conn:
            if not inspect(conn).has_table(VERSION_TABLE):
                return None
            query = text(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 - a constant
            return conn.execute(query).scalar()


class UnreachableError(RunLogError):
    """The error of an unreachable database server, which may come back."""


class UndoneError(RunLogError):
    """The error of a transaction that the database ended: a deadlock, or a frozen process."""


class OvertakenError(UndoneError):
    """The error of a transaction that lost to another one; `write` runs the work again."""


def _is_unreachable(error: SQLAlchemyError) -> bool:
    """Return True if no connection is available, or one was lost; SQLite's file always exists."""
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    cause: Any = error.orig
    if "sqlstate" in dir(cause):
        # psycopg has no state if it got no answer; 57P is a server that stops or starts.
        state = cause.sqlstate
        away = state is None or str(state).startswith(("08", "57P"))
        return away and isinstance(error, OperationalError)
    return bool(cause is not None and cause.args) and cause.args[0] in _MYSQL_AWAY


def _can_connect(engine: Engine) -> bool:
    """Return True if PostgreSQL takes connections; libpq has no code for its refusal of ours."""
    if engine.dialect.driver != "psycopg":
        return False
    from psycopg import conninfo, pq

    _, arguments = engine.dialect.create_connect_args(engine.url)
    given = {name: arguments[name] for name in ("host", "hostaddr", "port") if name in arguments}
    asked = conninfo.make_conninfo(**given, connect_timeout=_ANSWER_SECONDS)
    return pq.PGconn.ping(asked.encode()) == pq.Ping.OK


def _is_undone(cause: BaseException | None) -> bool:
    """Return True if an error's code means an undone transaction.

    MySQL and MariaDB number their errors, PostgreSQL has SQLSTATE.
    """
    number = cause.args[0] if cause is not None and cause.args else None
    return number in (1205, 1213) or getattr(cause, "sqlstate", None) in _UNDONE_STATES


def _validate_url(url: URL | str) -> URL:
    try:
        url = make_url(url)
    except ArgumentError:
        raise RunLogError("the run log's URL is not an SQLAlchemy URL") from None
    remember(url.password)
    return url


def _make_engine(url: URL) -> Engine:
    if url.get_backend_name() not in _DATABASES:
        raise _build_place_error(url)
    try:
        if url.get_backend_name() == "sqlite":
            return _make_sqlite_engine(url)
        # Read committed: the checks of a claim must see rows that other processes have just
        # committed.
        engine = create_engine(
            url, isolation_level="READ COMMITTED", connect_args=build_limits(url)
        )
        _ping_idle_connections(engine)
        return engine
    except ModuleNotFoundError as error:
        raise RunLogError(f"the run log {describe_missing_driver(error)}") from None
    except NoSuchModuleError:
        raise _build_place_error(url) from None


def _ping_idle_connections(engine: Engine) -> None:
    """Ping a server before a connection is used that was idle for some time.

    SQLAlchemy's own ping would be one in six round trips of a window. Work that fails in between is
    repeated by `write` and `ask`.
    """

    @event.listens_for(engine, "checkin")
    def note(_connection: Any, record: ConnectionPoolEntry) -> None:
        record.info[_USED_AT] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def ping(connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
        used_at = record.info.get(_USED_AT)
        if used_at is None or time.monotonic() - used_at < _IDLE_SECONDS:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise InvalidatePoolError(get_driver_message(error)) from None


def _build_place_error(url: URL) -> RunLogError:
    known = f"{', '.join(_DATABASES[:-1])} or {_DATABASES[-1]}"
    return RunLogError(f"the run log cannot be stored in {url.drivername}; use {known}")


def _make_sqlite_engine(url: URL) -> Engine:
    arguments: dict[str, Any] = {"timeout": _BUSY_SECONDS}
    if not url.database or url.database == ":memory:":
        # An in-memory database exists for one connection, so all threads take turns with it.
        one = {"poolclass": QueuePool, "pool_size": 1, "max_overflow": 0}
        engine = create_engine(url, connect_args=arguments | {"check_same_thread": False}, **one)
    else:
        try:
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunLogError(f"could not create the run log's folder: {error}") from None
        engine = create_engine(url, connect_args=arguments)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # BEGIN is issued below
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
