"""The exceptions that Spark's JVM threw, whichever way they came to Python."""

from logdriven_dagster.engine.spark.mode import is_connect
from logdriven_dagster.engine.spark.thrown import Thrown


def thrown_by(error: Exception) -> tuple[Thrown, ...]:
    """The exceptions behind a Python one, outermost first; none if Spark had no part in it."""
    if is_connect(error):
        from logdriven_dagster.engine.spark.connect.errors import causes
    else:
        from logdriven_dagster.engine.spark.classic.errors import causes
    return causes(error)
