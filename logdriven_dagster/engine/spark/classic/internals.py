"""Access to PySpark's private API in a classic session; no other module uses it.

Py4J leads from a few private attributes to Spark's Java objects, for which PySpark has no public
API. docs/evidence/private-apis.md lists the purpose of each, and the test that breaks without it.
"""
# ruff: noqa: SLF001 - only this module uses private names

from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.spark.classic.installation import is_whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession


def gateway() -> Any | None:
    """Return the gateway to the JVM that this process started for Spark, alive or not."""
    return _context()._gateway if is_whole() else None


def machine() -> Any:
    """Return the gateway's view of the JVM: Java's packages, classes and static members."""
    return _context()._gateway.jvm


def start_machine(*, own_session: bool) -> None:
    """Start the JVM as `SparkContext` does; Ctrl-C does not reach it in a session of its own.

    It is not forked, as in PySpark: where gRPC is active, as it is with Spark Connect, one of fifty
    forked children dies before it becomes Java.
    """
    from pyspark.java_gateway import launch_gateway

    launch: Any = launch_gateway
    arguments = _WithoutFork(start_new_session=own_session)
    _context()._ensure_initialized(gateway=launch(popen_kwargs=arguments))


def has_context() -> bool:
    """Return whether this process has an active SparkContext."""
    return is_whole() and _context()._active_spark_context is not None


def forget_machine() -> None:
    """Reset PySpark's references to its JVM, so that the next session starts another one."""
    from pyspark.sql import SparkSession

    context = _context()
    context._gateway = context._jvm = context._active_spark_context = None
    SparkSession._instantiatedSession = None


def java_session(spark: "SparkSession") -> Any:
    """Return the Java session behind a PySpark session."""
    return spark._jsparkSession


def java_frame(frame: "DataFrame") -> Any:
    """Return the Java DataFrame behind a PySpark DataFrame, which has its plan."""
    return frame._jdf


def java_observation(observation: "Observation") -> Any:
    """Return the Java observation, which reports whether it has completed."""
    return observation._jo


def java_error(error: BaseException) -> Any | None:
    """Return the Java exception behind a Python exception, or None."""
    return getattr(error, "_origin", None) or getattr(error, "java_exception", None)


class _WithoutFork(dict[str, Any]):
    """Arguments of `Popen` without `preexec_fn`, for which Python would have to fork.

    PySpark's `preexec_fn` makes the child ignore Ctrl-C.
    """

    def __setitem__(self, name: str, value: Any) -> None:
        if name != "preexec_fn":
            super().__setitem__(name, value)


def _context() -> Any:
    from pyspark import SparkContext

    return SparkContext
