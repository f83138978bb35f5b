#!/usr/bin/env bash
# PyArrow 26.0.1 and Spark 4.3.0: PyArrow reads a Parquet file of Spark, a column is appended to the table, and
# PyArrow writes it again. The new file has the column, and the file's Spark schema, which PyArrow copies
# with the other metadata, lacks it. Spark reads the file by that schema.
# Seen: the file has id and note, Spark shows id alone, without an error.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyspark==4.3.0" "pyarrow==26.0.1"
cd "$folder"
"$folder/venv/bin/python" - 2>"$folder/errors" <<'PYTHON' || { cat "$folder/errors"; exit 1; }
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
spark.range(3).coalesce(1).write.parquet("by_spark")
table = parquet.read_table(next(Path("by_spark").glob("*.parquet")))
Path("by_pyarrow").mkdir()
parquet.write_table(table.append_column("note", pa.array(["a", "b", "c"])), "by_pyarrow/1.parquet")

held = parquet.read_schema("by_pyarrow/1.parquet").names
shown = spark.read.parquet("by_pyarrow").columns
print("the file has", held, "- Spark reads", shown)
assert held == ["id", "note"]
assert shown == ["id"], "Spark reads the new column now"
PYTHON
