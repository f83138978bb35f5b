#!/usr/bin/env bash
# Spark 4.3.0, CSV with multiLine: a quote that is never closed makes the rest of the file one value.
# mode FAILFAST and unescapedQuoteHandling RAISE_ERROR accept it, and the corrupt column of
# PERMISSIVE stays NULL.
# Seen: one row of three lines; its text column holds the other two.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyspark==4.3.0"
printf '1,"open\n2,x\n3,y\n' >"$folder/f.csv"
cd "$folder"
"$folder/venv/bin/python" - 2>"$folder/errors" <<'PYTHON' || { cat "$folder/errors"; exit 1; }
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
reader = spark.read.option("multiLine", "true").option("unescapedQuoteHandling", "RAISE_ERROR")

rows = reader.option("mode", "FAILFAST").schema("a INT, b STRING").csv("f.csv").collect()
print("FAILFAST:", [tuple(row) for row in rows])
assert [tuple(row) for row in rows] == [(1, "open\n2,x\n3,y\n")]
columns = "a INT, b STRING, _corrupt_record STRING"
(row,) = reader.option("mode", "PERMISSIVE").schema(columns).csv("f.csv").collect()
print("PERMISSIVE:", tuple(row))
assert row["_corrupt_record"] is None
PYTHON
