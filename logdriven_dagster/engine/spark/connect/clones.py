"""Cloned sessions, which share the code that Spark compiles for its queries.

A server loads the code that it generates for a query with a class loader of the session, to isolate
code that sessions add. Each new session therefore compiles all of its code again, and runs it cold.
Settings decide this when a session is created, before a client can set them. A clone starts with
the settings of its template.
"""

import atexit
from collections.abc import Callable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

import grpc

from logdriven_dagster.engine.spark.connect.internals import share_compression

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ONE_CLASS_LOADER = {
    "spark.sql.artifact.isolation.enabled": "false",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "false",
}
"""Settings for sessions that add no code, which need no class loader of their own."""

_templates: "WeakKeyDictionary[SparkSession, dict[frozenset[tuple[str, str]], SparkSession]]"
_templates = WeakKeyDictionary()
"""The process's session on a server → settings → an idle session to clone."""
_unable: "WeakSet[SparkSession]" = WeakSet()
"""Sessions on servers that cannot clone: those before Spark 4.1."""
_lock = Lock()


def clone(
    spark: "SparkSession",
    settings: Mapping[str, str],
    made: "Callable[[Mapping[str, str]], SparkSession]",
) -> "SparkSession | None":
    """Return a session with these settings, for work that adds no code to the server.

    `made` creates a session with the settings that it is given. Returns None if the server cannot
    clone sessions.
    """
    if spark in _unable or not hasattr(spark, "cloneSession"):
        return None
    with _lock:
        known = _templates.setdefault(spark, {})
        key = frozenset(settings.items())
        if key not in known:
            known[key] = _template(made({**settings, **_ONE_CLASS_LOADER}))
        try:
            template: Any = known[key]
            cloned: SparkSession = template.cloneSession()
            share_compression(template, cloned)
        except Exception as error:  # noqa: BLE001 - gRPC and PySpark have no common type
            # The server may have dropped the template or be gone: a new session then reports it.
            atexit.unregister(known.pop(key).stop)
            if getattr(error, "code", lambda: None)() is grpc.StatusCode.UNIMPLEMENTED:
                _unable.add(spark)
            return None
    return cloned


def _template(session: "SparkSession") -> "SparkSession":
    """Release the session at exit, without retries if the server is gone."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    untyped: Any = session
    untyped.client.set_retry_policies([DefaultPolicy(max_retries=0)])
    # A server keeps abandoned sessions for hours.
    atexit.register(session.stop)
    return session
