"""Which of the two modes a session has: classic, or Spark Connect."""

from typing import TYPE_CHECKING

from logdriven_dagster.engine.spark.mode import SparkMode, is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def mode_of(spark: "SparkSession") -> SparkMode:
    """Return the mode of a session: classic or Spark Connect."""
    if is_connect(spark):
        from logdriven_dagster.engine.spark.connect.mode import ConnectMode

        return ConnectMode()
    from logdriven_dagster.engine.spark.classic.mode import ClassicMode

    return ClassicMode()
