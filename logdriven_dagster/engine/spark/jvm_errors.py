"""The exceptions that Spark's JVM threw, whichever way they came to Python."""

from logdriven_dagster.engine.spark.jvm_exception import JvmException
from logdriven_dagster.engine.spark.mode import is_connect


def thrown_by(error: Exception) -> tuple[JvmException, ...]:
    """The exceptions behind a Python one, outermost first; none if Spark had no part in it."""
    if is_connect(error):
        from logdriven_dagster.engine.spark.connect.errors import causes
    else:
        from logdriven_dagster.engine.spark.classic.errors import causes
    return causes(error)
