#!/usr/bin/env bash
# Spark 4.3.0, inference of JSON columns from keys that differ in their case only, as `a` in one record
# and `A` in the next one (spark.sql.caseSensitive is false, the default): the schema has one column,
# and the values of the other key are NULL, also with mode FAILFAST. If a record has further keys,
# Spark refuses the same two keys with COLUMN_ALREADY_EXISTS.
# Seen: one column `a` with 1 and NULL; an error as soon as the second record also has `b`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyspark==4.3.0"
printf '{"a": 1}\n{"A": 2}\n' >"$folder/two.json"
printf '{"a": 1}\n{"A": 2, "b": 3}\n' >"$folder/more.json"
cd "$folder"
"$folder/venv/bin/python" - 2>"$folder/errors" <<'PYTHON' || { cat "$folder/errors"; exit 1; }
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
reader = spark.read.option("mode", "FAILFAST")

frame = reader.json("two.json")
rows = [tuple(row) for row in frame.collect()]
print("a, then A:", frame.schema.simpleString(), rows)
assert rows == [(1,), (None,)], "Spark reads or refuses the second key now"
try:
    raise SystemExit(f"Spark reads {reader.json('more.json').schema.simpleString()} now")
except AnalysisException as error:
    print("a, then A and b:", error.getCondition())
    assert error.getCondition() == "COLUMN_ALREADY_EXISTS"
PYTHON
