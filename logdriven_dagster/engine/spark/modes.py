"""Selection of a session's mode: classic, Spark Connect, or that of another engine's channel."""

from typing import TYPE_CHECKING

from logdriven_dagster.engine.spark.mode import SparkMode, is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def mode_of(spark: "SparkSession") -> SparkMode:
    """Return the mode of a session.

    An engine that speaks the protocol of Spark Connect connects by a channel builder of its own,
    whose attribute `mode` is the mode of its sessions.
    """
    if is_connect(spark):
        from logdriven_dagster.engine.spark.connect.internals import channel_builder
        from logdriven_dagster.engine.spark.connect.mode import ConnectMode

        own: SparkMode | None = getattr(channel_builder(spark), "mode", None)
        return ConnectMode() if own is None else own
    from logdriven_dagster.engine.spark.classic.mode import ClassicMode

    return ClassicMode()
