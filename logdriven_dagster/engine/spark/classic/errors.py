"""Exceptions behind an error of a classic session, read from its JVM."""

from collections.abc import Iterator
from typing import Any

from logdriven_dagster.engine.spark.classic import internals
from logdriven_dagster.engine.spark.errors import JvmException

_LONGEST_CHAIN = 20
_OF_A_WORKER = "org.apache.spark.api.python.PythonException"


def causes(error: BaseException) -> tuple[JvmException, ...]:
    """Return the exceptions behind an error, outermost first."""
    from pyspark.errors import PythonException

    thrown = internals.java_error(error)
    if thrown is None and isinstance(error, PythonException):
        # PySpark 4.0 keeps the text of a worker's exception, but not the exception.
        return (JvmException((_OF_A_WORKER,), str(error)),)
    return tuple(map(_of_java, _causes(thrown)))


def _causes(throwable: Any) -> Iterator[Any]:
    for _ in range(_LONGEST_CHAIN):
        if throwable is None:
            return
        yield throwable
        throwable = throwable.getCause()


def _of_java(throwable: Any) -> JvmException:
    types = tuple(_types(throwable))
    message = str(throwable.getMessage() or "")
    if "java.sql.SQLException" in types:
        return JvmException(types, message, None, throwable.getSQLState(), throwable.getErrorCode())
    if not _is_sparks(throwable):
        return JvmException(types, message)
    contexts = [c for c in throwable.getQueryContext() if c.contextType().toString() == "SQL"]
    return JvmException(
        types,
        message,
        throwable.getCondition(),
        parameters=_as_dict(throwable.getMessageParameters()),
        fragment=contexts[0].fragment() if contexts else "",
    )


def _as_dict(java_map: Any) -> dict[str, str]:
    """Copy a Java map. Iterating over it in Python ends with a Java exception and takes 40 ms."""
    return {name: java_map.get(name) for name in java_map.keySet().toArray()}


def _is_sparks(throwable: Any) -> bool:
    """Return whether an exception has Spark's condition and message parameters."""
    from py4j.java_gateway import is_instance_of

    gateway = internals.gateway()
    return gateway is not None and is_instance_of(
        gateway, throwable, "org.apache.spark.SparkThrowable"
    )


def _types(throwable: Any) -> Iterator[str]:
    kind = throwable.getClass()
    while kind is not None:
        yield kind.getName()
        kind = kind.getSuperclass()
