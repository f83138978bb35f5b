#!/usr/bin/env bash
# pytest 9.2.0 and cloudpickle 3.1.2: a package with an entry point `pytest11` is pickled by value
# with references to pytest while pytest runs.
#
# pytest rewrites the assertions of all modules of a distribution that has a plug-in, also of those
# that the plug-in does not import; `-p no:NAME` does not prevent it. A rewritten module has globals
# of pytest, and `register_pickle_by_value` pickles functions with the globals that they use. So a
# function with an `assert`, sent to workers without the package, needs pytest there, but only in
# tests. Seen: without the entry point the bytes do not name `_pytest`, with it they do.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pytest==9.2.0 cloudpickle==3.1.2
site=$("$folder/venv/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
mkdir "$site/readers" "$site/readers-1.0.dist-info"
cat > "$site/readers/__init__.py" <<'PYTHON'
def read(number):
    assert number >= 0
    return number
PYTHON
echo > "$site/readers/plugin.py"
printf 'Metadata-Version: 2.1\nName: readers\nVersion: 1.0\n' > "$site/readers-1.0.dist-info/METADATA"
printf 'readers/__init__.py,,\nreaders/plugin.py,,\n' > "$site/readers-1.0.dist-info/RECORD"
cd "$folder"
cat > test_sending.py <<'PYTHON'
from pathlib import Path

import cloudpickle
import readers


def test_sending():
    cloudpickle.register_pickle_by_value(readers)
    try:
        sent = cloudpickle.dumps(readers.read)
        seen = "names pytest" if b"_pytest" in sent else "does not name pytest"
    except TypeError as error:
        seen = str(error)
    Path("seen").write_text(seen)
PYTHON
run() { "$folder/venv/bin/python" -m pytest -q -p no:cacheprovider "$@" > out 2>&1 || { cat out; exit 1; }; cat seen; echo; }
without=$(run)
printf '[pytest11]\nreaders = readers.plugin\n' > "$site/readers-1.0.dist-info/entry_points.txt"
rm -rf "$site/readers/__pycache__"
with=$(run)
disabled=$(run -p no:readers)
printf 'without: %s\nwith: %s\nwith, -p no:readers: %s\n' "$without" "$with" "$disabled"
[ "$without" = "does not name pytest" ]
[ "$with" != "does not name pytest" ]
[ "$disabled" = "$with" ]
