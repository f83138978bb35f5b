"""What a Spark Connect server knows of an error, which PySpark tells as text only.

The server sends the chain of causes with all types of each. PySpark makes one exception of it and
drops the rest, but whether an attempt is worth repeating is decided by types.
"""

from functools import wraps
from threading import local
from typing import Any

from logdriven_dagster.engine.spark.jvm_errors import Thrown

_ATTRIBUTE = "_logdriven_causes"

_LOST = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED"})
"""States of gRPC in which the server, or the way to it, is gone."""

_FORGOTTEN = ("INVALID_HANDLE.", "INVALID_CURSOR.")
"""Conditions of a server that was started anew, or that gave up waiting for us."""


def keep_causes(client: Any) -> None:
    """Let the errors of a Connect client carry what `causes` returns."""
    fetch, raise_ = client._fetch_enriched_error, client._handle_rpc_error  # noqa: SLF001
    fetched = local()

    @wraps(fetch)
    def fetching(info: Any) -> Any:
        fetched.details = fetch(info)
        return fetched.details

    @wraps(raise_)
    def raising(rpc_error: Any) -> Any:
        fetched.details = None
        try:
            raise_(rpc_error)
        except Exception as error:
            setattr(error, _ATTRIBUTE, _chain(fetched.details) or (_of_grpc(error),))
            raise

    client._fetch_enriched_error, client._handle_rpc_error = fetching, raising  # noqa: SLF001


def causes(error: BaseException) -> tuple[Thrown, ...]:
    """The exceptions behind one of Connect, outermost first."""
    known: tuple[Thrown, ...] | None = getattr(error, _ATTRIBUTE, None)
    return known or (_of_grpc(error),)


def _chain(details: Any) -> tuple[Thrown, ...]:
    if details is None or not details.HasField("root_error_idx"):
        return ()
    chain: list[Thrown] = []
    index = details.root_error_idx
    while len(chain) < len(details.errors):
        told = details.errors[index]
        spark = told.spark_throwable
        fragments = [c.fragment for c in spark.query_contexts if c.context_type == c.SQL]
        chain.append(
            Thrown(
                tuple(told.error_type_hierarchy),
                told.message,
                spark.error_class or None,
                spark.sql_state or None,
                parameters=dict(spark.message_parameters),
                fragment=fragments[0] if fragments else "",
            )
        )
        if not told.HasField("cause_idx"):
            break
        index = told.cause_idx
    return tuple(chain)


def _of_grpc(error: Any) -> Thrown:
    """An error without a chain: the server did not answer, or does not know us any more."""
    code = getattr(getattr(error, "_grpc_status_code", None), "name", "")
    condition = _condition(error)
    gone = code in _LOST or (condition or "").startswith(_FORGOTTEN)
    types = ("java.net.SocketException",) if gone else (type(error).__name__,)
    return Thrown(types, str(error), condition)


def _condition(error: Any) -> str | None:
    known: str | None = error.getCondition() if hasattr(error, "getCondition") else None
    return known
