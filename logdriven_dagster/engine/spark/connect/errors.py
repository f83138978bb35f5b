"""Causes of a Spark Connect error, as the server reports them."""

from typing import Any

from logdriven_dagster.engine.spark.errors import JvmException

_LOST = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED"})
"""gRPC status codes of a lost server or connection."""

_FORGOTTEN = ("INVALID_HANDLE.", "INVALID_CURSOR.", "NO_ACTIVE_SESSION")
"""Conditions of a server that was restarted, or that stopped waiting for this client."""

_SESSION_GONE = ("INVALID_HANDLE.SESSION_", "NO_ACTIVE_SESSION")
"""Conditions of a session that can no longer be used: PySpark's client closes it then."""


def causes(error: BaseException) -> tuple[JvmException, ...]:
    """Return the exceptions behind a Spark Connect error, outermost first."""
    from logdriven_dagster.engine.spark.connect.channels import details_of

    return _chain(details_of(error)) or (_of_grpc(error),)


def _chain(details: Any) -> tuple[JvmException, ...]:
    if details is None or not details.HasField("root_error_idx"):
        return ()
    chain: list[JvmException] = []
    index = details.root_error_idx
    while len(chain) < len(details.errors):
        entry = details.errors[index]
        spark = entry.spark_throwable
        fragments = [c.fragment for c in spark.query_contexts if c.context_type == c.SQL]
        chain.append(
            JvmException(
                tuple(entry.error_type_hierarchy),
                entry.message,
                spark.error_class or None,
                spark.sql_state or None,
                parameters=dict(spark.message_parameters),
                fragment=fragments[0] if fragments else "",
            )
        )
        if not entry.HasField("cause_idx"):
            break
        index = entry.cause_idx
    return tuple(chain)


def session_is_lost(error: BaseException) -> bool:
    """Return whether the server no longer answers, or was restarted and lost the session."""
    untyped: Any = error
    unanswered = hasattr(error, "getGrpcStatusCode") and untyped.getGrpcStatusCode() is not None
    if unanswered and untyped.getGrpcStatusCode().name == "UNAVAILABLE":
        return True
    return (_condition(error) or "").startswith(_SESSION_GONE)


def _of_grpc(error: Any) -> JvmException:
    """Convert an error without a chain: the server did not answer, or lost the session."""
    code = error.getGrpcStatusCode().name if hasattr(error, "getGrpcStatusCode") else ""
    condition = _condition(error)
    gone = code in _LOST or (condition or "").startswith(_FORGOTTEN)
    types = ("java.net.SocketException",) if gone else (type(error).__name__,)
    return JvmException(types, str(error), condition)


def _condition(error: Any) -> str | None:
    known: str | None = error.getCondition() if hasattr(error, "getCondition") else None
    return known
