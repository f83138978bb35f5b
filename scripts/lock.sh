#!/usr/bin/env bash
# Writes constraints.txt anew from pyproject.toml: one resolution for Python 3.10 and later, the
# development tools included; and what builds packages (build.txt), and uv itself (uv.txt). All of
# them hold the hashes of every file. No index address goes into them. Needs `make install` once.
# Arguments name the packages to upgrade, instead of all: scripts/lock.sh pyyaml
set -euo pipefail
cd "$(dirname "$0")/.."
upgrade=(--upgrade)
[ $# -eq 0 ] || upgrade=("${@/#/--upgrade-package=}")
compile() {
    .venv/bin/uv pip compile "$@" --universal --python-version 3.10 "${upgrade[@]}" --generate-hashes \
        --no-emit-index-url --no-annotate --no-header --quiet
}
compile pyproject.toml core/pyproject.toml --all-extras --group dev --group docs \
    --output-file constraints.txt
printf 'hatchling\nsetuptools\nwheel\n' | compile - --output-file scripts/build.txt
echo uv | compile - --output-file scripts/uv.txt
