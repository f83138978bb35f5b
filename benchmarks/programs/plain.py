"""The plain PySpark program: a write for each pair of bounds. A script, which imports only PySpark.

Its argument is JSON: `source`, a folder; `query` over `orders` with `{start}` and `{end}`;
`bounds`, pairs of times; `out`, a folder; `url` and `table`, of JDBC instead, or null.
"""

import json
import sys

from pyspark.sql import SparkSession

told = json.loads(sys.argv[1])
spark = SparkSession.builder.getOrCreate()
spark.read.parquet(told["source"]).createOrReplaceTempView("orders")
for start, end in told["bounds"]:
    frame = spark.sql(told["query"].format(start=start, end=end))
    if told["url"]:
        properties = {"driver": "org.postgresql.Driver", "batchsize": "10000"}
        frame.write.jdbc(told["url"], told["table"], "append", properties)
    else:
        writer = frame.write.partitionBy("day").mode("overwrite")
        writer.option("partitionOverwriteMode", "dynamic").parquet(told["out"])
spark.stop()
