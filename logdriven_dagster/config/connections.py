"""Connections: a SQLAlchemy URL, from which Spark's JDBC URL, driver and options are derived."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from logdriven_dagster.config.models.frozen import Option
from logdriven_dagster.config.models.types.connections import ConnectionConfig, ConnectionType
from logdriven_dagster.config.secrets import (
    find_references,
    names_secret,
    remember,
    resolve,
)
from logdriven_dagster.errors import UsageError

_JDBC = {
    "postgresql": ("postgresql", "org.postgresql.Driver"),
    # With MariaDB's own URL scheme, Spark would read column names instead of values.
    "mysql": ("mysql", "org.mariadb.jdbc.Driver"),
    "mariadb": ("mysql", "org.mariadb.jdbc.Driver"),
}
_SQLITE_DRIVER = "org.sqlite.JDBC"
_PREFERRED = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
"""Drivers that the package's extras install, for URLs that name none."""
_EXTRAS = {"psycopg": "postgres", "pymysql": "mysql", "MySQLdb": "mysql"}
"""Module of a driver → the extra that installs one for its database."""
_PARTS = ("username", "password", "host", "port", "database")
_STAND_IN = "90071992547"
"""Placeholder digits, which are valid in every part of a URL."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A database for SQLAlchemy and for Spark. Its repr never shows the password."""

    name: str
    url: URL
    jdbc_url: str
    driver: str
    options: dict[str, str] = field(repr=False)
    """Spark's JDBC options, including user and password."""


def build_database_url(text: str, root: Path) -> URL:
    """Return a SQLAlchemy URL with its secrets resolved and registered for redaction.

    A URL without a driver gets one that the package installs, and a relative SQLite path is
    resolved against `root`. Raises UsageError for a missing variable or a malformed URL.
    """
    try:
        url = _parse_url(text)
    except (ArgumentError, ValueError):
        raise UsageError("not an SQLAlchemy URL, such as postgresql://user@host/name") from None
    remember(url.password)
    for name, value in url.query.items():
        if names_secret(name) and isinstance(value, str):
            remember(value)
    if url.drivername in _PREFERRED:
        url = url.set(drivername=_PREFERRED[url.drivername])
    memory = not url.database or url.database == ":memory:"
    if url.get_backend_name() == "sqlite" and not memory:
        url = url.set(database=str(root / str(url.database)))
    return url


def describe_missing_driver(error: ImportError) -> str:
    """Return a sentence without its subject: the package that a driver lacks, and the command."""
    extra = _EXTRAS.get(str(error.name).partition(".")[0])
    fix = f"run `pip install 'logdriven_dagster[{extra}]'`" if extra else f"install it ({error})"
    return f"needs the package {error.name}; {fix}"


def _parse_url(text: str) -> URL:
    """Parse the URL first and resolve its secrets afterwards, so that they may hold any character.

    A URL that is a single reference is parsed after resolving; its password must be
    percent-encoded. Raises UsageError if it is not.
    """
    if not re.match(r"[\w+]+://", text):
        url = make_url(resolve(text))
        if "@" in f"{url.host}{'' if url.get_backend_name() == 'sqlite' else url.database}":
            fix = "write an @ in it as %40"
            raise UsageError(f"the URL's password must be percent-encoded: {fix}")
        return url
    stand_ins = {f"{_STAND_IN}{n:03}": given for n, given in enumerate(find_references(text))}
    for number, given in stand_ins.items():
        text = text.replace(given, number, 1)
    url = make_url(text)

    def resolve_text(part: object, name: str = "") -> str:
        found = str(part)
        for number, given in stand_ins.items():
            if number in found:
                found = found.replace(number, resolve(given, name))
        return found

    parts: dict[str, Any] = {name: getattr(url, name) for name in _PARTS}
    filled: dict[str, Any] = {k: resolve_text(v, k) for k, v in parts.items() if v is not None}
    filled["port"] = int(filled["port"]) if "port" in filled else None
    query = {k: resolve_text(v, k) if isinstance(v, str) else v for k, v in url.query.items()}
    return URL.create(url.drivername, **filled, query=query)


def open_connection(name: str, config: ConnectionConfig, root: Path) -> Connection:
    """Return the connection with its secrets resolved from the environment.

    `name` is used in errors; a relative SQLite path is resolved against `root`. Raises UsageError
    for a missing secret.
    """
    try:
        url = build_database_url(config.url, root)
        options = _resolve_options(config.jdbc.options)
        jdbc_given = resolve(config.jdbc.url or "")
    except UsageError as error:
        raise UsageError(f"connection {name}: {error}") from None
    jdbc_url, driver = _build_jdbc_url(url)
    if not (jdbc_given or jdbc_url) or not (config.jdbc.driver or driver):
        fix = "give jdbc.url and jdbc.driver"
        raise UsageError(f"connection {name}: its JDBC driver is unknown; {fix}")
    credentials = {"user": url.username, "password": url.password}
    options = {key: value for key, value in credentials.items() if value} | options
    return Connection(name, url, jdbc_given or jdbc_url, config.jdbc.driver or driver, options)


def find_driver(config: ConnectionConfig) -> str | None:
    """Return the JDBC driver of a connection, or None if it cannot be derived without secrets."""
    if config.jdbc.driver:
        return config.jdbc.driver
    url = config.url
    with suppress(UsageError):
        url = resolve(url)
    backend = re.split(r"[+:]", url, maxsplit=1)[0]
    if backend == "sqlite":
        return _SQLITE_DRIVER
    return _JDBC[backend][1] if backend in _JDBC else None


def get_url(config: ConnectionType | None) -> str | None:
    """Return the URL of a connection to a database, as its file has it; None for other ones."""
    return config.url if isinstance(config, ConnectionConfig) else None


def resolve_connection_settings(name: str, config: ConnectionType) -> dict[str, Any]:
    """Return the fields of a connection, with their secrets from the environment.

    Raises UsageError, which names the missing variable.
    """
    try:
        return {key: _resolve_texts(value, key) for key, value in config.model_dump().items()}
    except UsageError as error:
        raise UsageError(f"connection {name}: {error}") from None


def _resolve_texts(value: Any, name: str) -> Any:
    """Resolve the texts of a value at any depth."""
    if isinstance(value, str):
        return resolve(value, name)
    if isinstance(value, dict):
        return {key: _resolve_texts(each, str(key)) for key, each in value.items()}
    return (
        [_resolve_texts(each, name) for each in value]
        if isinstance(value, (list, tuple))
        else value
    )


def _resolve_options(options: Mapping[str, Option]) -> dict[str, str]:
    return {key: resolve(_format_text(value), key) for key, value in options.items()}


def _build_jdbc_url(url: URL) -> tuple[str, str]:
    backend = url.get_backend_name()
    if backend == "sqlite":
        return f"jdbc:sqlite:{url.database}", _SQLITE_DRIVER
    if backend not in _JDBC:
        return "", ""
    scheme, driver = _JDBC[backend]
    port = f":{url.port}" if url.port else ""
    suffix = "?permitMysqlScheme" if scheme == "mysql" else ""
    return f"jdbc:{scheme}://{url.host or 'localhost'}{port}/{url.database or ''}{suffix}", driver


def _format_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
