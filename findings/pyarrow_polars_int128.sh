#!/usr/bin/env bash
# PyArrow 26.0.1 does not even read the footer of a Parquet file by polars 2.1.0 that has a column of
# Int128 or UInt128, whichever columns are asked for: read_metadata, read_schema and
# read_table(columns=["x"]) raise "ArrowNotImplementedError: Integers with more than 64 bits not
# implemented". The Parquet schema itself is plain (FIXED_LEN_BYTE_ARRAY(16), little-endian);
# it is the schema of Arrow in the metadata, which the reader cannot be asked to pass over.
# Seen: ArrowNotImplementedError for each; DuckDB 2.0.0 reads column x of the same file.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyarrow==26.0.1" "polars==2.1.0" "duckdb==2.0.0"
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys

import duckdb
import polars as pl
import pyarrow as pa
from pyarrow import parquet

path = f"{sys.argv[1]}/f.parquet"
pl.DataFrame({"x": [1], "n": pl.Series([3], dtype=pl.Int128)}).write_parquet(path)
for read in (
    parquet.read_metadata,
    parquet.read_schema,
    lambda file: parquet.read_table(file, columns=["x"]),
):
    try:
        raise SystemExit(f"PyArrow reads {read(path)} now")
    except pa.ArrowNotImplementedError as error:
        assert "more than 64 bits" in str(error), str(error)
assert duckdb.sql(f"SELECT x FROM '{path}'").fetchall() == [(1,)]
print("PyArrow reads nothing of a Parquet file that has an Int128 of polars")
PYTHON
