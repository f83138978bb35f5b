"""Reading tables of Spark's own catalog."""

from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.spark_table import CatalogSource
from logdriven_dagster.engine.queries.rendering import render
from logdriven_dagster.engine.sources.readers import Reader, Reading
from logdriven_dagster.engine.spark.settings import option_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SparkTableReader(Reader):
    """Reader of tables of Spark's own catalog."""

    def whole(self, reading: Reading, source: CatalogSource) -> "DataFrame":
        options = option_texts(source.options)
        return reading.spark.read.options(**options).table(render(source.name, reading.run))
