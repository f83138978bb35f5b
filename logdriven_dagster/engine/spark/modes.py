"""Selection of a session's mode: classic, Spark Connect or Sail."""

from typing import TYPE_CHECKING

from logdriven_dagster.engine.spark.mode import SparkMode, is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def mode_of(spark: "SparkSession") -> SparkMode:
    """Return the mode of a session: classic, Spark Connect or Sail."""
    if is_connect(spark):
        from logdriven_dagster.engine.spark.connect.mode import ConnectMode
        from logdriven_dagster.engine.spark.connect.sail.mode import SailMode, is_sail

        return SailMode() if is_sail(spark) else ConnectMode()
    from logdriven_dagster.engine.spark.classic.mode import ClassicMode

    return ClassicMode()
