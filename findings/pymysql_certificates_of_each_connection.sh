#!/usr/bin/env bash
# PyMySQL 1.2.4 reads the machine's file of certificate authorities for every connection, also for
# one that names no option of TLS: it then tries TLS without looking at a certificate. Reading takes
# 20 to 60 ms of processor, more than the connection itself. PyMySQL 1.1.2 reads nothing then.
# Seen: of five connections that are not even opened, 1.2.4 makes five contexts, 1.1.2 none.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for version in 1.1.2 1.2.4; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet "pymysql==$version"
    "$folder/$version/bin/python" - "$version" <<'PYTHON'
import ssl
import sys

import pymysql

made = []
default = ssl.create_default_context


def counted(*args, **kwargs):
    made.append(default(*args, **kwargs))
    return made[-1]


ssl.create_default_context = counted
connections = [pymysql.connect(host="db.example", user="u", defer_connect=True) for _ in range(5)]
expected = {"1.1.2": 0, "1.2.4": 5}[sys.argv[1]]
assert len(made) == expected, f"PyMySQL {sys.argv[1]} makes {len(made)} contexts now"
assert all(context.verify_mode == ssl.CERT_NONE for context in made), "certificates are verified now"
print(f"PyMySQL {sys.argv[1]}: {len(made)} contexts of {len(connections)} connections")
PYTHON
done
