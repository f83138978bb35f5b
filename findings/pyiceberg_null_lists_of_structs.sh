#!/usr/bin/env bash
# PyIceberg 0.12.0 with PyArrow 26.0.1 turns a NULL list of structs, and a NULL map to structs, into
# an empty one. It happens twice: append() writes [] into the Parquet file, and scan() reads [] from
# a file that holds NULL (written by PyArrow, added by add_files). Lists of numbers keep their NULL.
# Seen: append: 'l' and 'm' are [] in the file; scan of the added file: 'l' and 'm' are [], 'p' is None.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyiceberg[sql-sqlite]==0.12.0" "pyarrow==26.0.1"
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import glob
import sys

import pyarrow as pa
from pyarrow import parquet
from pyiceberg.catalog.sql import SqlCatalog

folder = sys.argv[1]
catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
catalog.create_namespace("n")
struct = pa.struct([("a", pa.int32())])
rows = pa.table(
    {
        "l": pa.array([None, [{"a": 1}]], pa.list_(struct)),
        "m": pa.array([None, [("k", {"a": 1})]], pa.map_(pa.string(), struct)),
        "p": pa.array([None, [1]], pa.list_(pa.int32())),
    }
)
emptied = {"l": [], "m": [], "p": None}

written = catalog.create_table("n.written", rows.schema)
written.append(rows)
(file,) = glob.glob(f"{folder}/**/data/*.parquet", recursive=True)
assert parquet.read_table(file).to_pylist()[0] == emptied, "append writes other values now"

parquet.write_table(rows, f"{folder}/own.parquet")
nulls = {"l": None, "m": None, "p": None}
assert parquet.read_table(f"{folder}/own.parquet").to_pylist()[0] == nulls
added = catalog.create_table("n.added", rows.schema)
added.add_files([f"{folder}/own.parquet"])
assert added.scan().to_arrow().to_pylist()[0] == emptied, "scan reads other values now"
print("append writes and scan reads [] for a NULL list of structs and a NULL map to structs")
PYTHON
