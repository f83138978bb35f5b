#!/usr/bin/env bash
# fastparquet 2026.9.0 with times="int96" writes pandas columns of the types datetime64[ms] and
# datetime64[us] as other timestamps, without an error: it takes their numbers for nanoseconds.
# datetime64[us] is the type that pandas 3 gives to parsed and constructed times.
# Seen: 2022-01-02 03:04:05.123 is read by fastparquet and by PyArrow 26.0.1 as
# 1970-01-01 00:27:21.092645123 from datetime64[ms], and as 1970-01-19 23:51:32.645123 from
# datetime64[us]. datetime64[ns] is right, and so is the default times="int64" for all units.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "fastparquet==2026.9.0" "pandas==3.1.1" "pyarrow==26.0.1"
"$folder/venv/bin/python" - "$folder/f.parquet" <<'PYTHON'
import sys

import fastparquet
import pandas as pd
from pyarrow import parquet

path = sys.argv[1]
right = "2022-01-02 03:04:05.123"
read = {"ms": "1970-01-01 00:27:21.092645123", "us": "1970-01-19 23:51:32.645123", "ns": right}
for unit, seen in read.items():
    frame = pd.DataFrame({"v": pd.Series([pd.Timestamp(right)]).astype(f"datetime64[{unit}]")})
    for times, expected in (("int96", seen), ("int64", right)):
        fastparquet.write(path, frame, times=times)
        for value in (
            fastparquet.ParquetFile(path).to_pandas()["v"][0],
            parquet.read_table(path)["v"][0].as_py(),
        ):
            assert pd.Timestamp(value) == pd.Timestamp(expected), (unit, times, value)
print("fastparquet writes datetime64[ms] and datetime64[us] as INT96 of another day")
PYTHON
