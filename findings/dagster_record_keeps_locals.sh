#!/usr/bin/env bash
# Dagster 1.13.27: a `@record` class keeps the local variables of the function that is the first to make
# an object of it, for the life of the process. The constructor is compiled then, and its globals are
# those of the caller, updated with the caller's locals (`EvalContext.update_from_frame`).
# So a sensor that plans ten thousand tables and returns a `RunRequest` keeps its first plan, and a
# function that ends in `return Definitions(…)` keeps what it needed to build them.
# Seen: the large list is alive after the function that made the first RunRequest has returned; the
# one of the second call is freed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "dagster==1.13.27"
"$folder/venv/bin/python" - <<'PYTHON'
import gc
import weakref

from dagster import RunRequest


class Plan:
    """A large value."""


def tick():
    plan = Plan()
    seen = weakref.ref(plan)
    return RunRequest(run_key="1"), seen


kept = []
for _ in range(2):
    seen = tick()[1]
    gc.collect()
    kept.append(seen() is not None)
print("kept after the first and the second call:", kept)
assert kept == [True, False], "Dagster frees the variables of the first caller now"
PYTHON
