"""What this package uses of PySpark's private side in a classic session; nothing else does.

Py4J leads from a few private attributes to Spark's Java objects, for which PySpark has no public
door. ARCHITECTURE.md ("Private APIs") says what each is for, and which test breaks without it.
"""
# ruff: noqa: SLF001 - here, and nowhere else in this room

from typing import TYPE_CHECKING, Any

from logdriven_dagster.engine.spark.classic.installation import is_whole

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession


def gateway() -> Any | None:
    """The way to the JVM that this process has started for Spark, dead or alive."""
    return _context()._gateway if is_whole() else None


def machine() -> Any:
    """Java's packages, classes and static members."""
    return _context()._gateway.jvm


def start_machine() -> None:
    """Start the JVM, as `SparkContext` begins, in a session of its own that Ctrl-C does not reach.

    Not by a fork, as PySpark does it: where gRPC is at work, as it is on Sail, one of fifty
    forked children dies before it becomes Java.
    """
    from pyspark.java_gateway import launch_gateway

    launch: Any = launch_gateway
    arguments = _WithoutFork(start_new_session=True)
    _context()._ensure_initialized(gateway=launch(popen_kwargs=arguments))


def has_context() -> bool:
    """Whether a classic session has its Spark in this process."""
    return is_whole() and _context()._active_spark_context is not None


def forget_machine() -> None:
    """Let PySpark start another JVM when a session is asked for next."""
    from pyspark.sql import SparkSession

    context = _context()
    context._gateway = context._jvm = context._active_spark_context = None
    SparkSession._instantiatedSession = None


def java_session(spark: "SparkSession") -> Any:
    """Return the Java session behind a session of PySpark."""
    return spark._jsparkSession


def java_frame(frame: "DataFrame") -> Any:
    """Return the Java frame behind a frame of PySpark, with its plan."""
    return frame._jdf


def java_observation(observation: "Observation") -> Any:
    """Return the Java observation, which knows whether it has come to an end."""
    return observation._jo


def java_error(error: BaseException) -> Any | None:
    """Return the exception that Java threw, if Python's was made of one."""
    return getattr(error, "_origin", None) or getattr(error, "java_exception", None)


class _WithoutFork(dict[str, Any]):
    """Arguments of `Popen`, without the function for which Python would have to fork.

    PySpark's has the child ignore Ctrl-C.
    """

    def __setitem__(self, name: str, value: Any) -> None:
        if name != "preexec_fn":
            super().__setitem__(name, value)


def _context() -> Any:
    from pyspark import SparkContext

    return SparkContext
