#!/usr/bin/env bash
# fastavro 1.13.1: the checksum of a block of codec snappy is not verified, nor that the records of a
# block use all of its bytes. Values of a damaged file are read without an error.
#
# Avro's specification has a CRC32 of the uncompressed bytes behind each snappy block. A byte that
# changes on a disk is found by it, and by no other part of the file. BLOCK_READERS takes a function
# that compares it; block_reader yields blocks, whose rest can be read.
# Seen: the value below, and the first of two records.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "fastavro[codecs]==1.13.1"
"$folder/venv/bin/python" - <<'PYTHON'
import io

import fastavro

schema = {"type": "record", "name": "r", "fields": [{"name": "v", "type": "string"}]}


def read(codec, texts, old, new):
    file = io.BytesIO()
    fastavro.writer(file, schema, [{"v": text} for text in texts], codec=codec)
    content = file.getvalue()
    assert content.count(old) == 1
    return [row["v"] for row in fastavro.reader(io.BytesIO(content.replace(old, new)))]


changed = read("snappy", ["price 100"], b"price 100", b"price 900")
print("snappy, a changed byte ->", changed)
assert changed == ["price 900"], "fastavro verifies the checksum now"
# The number of records of the block, 2, becomes 1.
lost = read("null", ["a", "b"], b"\x04\x08\x02a\x02b", b"\x02\x08\x02a\x02b")
print("null, one record fewer ->", lost)
assert lost == ["a"], "fastavro compares the bytes now"
PYTHON
