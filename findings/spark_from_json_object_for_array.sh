#!/usr/bin/env bash
# Spark 4.3.0, from_json with an ARRAY of STRUCTs and mode FAILFAST: a JSON object is read as a list of
# one, and its unknown fields are ignored. So the error of an API, {"error": "…"} in place of its list,
# is a row of NULLs and no failure.
# Seen: one row of NULLs for the object.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyspark==4.3.0"
cd "$folder"
"$folder/venv/bin/python" - 2>"$folder/errors" <<'PYTHON' || { cat "$folder/errors"; exit 1; }
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()

schema, strict = "ARRAY<STRUCT<day: DATE, rate: DOUBLE>>", "map('mode', 'FAILFAST')"
body = spark.createDataFrame([('{"error": "too many requests"}',)], "body STRING")
rows = body.selectExpr(f"inline(from_json(body, '{schema}', {strict}))").collect()
print("an object in place of the list ->", [tuple(row) for row in rows])
assert [tuple(row) for row in rows] == [(None, None)], "Spark refuses the object now"
PYTHON
