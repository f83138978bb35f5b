#!/usr/bin/env bash
# pyorc 0.12.0 writes a timestamp in the second before 1970, with a fraction of a millisecond or
# more, as the one a second later, without an error: 1969-12-31 23:59:59.5 becomes
# 1970-01-01 00:00:00.5. ORC stores whole seconds and nanoseconds separately, and the C++ writer
# rounds the seconds of negative timestamps towards zero, which loses the sign of second -1.
# PyArrow 26.0.1 writes the same value so that PyArrow and pyorc read it back, because it passes
# negative nanoseconds to the same C++ library.
# Seen: pyorc and PyArrow read 1970-01-01 00:00:00.5 from the file of pyorc; 23:59:58.5 is kept;
# PyArrow and pyorc read 1969-12-31 23:59:59.5 from the file of PyArrow.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyarrow==26.0.1" "pyorc==0.12.0" "tzdata"
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys
from datetime import datetime

import pyarrow as pa
import pyorc
from pyarrow import orc

before, earlier = (datetime(1969, 12, 31, 23, 59, second, 500000) for second in (59, 58))
after = datetime(1970, 1, 1, 0, 0, 0, 500000)


def read(path):
    by_pyarrow = orc.ORCFile(path).read().column(0).cast(pa.timestamp("us")).to_pylist()
    with open(path, "rb") as file:
        by_pyorc = [row[0].replace(tzinfo=None) for row in pyorc.Reader(file)]
    return by_pyarrow, by_pyorc


path = f"{sys.argv[1]}/pyorc.orc"
with open(path, "wb") as file, pyorc.Writer(file, "struct<t:timestamp>") as writer:
    writer.write((earlier,))
    writer.write((before,))
for found in read(path):
    assert found == [earlier, after], found
path = f"{sys.argv[1]}/pyarrow.orc"
orc.write_table(pa.table({"t": pa.array([earlier, before], pa.timestamp("us"))}), path)
for found in read(path):
    assert found == [earlier, before], found
print("pyorc moves a timestamp of the second before 1970 by a second, PyArrow does not")
PYTHON
