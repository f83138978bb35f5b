"""The only Spark code: reads, transforms, stages and publishes windows.

Importing this package is cheap; Spark, PyIceberg and PyArrow are imported at first use, so that
commands which only plan start quickly.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame as DataFrame
    from pyspark.sql import SparkSession as SparkSession

    from logdriven_dagster.engine.spark.session import spark_session
    from logdriven_dagster.engine.window.engine import Engine
    from logdriven_dagster.engine.window.session import WindowSession

__all__ = ["Engine", "WindowSession", "spark_session"]


def __getattr__(name: str) -> Any:
    """Import the requested name lazily (PEP 562)."""
    if name == "spark_session":
        from logdriven_dagster.engine.spark.session import spark_session

        return spark_session
    if name == "Engine":
        from logdriven_dagster.engine.window.engine import Engine

        return Engine
    if name == "WindowSession":
        from logdriven_dagster.engine.window.session import WindowSession

        return WindowSession
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
