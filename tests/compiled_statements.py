"""One cache of compiled SQL for all SQLite databases of a process of tests.

SQLAlchemy keeps compiled statements per engine. Each test has a run log and a Dagster instance of
its own, hence engines of its own: compiling the same statements for each of them took a fifth of
the time of the tests that need no Spark.
"""

from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite as Dialect
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.util import LRUCache

_STATEMENTS = 2000

_compiled: LRUCache[Any, Any] = LRUCache(_STATEMENTS)


def _share_cache(conn: Connection) -> None:
    if isinstance(conn.dialect, Dialect):
        conn.engine._compiled_cache = _compiled


def pytest_configure(config: pytest.Config) -> None:
    """Share the cache; its keys contain the dialect, so all dialects of SQLite are equal."""
    patched = pytest.MonkeyPatch()
    patched.setattr(Dialect, "__eq__", lambda _, other: isinstance(other, Dialect))
    patched.setattr(Dialect, "__hash__", lambda _: hash(Dialect))
    config.add_cleanup(patched.undo)
    event.listen(Engine, "engine_connect", _share_cache)
    config.add_cleanup(lambda: event.remove(Engine, "engine_connect", _share_cache))
