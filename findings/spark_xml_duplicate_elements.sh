#!/usr/bin/env bash
# Spark 4.3.0, XML with a schema and mode FAILFAST: of two elements of one name the last one is read, a
# decimal is rounded, 1,2 is read as 12 and 5d as 5, text between elements is dropped, and a rowTag that
# no element has gives no rows. None of these is an error.
# Seen: the rows below.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyspark==4.3.0"
cd "$folder"
"$folder/venv/bin/python" - 2>"$folder/errors" <<'PYTHON' || { cat "$folder/errors"; exit 1; }
from pathlib import Path

from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()


def read(content: str, kind: str, row_tag: str = "row") -> list[str]:
    Path("f.xml").write_text(f"<rows><row>{content}</row></rows>")
    reader = spark.read.schema(f"n {kind}").option("rowTag", row_tag).option("mode", "FAILFAST")
    return [str(row.n) for row in reader.xml("f.xml").collect()]


for content, kind, expected in (
    ("<n>1</n><n>2</n>", "INT", ["2"]),
    ("<n>1.25</n>", "DECIMAL(3, 1)", ["1.3"]),
    ("<n>1,2</n>", "DECIMAL(3, 1)", ["12.0"]),
    ("<n>5d</n>", "DOUBLE", ["5.0"]),
    ("<n>1</n>text", "INT", ["1"]),
):
    found = read(content, kind)
    print(content, kind, "->", found)
    assert found == expected, "Spark reads it in another way now"
found = read("<n>1</n>", "INT", "other")
print("another rowTag ->", found)
assert found == [], "Spark refuses it now"
PYTHON
