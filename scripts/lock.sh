#!/usr/bin/env bash
# Writes constraints.txt anew from pyproject.toml: one resolution for Python 3.10 and later, the
# development tools included. No index address goes into the file. Needs `make install` once.
set -euo pipefail
cd "$(dirname "$0")/.."
.venv/bin/uv pip compile pyproject.toml --all-extras --group dev \
    --universal --python-version 3.10 --upgrade \
    --no-emit-index-url --no-annotate --no-header --quiet --output-file constraints.txt
