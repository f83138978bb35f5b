"""Timeouts of database connections, so that no process waits forever for a lost peer.

A process may be frozen inside a transaction, a host may lose power, a network may fail. Timeouts
are driver arguments: for SQLAlchemy's `connect_args`, or as text in a URL's query.
"""

from typing import Any

from sqlalchemy.engine import URL

IDLE_SECONDS = 15
"""Seconds after which a server ends an idle transaction, since its runner is frozen."""
LOCK_SECONDS = 30
"""Seconds that a statement waits for locks; longer than a frozen runner can hold them."""

_CONNECT_SECONDS = 10
_SILENCE_SECONDS = 30
"""Seconds without acknowledgement after which a peer counts as lost."""
_ANSWER_SECONDS = 120
"""Seconds that PyMySQL waits for the answer to a statement that is known to be short."""


def build_limits(url: URL, *, idle: int = IDLE_SECONDS, lock: int = LOCK_SECONDS) -> dict[str, Any]:
    """Return driver arguments that limit idle transactions and lock waits.

    `idle` and `lock` are in seconds. For the run log and the catalog, whose statements are short.
    Options in the URL take precedence.
    """
    if _is_libpq(url):
        ours = f"-c idle_in_transaction_session_timeout={idle}s -c lock_timeout={lock}s"
        options = f"{ours} {url.query.get('options', '')}".rstrip()  # libpq uses the last one
        return keep_alive(url) | {"options": options}
    if _is_mysql(url):
        # A statement only to MariaDB, a comment to MySQL, which has no such timeout.
        of_mariadb = f"/*M!, SESSION idle_transaction_timeout = {idle} */"
        locks = f"innodb_lock_wait_timeout = {lock}, SESSION lock_wait_timeout = {lock}"
        ours = f"SET SESSION {locks} {of_mariadb}"
        return keep_alive(url) | _filter_unset(url, read_timeout=_ANSWER_SECONDS, init_command=ours)
    return keep_alive(url)


def keep_alive(url: URL) -> dict[str, Any]:
    """Return driver arguments with which a connection detects a lost server.

    SQLite connections wait for other writers of the file. PostgreSQL's detect a lost host within a
    minute. PyMySQL relies on the system's TCP keep-alive, since it cannot distinguish a lost host
    from a slow statement.
    """
    if _is_libpq(url):
        return _filter_unset(
            url,
            connect_timeout=_CONNECT_SECONDS,
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=4,
            tcp_user_timeout=_SILENCE_SECONDS * 1000,
        )
    if url.get_backend_name() == "sqlite":
        return _filter_unset(url, timeout=LOCK_SECONDS)
    return _filter_unset(url, connect_timeout=_CONNECT_SECONDS) if _is_mysql(url) else {}


def _filter_unset(url: URL, **given: int | str) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in url.query}


def _is_libpq(url: URL) -> bool:
    return url.drivername in ("postgresql", "postgresql+psycopg", "postgresql+psycopg2")


def _is_mysql(url: URL) -> bool:
    return url.drivername.endswith(("+pymysql", "+mysqldb"))
