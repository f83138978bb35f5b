"""Sessions that are cloned, so that they share the code that Spark compiles for its queries.

A server loads what it generates for a query by a class loader of the session, to keep apart what
sessions add to it: each new session compiles all of its code anew, and starts it cold. That is
decided when a session is made, by settings that nobody can give it before. A clone has those of
its template from the beginning.
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
"""What no session adds needs no class loader of its own."""

_templates: "WeakKeyDictionary[SparkSession, dict[frozenset[tuple[str, str]], SparkSession]]"
_templates = WeakKeyDictionary()
"""The process's session on a server → settings → a session that nothing works in."""
_unable: "WeakSet[SparkSession]" = WeakSet()
"""Sessions on servers that cannot clone: those before Spark 4.1."""
_lock = Lock()


def clone(
    spark: "SparkSession",
    settings: Mapping[str, str],
    made: "Callable[[Mapping[str, str]], SparkSession]",
) -> "SparkSession | None":
    """Return a session with these settings, for work that adds no code to the server.

    None where that cannot be had. `made` makes a session with the settings that it is given.
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
            # The server may have forgotten it, or be gone: then a new session says so.
            atexit.unregister(known.pop(key).stop)
            if getattr(error, "code", lambda: None)() is grpc.StatusCode.UNIMPLEMENTED:
                _unable.add(spark)
            return None
    return cloned


def _template(session: "SparkSession") -> "SparkSession":
    """Have it released at exit, and never wait for a server that is gone."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    untyped: Any = session
    untyped.client.set_retry_policies([DefaultPolicy(max_retries=0)])
    # A server keeps what its clients leave behind for hours.
    atexit.register(session.stop)
    return session
