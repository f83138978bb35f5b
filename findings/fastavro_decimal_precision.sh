#!/usr/bin/env bash
# fastavro 1.13.1: a decimal with more digits than its precision is rounded when it is read, without
# an error.
#
# The reader scales the unscaled integer within a decimal context whose precision is that of the
# schema. A writer that does not check the precision, as the raw bytes here, stores 83886.07 for
# precision 4 and scale 2, and the reader returns 8.389E+4. Avro's specification limits the digits,
# so the file is wrong; but its value is changed instead of refused. LOGICAL_READERS takes a
# function that scales the integer exactly.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q fastavro==1.13.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import io
from decimal import Decimal

import fastavro
from fastavro.write import LOGICAL_WRITERS

kind = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
schema = {"type": "record", "name": "r", "fields": [{"name": "v", "type": kind}]}
LOGICAL_WRITERS.clear()  # as a writer that stores the bytes it is given
file = io.BytesIO()
fastavro.writer(file, schema, [{"v": (8388607).to_bytes(3, "big")}])
file.seek(0)
(row,) = fastavro.reader(file)
print(row)
assert row["v"] == Decimal("83890") != Decimal("83886.07")
PYTHON
