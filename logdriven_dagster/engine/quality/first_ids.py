"""Aggregate for the first ids of bad rows, where Spark supports it.

Spark itself is tested, not its version: over Spark Connect, the server's version counts, not the
client's.
"""

from typing import TYPE_CHECKING

from logdriven_dagster.engine.spark import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


def takes_first_of_several(spark: "SparkSession") -> bool:
    """Return whether `first_of_several` is supported, as from Spark 4.2 on. Runs no Spark job."""
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import ArrayType

    try:
        (field,) = spark.sql("SELECT min_by(1, 1, 1)").schema.fields
    except AnalysisException:
        return False
    return isinstance(field.dataType, ArrayType)


def first_of_several(value: "Column", order: "Column", number: int) -> "Column":
    """Return an aggregate with the values of the first `number` rows whose `order` is not NULL."""
    # By name, since older clients only support two arguments.
    return sf.call_function("min_by", value, order, sf.lit(number))
