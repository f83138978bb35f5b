"""Write rows as most people have them: by Spark with its defaults, into a folder for each day.

Its arguments are the folder of the rows and the new folder. Timestamps are INT96, without
statistics.
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1:]
spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
rows = spark.read.parquet(source).selectExpr("*", "date_format(ordered_at, 'yyyy-MM-dd') AS ds")
rows.repartition("ds").write.partitionBy("ds").mode("overwrite").parquet(target)
spark.stop()
