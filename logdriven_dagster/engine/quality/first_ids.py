"""The first ids of bad rows, by what Spark offers for it: asked of Spark, not of its version.

Over Connect the server's version counts, not the client's.
"""

from typing import TYPE_CHECKING

from logdriven_dagster.engine.spark import functions as sf

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


def takes_first_of_several(spark: "SparkSession") -> bool:
    """Whether `first_of_several` can be asked: from Spark 4.2 on. No Spark job runs."""
    from pyspark.errors import AnalysisException
    from pyspark.sql.types import ArrayType

    try:
        (field,) = spark.sql("SELECT min_by(1, 1, 1)").schema.fields
    except AnalysisException:
        return False
    return isinstance(field.dataType, ArrayType)


def first_of_several(value: "Column", order: "Column", number: int) -> "Column":
    """An aggregate: the values of so many rows that come first, where `order` is not NULL."""
    # By name, since the client of an older Spark knows of two arguments only.
    return sf.call_function("min_by", value, order, sf.lit(number))
