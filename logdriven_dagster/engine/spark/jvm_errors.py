"""Exceptions of Spark's JVM behind Python errors, for classic and Spark Connect sessions."""

from logdriven_dagster.engine.spark.errors import JvmException
from logdriven_dagster.engine.spark.mode import is_connect


def list_jvm_errors(error: Exception) -> tuple[JvmException, ...]:
    """Return the JVM exceptions behind an error, outermost first; empty if there are none."""
    if is_connect(error):
        from logdriven_dagster.engine.spark.connect.errors import causes
    else:
        from logdriven_dagster.engine.spark.classic.errors import causes
    return causes(error)
