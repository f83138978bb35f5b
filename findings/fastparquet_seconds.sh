#!/usr/bin/env bash
# fastparquet 2026.9.0 writes a pandas column of datetime64[s] with numbers that are a million times
# too small: the file says TIMESTAMP(MILLIS), and holds the number of seconds divided by 1000. Nothing
# warns. It is the type of dates of numpy in seconds, such as np.array(["2022-01-02"], "datetime64[s]");
# pandas' own writer by PyArrow multiplies the numbers by 1000.
# Seen: 2022-01-02 03:04:05 becomes 1970-01-01 00:27:21.092 in PyArrow 26.0.1 and DuckDB 2.0.0.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "fastparquet==2026.9.0" "pandas==3.1.1" "pyarrow==26.0.1" "duckdb==2.0.0"
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys

import duckdb
import fastparquet
import numpy as np
import pandas as pd
from pyarrow import parquet

path = f"{sys.argv[1]}/f.parquet"
written = np.array(["2022-01-02 03:04:05"], "datetime64[s]")
fastparquet.write(path, pd.DataFrame({"made": written}))
read = str(parquet.read_table(path)["made"][0].as_py())
also = str(duckdb.sql(f"SELECT made FROM '{path}'").fetchall()[0][0])
assert read == also, (read, also)
assert read.startswith("1970-01-"), read
print(f"2022-01-02 03:04:05 became {read}")
PYTHON
