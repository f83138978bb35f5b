"""Connections: one SQLAlchemy URL, from which Spark's JDBC URL, driver and options follow."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from logdriven_dagster.config.documents import Document, Location
from logdriven_dagster.config.models import ConnectionConfig, ProjectConfig, TableConfig
from logdriven_dagster.config.secrets import (
    SECRET_NAME,
    environment_names,
    plain_url_password,
    remember,
    resolve_environment,
    resolve_secret,
)
from logdriven_dagster.config.steps import Option
from logdriven_dagster.errors import ConfigError, UsageError

_JDBC = {
    "postgresql": ("postgresql", "org.postgresql.Driver"),
    # MariaDB's own scheme makes Spark read column names as values (DESIGN §9).
    "mysql": ("mysql", "org.mariadb.jdbc.Driver"),
    "mariadb": ("mysql", "org.mariadb.jdbc.Driver"),
}
_PREFERRED = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
"""The drivers that our extras install, for URLs that name none."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A database for SQLAlchemy and for Spark. Its text never shows the password."""

    name: str
    url: URL
    jdbc_url: str
    driver: str
    options: dict[str, str] = field(repr=False)
    """Spark's JDBC options, user and password among them."""


def database_url(text: str, root: Path) -> URL:
    """An SQLAlchemy URL with its secrets resolved and remembered, and a driver that we install.

    A relative SQLite file lies in `root`. UsageError for a missing variable or a malformed URL.
    """
    try:
        with _missing_variables():
            url = make_url(resolve_environment(text))
    except (ArgumentError, ValueError):
        raise UsageError("not an SQLAlchemy URL, such as postgresql://user@host/name") from None
    remember(url.password)
    for name, value in url.query.items():
        if SECRET_NAME.search(name) and isinstance(value, str):
            remember(value)
    if url.drivername in _PREFERRED:
        url = url.set(drivername=_PREFERRED[url.drivername])
    memory = not url.database or url.database == ":memory:"
    if url.get_backend_name() == "sqlite" and not memory:
        url = url.set(database=str(root / str(url.database)))
    return url


def open_connection(name: str, config: ConnectionConfig, root: Path) -> Connection:
    """The connection with its secrets from the environment; UsageError says what is missing."""
    if config.url is None:
        raise UsageError(f"connection {name}: it leads to Kafka, not to a database")
    try:
        url = database_url(config.url, root)
        options = _resolved(config.jdbc.options)
    except UsageError as error:
        raise UsageError(f"connection {name}: {error}") from None
    jdbc_url, driver = _jdbc(url)
    if not (config.jdbc.url or jdbc_url) or not (config.jdbc.driver or driver):
        fix = "give jdbc.url and jdbc.driver"
        raise UsageError(f"connection {name}: no JDBC driver is known for it; {fix}")
    credentials = {"user": url.username, "password": url.password}
    options = {key: value for key, value in credentials.items() if value} | options
    return Connection(name, url, config.jdbc.url or jdbc_url, config.jdbc.driver or driver, options)


def kafka_settings(name: str, config: ConnectionConfig) -> dict[str, str]:
    """Settings of librdkafka with secrets from the environment; UsageError says what is missing."""
    if config.kafka is None:
        raise UsageError(f"connection {name}: it leads to a database, not to Kafka")
    try:
        return _resolved(config.kafka)
    except UsageError as error:
        raise UsageError(f"connection {name}: {error}") from None


def _resolved(options: Mapping[str, Option]) -> dict[str, str]:
    with _missing_variables():
        return {
            key: (resolve_secret if SECRET_NAME.search(key) else resolve_environment)(_text(value))
            for key, value in options.items()
        }


@contextmanager
def _missing_variables() -> Iterator[None]:
    """A variable that the environment lacks is a UsageError."""
    try:
        yield
    except KeyError as missing:
        raise UsageError(f"the environment variable {missing.args[0]} is not set") from None


def _jdbc(url: URL) -> tuple[str, str]:
    backend = url.get_backend_name()
    if backend == "sqlite":
        return f"jdbc:sqlite:{url.database}", "org.sqlite.JDBC"
    if backend not in _JDBC:
        return "", ""
    scheme, driver = _JDBC[backend]
    port = f":{url.port}" if url.port else ""
    suffix = "?permitMysqlScheme" if scheme == "mysql" else ""
    return f"jdbc:{scheme}://{url.host or 'localhost'}{port}/{url.database or ''}{suffix}", driver


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def plain_secrets(document: Document, config: ProjectConfig) -> Iterator[ConfigError]:
    """Secrets written into `logdriven.yaml` instead of taken from the environment."""
    urls: list[tuple[Location, str]] = [(("run_log",), config.run_log)]
    urls += [(("catalog",), config.catalog)] if config.catalog else []
    options: list[tuple[Location, str, object]] = [
        (("spark", "config"), key, value) for key, value in config.spark.config.items()
    ]
    for group, properties in config.properties.items():
        options += [(("properties", group), key, value) for key, value in properties.items()]
    for name, connection in config.connections.items():
        place: Location = ("connections", name)
        urls += [((*place, "url"), connection.url)] if connection.url else []
        kafka = (connection.kafka or {}).items()
        options += [((*place, "kafka"), key, value) for key, value in kafka]
        urls += [((*place, "jdbc", "url"), connection.jdbc.url)] if connection.jdbc.url else []
        jdbc = connection.jdbc.options.items()
        options += [((*place, "jdbc", "options"), key, value) for key, value in jdbc]
    for location, url in urls:
        if plain_url_password(url):
            remember_plain(url)
            yield document.error(location, "a password in plain text", _fix("PASSWORD"))
    for location, key, value in options:
        yield from _plain_secret(document, location, key, value)


def secret_properties(table: TableConfig, document: Document) -> Iterator[ConfigError]:
    """Secrets written into the properties that a table's own file gives."""
    for group, keys in table.properties.items():
        for key, value in keys.items():
            if ("properties", group, key) in document.lines:
                yield from _plain_secret(document, ("properties", group), key, value)


def _plain_secret(
    document: Document, location: Location, key: str, value: object
) -> Iterator[ConfigError]:
    """The mistake of an option whose name says that it is a secret, and that is written out."""
    if SECRET_NAME.search(key) and not environment_names(str(value)):
        remember(str(value))
        name = re.sub(r"\W+", "_", key).upper()
        yield document.error((*location, key), "a secret in plain text", _fix(name))


def remember_plain(url: str) -> None:
    """Hide the password of a URL that must not have held one."""
    try:
        remember(make_url(url).password)
    except ArgumentError:
        remember(url)


def _fix(name: str) -> str:
    return f"write ${{env:{name}}} and set {name} in the environment"
