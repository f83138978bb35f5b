"""The exceptions that Spark's JVM threw, whichever way they came to Python."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from logdriven_dagster.engine.modes import is_connect

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

    @property
    def name(self) -> str:
        """Its class without the package."""
        return self.types[0].rpartition(".")[2].rpartition("$")[2]


def thrown_by(error: Exception) -> tuple[Thrown, ...]:
    """The exceptions behind a Python one, outermost first; none if Spark had no part in it."""
    if is_connect(error):
        from logdriven_dagster.engine.connect_errors import causes

        return causes(error)
    java = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    return tuple(map(_of_java, _causes(java)))


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
    spark = types[0] == "org.apache.spark.SparkException"
    return Thrown(types, message, throwable.getCondition() if spark else None)


def _types(throwable: Any) -> Iterator[str]:
    kind = throwable.getClass()
    while kind is not None:
        yield kind.getName()
        kind = kind.getSuperclass()
