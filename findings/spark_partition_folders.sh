#!/usr/bin/env bash
# Spark 4.3.0, columns in the names of folders:
# 1. A TINYINT or SMALLINT in a schema takes the lowest bits of a larger number: the folder v=300 is
#    read as 44. An INT for v=3000000000 is an error, as expected.
# 2. A file next to such folders is listed, but its rows are not read, without an error or warning.
# Seen: v=300 is 44 as TINYINT; the rows of `in/v=1/f.csv` only, not those of `in/f.csv`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyspark==4.3.0"
mkdir -p "$folder/numbers/v=300" "$folder/in/v=1"
echo 7 >"$folder/numbers/v=300/f.csv"
echo 7 >"$folder/in/v=1/f.csv"
echo 8 >"$folder/in/f.csv"
cd "$folder"
"$folder/venv/bin/python" - 2>"$folder/errors" <<'PYTHON' || { cat "$folder/errors"; exit 1; }
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()


def read(path, columns):
    return [tuple(row) for row in spark.read.schema(columns).csv(path).collect()]


wrapped = read("numbers", "a INT, v TINYINT")
print("v=300 as TINYINT:", wrapped)
rows = read("in", "a INT, v INT")
print("in/f.csv with 8, in/v=1/f.csv with 7:", rows)
assert wrapped == [(7, 44)], "Spark refuses a number that is too large for its type now"
assert rows == [(7, 1)], "Spark reads or refuses files next to folders of columns now"
PYTHON
