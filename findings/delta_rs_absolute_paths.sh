#!/usr/bin/env bash
# delta-rs (deltalake 1.6.6) looks for files that a Delta log names by an absolute path below the
# table's own folder. Delta's protocol allows such paths in an `add` action, and shallow clones have
# them. Seen for file:/…, file:///… and /…: file_uris() gives <table>/file:/…, and reading
# by to_pyarrow_table() fails with FileNotFoundError; deletion_vectors(), by delta-kernel, resolves
# the same paths as the protocol says.
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

folder = pathlib.Path(sys.argv[1])
for number, form in enumerate(("file:{}", "file://{}", "{}")):
    original, clone = folder / f"original{number}", folder / f"clone{number}"
    write_deltalake(original, pa.table({"n": [1, 2]}))
    write_deltalake(clone, pa.table({"n": [3]}))
    (file,) = original.glob("*.parquet")
    log = clone / f"_delta_log/{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["path"] = form.format(file)
            action["add"]["size"] = file.stat().st_size
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    (uri,) = DeltaTable(clone).file_uris()
    print(form, uri)
    assert uri.startswith(str(clone)), "absolute paths are resolved now"
    try:
        DeltaTable(clone).to_pyarrow_table()
    except FileNotFoundError:
        continue
    raise AssertionError("absolute paths are read now")
PYTHON
echo "delta-rs still names files at absolute paths below the table"
