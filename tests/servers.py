"""Fixtures: an empty database on each kind of server that a run log may live on."""

import os
import ssl
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pymysql.connections import Connection
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.engine import Connection as SqlConnection

from scripts import servers
from tests.memory import temporary_folder
from tests.needs import require

_NAMES = {"postgresql": "LOGDRIVEN_TEST_POSTGRES", "mariadb": "LOGDRIVEN_TEST_MARIADB"}
KINDS = ("sqlite", *_NAMES)
NEW_DATABASE = r"t[0-9a-f]{12}"
"""What databases of single tests are called."""
Started = TypeVar("Started")


@pytest.fixture(scope="session")
def server_urls() -> Iterator[dict[str, str]]:
    """URLs of the servers: those of the environment, or private ones for this session."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Connection, "_create_ssl_ctx", _tls_context)
        if all(name in os.environ for name in _NAMES.values()):
            yield {name: os.environ[name] for name in _NAMES.values()}
            _disconnect()
            return
        with _private("servers", servers.start) as (_, urls):
            yield urls
            _disconnect()


def _tls_context(connection: Connection, options: dict[str, Any]) -> ssl.SSLContext:
    """Make the context that names no options once: PyMySQL reads all certificates for each."""
    return _new_tls_context(connection, options) if options else _plain_tls_context()


@cache
def _plain_tls_context() -> ssl.SSLContext:
    return _new_tls_context(None, {})


_new_tls_context: Callable[..., ssl.SSLContext] = Connection._create_ssl_ctx


@pytest.fixture
def restartable_postgres() -> Iterator[tuple[str, Callable[[], None]]]:
    """The URL of a PostgreSQL server of one's own, and how to restart it."""
    with _private("restarted", servers.start_postgres) as (root, url):
        yield url, lambda: servers.restart(root, url)


@contextmanager
def _private(name: str, start: Callable[[Path], Started]) -> Iterator[tuple[Path, Started]]:
    """A folder with what was started in it; its tests are skipped where the package is missing."""
    require("database")
    root = server_folder(name)
    try:
        yield root, start(root)
    except servers.MissingServerError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    finally:
        servers.stop(root)


def server_folder(name: str) -> Path:
    """Where a private server's data lie.

    Not below pytest's folder: the servers' own accounts may not enter it.
    """
    return temporary_folder() / f"logdriven-{name}-{os.getpid()}"


_administrations: dict[URL, Engine] = {}


def administration(url: URL) -> Engine:
    """Return an engine whose connection to the server makes and drops databases, and stays open."""
    if url not in _administrations:
        _administrations[url] = create_engine(
            url, isolation_level="AUTOCOMMIT", pool_size=1, pool_pre_ping=True
        )
    return _administrations[url]


def copy_files(conn: SqlConnection) -> str:
    """Return the clause by which PostgreSQL copies the files of a database, its only way before 15.

    It is faster than to write the pages to its log, on a server that waits for no disk.
    """
    newer = (conn.dialect.server_version_info or ()) >= (15,)
    return " STRATEGY FILE_COPY" if newer else ""


def _disconnect() -> None:
    """Close the connections that make and drop databases."""
    while _administrations:
        _administrations.popitem()[1].dispose()


@contextmanager
def new_database(beside: str | URL) -> Iterator[URL]:
    """An empty database on a server, which goes with what is in it: thousands fill a disk."""
    url = make_url(beside)
    name = f"t{uuid.uuid4().hex[:12]}"
    engine = administration(url)
    is_postgres = url.get_backend_name() == "postgresql"
    with engine.connect() as conn:
        copied = copy_files(conn) if is_postgres else ""
        conn.execute(text(f"CREATE DATABASE {name}{copied}"))
    yield url.set(database=name)
    # PostgreSQL ends the connections that a test left open only if the statement asks for it.
    force = " WITH (FORCE)" if is_postgres else ""
    with engine.connect() as conn:
        conn.execute(text(f"DROP DATABASE {name}{force}"))


@contextmanager
def database_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[URL]:
    """An empty database: a file in that folder, or one on a server, which starts when needed."""
    if kind == "sqlite":
        yield make_url(f"sqlite:///{folder}/run_log.db")
        return
    require("database")
    with new_database(request.getfixturevalue("server_urls")[_NAMES[kind]]) as url:
        yield url


@pytest.fixture(params=KINDS)
def database_url(request, tmp_path) -> Iterator[URL]:
    """An empty database of each kind in turn."""
    with database_of(request.param, request, tmp_path) as url:
        yield url


@pytest.fixture
def postgres_url(server_urls) -> Iterator[URL]:
    """An empty PostgreSQL database."""
    with new_database(server_urls[_NAMES["postgresql"]]) as url:
        yield url


@pytest.fixture
def mariadb_url(server_urls) -> Iterator[URL]:
    """An empty MariaDB database."""
    with new_database(server_urls[_NAMES["mariadb"]]) as url:
        yield url
