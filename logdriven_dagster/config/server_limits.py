"""Limits of connections to databases, so that nobody waits for ever for what is gone.

A process may be frozen inside a transaction, a host may lose its power, a network may be cut.
Limits are arguments of the drivers: for SQLAlchemy's `connect_args`, or as text in a URL's query.
"""

from typing import Any

from sqlalchemy.engine import URL

IDLE_SECONDS = 15
"""A server ends a transaction that does nothing for so long: its runner is frozen."""
LOCK_SECONDS = 30
"""A statement waits so long for the locks of others, longer than a frozen one may keep them."""

_CONNECT_SECONDS = 10
_SILENCE_SECONDS = 30
"""A peer that acknowledges nothing for so long is gone."""
_ANSWER_SECONDS = 120
"""How long PyMySQL waits for an answer to a statement that is known to be short."""


def limits(url: URL, *, idle: int = IDLE_SECONDS, lock: int = LOCK_SECONDS) -> dict[str, Any]:
    """Arguments with which idle transactions end, and statements give up waiting for locks.

    For the run log and the catalog, whose statements are short. What the URL says itself wins.
    """
    if _is_libpq(url):
        ours = f"-c idle_in_transaction_session_timeout={idle}s -c lock_timeout={lock}s"
        options = f"{ours} {url.query.get('options', '')}".rstrip()  # the last one counts
        return keep_alive(url) | {"options": options}
    if _is_mysql(url):
        # The comment is a statement to MariaDB alone; MySQL has no such limit.
        of_mariadb = f"/*M!, SESSION idle_transaction_timeout = {idle} */"
        locks = f"innodb_lock_wait_timeout = {lock}, SESSION lock_wait_timeout = {lock}"
        ours = f"SET SESSION {locks} {of_mariadb}"
        return keep_alive(url) | _unsaid(url, read_timeout=_ANSWER_SECONDS, init_command=ours)
    return keep_alive(url)


def keep_alive(url: URL) -> dict[str, Any]:
    """Arguments with which a connection notices that the server's host is gone.

    SQLite's waits for whoever writes to the file, as statements wait for the locks of a server.
    PostgreSQL's does within a minute. PyMySQL leaves it to the system's keep-alive, since it cannot
    tell a lost host from a statement that takes long.
    """
    if _is_libpq(url):
        return _unsaid(
            url,
            connect_timeout=_CONNECT_SECONDS,
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=4,
            tcp_user_timeout=_SILENCE_SECONDS * 1000,
        )
    if url.get_backend_name() == "sqlite":
        return _unsaid(url, timeout=LOCK_SECONDS)
    return _unsaid(url, connect_timeout=_CONNECT_SECONDS) if _is_mysql(url) else {}


def _unsaid(url: URL, **given: int | str) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in url.query}


def _is_libpq(url: URL) -> bool:
    return url.drivername in ("postgresql", "postgresql+psycopg", "postgresql+psycopg2")


def _is_mysql(url: URL) -> bool:
    return url.drivername.endswith(("+pymysql", "+mysqldb"))
