"""Plain PySpark whose rows PyIceberg commits. A script, which imports only these two.

Its argument is JSON: `source`, a folder; `query` over `orders` with `{start}` and `{end}`;
`bounds`, pairs of times; `catalog`, PyIceberg's properties; `way`: `loop` overwrites each pair's
days with the rows as Arrow, `pass` adds files that Spark has written into `out`.
"""

import json
import sys
from pathlib import Path

from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import And, GreaterThanOrEqual, LessThan
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

told = json.loads(sys.argv[1])
spark = SparkSession.builder.getOrCreate()
spark.read.parquet(told["source"]).createOrReplaceTempView("orders")
catalog = load_catalog("plain", **told["catalog"])
catalog.create_namespace_if_not_exists("bench")
for start, end in told["bounds"]:
    frame = spark.sql(told["query"].format(start=start, end=end))
    schema = to_arrow_schema(frame.schema, timezone="UTC")
    table = catalog.create_table_if_not_exists("bench.orders", schema)
    days = And(GreaterThanOrEqual("day", start[:10]), LessThan("day", end[:10]))
    if told["way"] == "loop":
        rows = frame.toArrow().cast(schema_to_pyarrow(table.schema(), include_field_ids=False))
        table.overwrite(rows, overwrite_filter=days)
        continue
    folder = f"{told['out']}/{start[:10]}"
    frame.write.mode("overwrite").parquet(folder)
    with table.transaction() as transaction:
        transaction.delete(days)
        transaction.add_files([f"file://{path}" for path in Path(folder).glob("*.parquet")])
spark.stop()
