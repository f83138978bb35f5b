"""The exceptions that Spark's JVM threw, whichever way they came to Python."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from logdriven_dagster.engine.spark.classic import internals
from logdriven_dagster.engine.spark.modes import is_connect

_LONGEST_CHAIN = 20


@dataclass(frozen=True, slots=True)
class Thrown:
    """One exception of a chain of causes."""

    types: tuple[str, ...]
    """The names of its class and of all those above it."""
    message: str
    condition: str | None = None
    """Spark's name for the kind of error; None of other exceptions."""
    sql_state: str | None = None
    error_code: int | None = None
    """The database's own, where a JDBC driver tells it; nothing of it comes over Connect."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What Spark puts into the text of the condition, by its names for them."""
    fragment: str = ""
    """The part of the query where it arose, if Spark knows it."""

    @property
    def name(self) -> str:
        """Its class without the package."""
        return self.types[0].rpartition(".")[2].rpartition("$")[2]


def thrown_by(error: Exception) -> tuple[Thrown, ...]:
    """The exceptions behind a Python one, outermost first; none if Spark had no part in it."""
    if is_connect(error):
        from logdriven_dagster.engine.spark.connect.errors import causes

        return causes(error)
    return tuple(map(_of_java, _causes(internals.java_error(error))))


def _causes(throwable: Any) -> Iterator[Any]:
    for _ in range(_LONGEST_CHAIN):
        if throwable is None:
            return
        yield throwable
        throwable = throwable.getCause()


def _of_java(throwable: Any) -> Thrown:
    types = tuple(_types(throwable))
    message = str(throwable.getMessage() or "")
    if "java.sql.SQLException" in types:
        return Thrown(types, message, None, throwable.getSQLState(), throwable.getErrorCode())
    if not _is_sparks(throwable):
        return Thrown(types, message)
    contexts = [c for c in throwable.getQueryContext() if c.contextType().toString() == "SQL"]
    return Thrown(
        types,
        message,
        throwable.getCondition(),
        parameters=dict(throwable.getMessageParameters()),
        fragment=contexts[0].fragment() if contexts else "",
    )


def _is_sparks(throwable: Any) -> bool:
    """Whether it knows its condition and parameters."""
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
