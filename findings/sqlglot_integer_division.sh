#!/usr/bin/env bash
# sqlglot 30.30.0, transpile from PostgreSQL to Spark: a division keeps its text, also of two whole
# numbers. PostgreSQL divides whole numbers to whole numbers, Spark to fractions. The error level RAISE
# reports nothing. sqlglot writes DIV only if the tree has types (optimizer.annotate_types),
# which columns without a schema never have.
# Seen: 3 / 2 stays 3 / 2, which is 1 in PostgreSQL and 1.5 in Spark.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "sqlglot==30.30.0"
"$folder/venv/bin/python" - <<'PYTHON'
import sqlglot
from sqlglot.optimizer.annotate_types import annotate_types

strict = sqlglot.ErrorLevel.RAISE
for query in ("SELECT 3 / 2", "SELECT a / b FROM t"):
    (found,) = sqlglot.transpile(query, read="postgres", write="spark", unsupported_level=strict)
    print(f"{query} becomes {found}")
    assert found == query, "sqlglot converts the division now"
typed = annotate_types(sqlglot.parse_one("SELECT 3 / 2", dialect="postgres"), dialect="postgres")
print(f"with types, SELECT 3 / 2 becomes {typed.sql('spark')}")
assert typed.sql("spark") != "SELECT 3 / 2", "types change nothing"
PYTHON
