#!/usr/bin/env bash
# delta-rs (deltalake 1.6.6) returns NULL for every column of a table with column mapping, without
# an error, if the table has the protocol of Delta 2.0 (reader version 2, writer version 5).
# to_pyarrow_table() looks for the columns' names in the files, which have their physical names. With
# reader version 3, which lists the feature columnMapping, it is refused.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "deltalake==1.6.6" "pyarrow==26.0.1"
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import json
import pathlib
import sys

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

folder = pathlib.Path(sys.argv[1]) / "table"
write_deltalake(folder, pa.table({"col-1": [1, 2]}))
log = folder / f"_delta_log/{0:020}.json"
actions = [json.loads(line) for line in log.read_text().splitlines()]
for action in actions:
    if "protocol" in action:
        action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
    if "metaData" in action:
        mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
        schema = json.loads(action["metaData"]["schemaString"])
        schema["fields"][0] |= {"name": "n", "metadata": mapped}
        action["metaData"]["schemaString"] = json.dumps(schema)
        settings = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}
        action["metaData"]["configuration"] = settings
log.write_text("".join(json.dumps(action) + "\n" for action in actions))
read = DeltaTable(folder).to_pyarrow_table().to_pylist()
print(read)
assert read == [{"n": None}, {"n": None}], "column mapping is read now"
PYTHON
echo "delta-rs still reads NULL for columns with other names in the files"
