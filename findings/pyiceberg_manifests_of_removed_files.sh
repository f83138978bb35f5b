#!/usr/bin/env bash
# PyIceberg 0.12.0: each overwrite that removes a file adds a manifest with its entry, and no later
# overwrite drops it, although it names no live file; every scan and commit opens all of them.
# Appends drop such manifests, and overwrites do not merge manifests either, whatever the table's
# properties say.
# Seen: after 20 overwrites of the only file 21 manifests, of which 1 names a file; an append merges all.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pyiceberg[sql-sqlite]==0.12.0" "pyarrow==26.0.1"
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import parquet_file_to_data_file

folder = sys.argv[1]
catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
catalog.create_namespace("n")
rows = pa.table({"a": [1]})
table = catalog.create_table(
    "n.t",
    rows.schema,
    properties={
        "commit.manifest-merge.enabled": "true",
        "commit.manifest.min-count-to-merge": "2",
    },
)


def counts():
    manifests = table.current_snapshot().manifests(table.io)
    live = [each for each in manifests if each.has_added_files() or each.has_existing_files()]
    return len(manifests), len(live)


table.append(rows)
for number in range(20):
    (task,) = table.scan().plan_files()
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as update:
        update.delete_data_file(task.file)
        copy = f"{table.location()}/data/{number}.parquet"
        with table.io.new_output(copy).create(overwrite=True) as out:
            out.write(table.io.new_input(task.file.file_path).open().read())
        update.append_data_file(parquet_file_to_data_file(table.io, table.metadata, copy))
overwritten = counts()
print("manifests, of which with files, after overwrites:", overwritten)
table.append(rows)
appended = counts()
print("after an append:", appended)
assert overwritten == (21, 1), overwritten
assert appended[0] == appended[1], appended
PYTHON
