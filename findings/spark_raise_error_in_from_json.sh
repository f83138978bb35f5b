#!/usr/bin/env bash
# Spark 4.3.0, raise_error and assert_true as the input of from_json, from_csv or to_json: the result is
# NULL and no error is raised, because these functions replace an input without a type (void) by NULL
# before it is evaluated. With a CAST to STRING, and within upper, concat or coalesce, it is raised.
# Seen: three rows with NULL; an error with the CAST.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyspark==4.3.0"
cd "$folder"
"$folder/venv/bin/python" - 2>"$folder/errors" <<'PYTHON' || { cat "$folder/errors"; exit 1; }
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()

for call in (
    "from_json(raise_error('x'), 'a STRING')",
    "from_csv(raise_error('x'), 'a STRING')",
    "from_json(assert_true(false), 'a STRING')",
):
    rows = [tuple(row) for row in spark.sql(f"SELECT {call} AS v FROM range(1)").collect()]
    print(call, "->", rows)
    assert rows == [(None,)], "Spark raises the error now"
try:
    spark.sql("SELECT from_json(CAST(raise_error('x') AS STRING), 'a STRING') FROM range(1)").collect()
    raise SystemExit("Spark does not raise the error with a CAST either")
except PySparkException as error:
    print("with a CAST:", error.getCondition())
    assert error.getCondition() == "USER_RAISED_EXCEPTION"
PYTHON
