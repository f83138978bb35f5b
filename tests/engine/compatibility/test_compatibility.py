"""What other programs write is read as docs/compatibility.md says: exactly, or refused by name.

`make compatibility` installs the programs, and writes the page. Without them, those that the tests
have anyway write their files, and the cells of the page are compared.
"""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pyspark import __version__ as spark_version

from logdriven_dagster.errors import LogdrivenError
from tests.engine.compatibility.cells import KEPT, PAGE, keep, kept, page
from tests.engine.compatibility.loading import OTHER, REFUSED, outcomes, spark_outcome
from tests.engine.compatibility.writers.manifest import Written
from tests.engine.laboratory import Lab

WRITERS = Path(__file__).parent / "writers"
PROGRAMS = {
    "polars_files": "polars",
    "delta_tables": "deltalake",
    "pyiceberg_tables": "pyiceberg_core",
    "pyorc_files": "pyorc",
}
"""Script → the package that it needs."""
ENVIRONMENT = os.environ.get("LOGDRIVEN_TEST_WRITERS")
"""The environment that `make compatibility` has made."""
SPARK = ".".join(spark_version.split(".")[:2])
HERE = [script for script, package in PROGRAMS.items() if find_spec(package)]
CELLS = [
    pytest.param(key, cell["here"], id=f"{key}, Spark {version}")
    for version, cells in kept()["cells"].items()
    for key, cell in cells.items()
]


def written(script: str, folder: Path, together: Sequence[str] = ()) -> list[Written]:
    """Have a writer write its files; those of the cases in `together` into shared ones."""
    folder.mkdir()
    shared = folder / "together.json"
    shared.write_text(json.dumps(together))
    python = f"{ENVIRONMENT}/bin/python" if ENVIRONMENT else sys.executable
    subprocess.run([python, WRITERS / f"{script}.py", folder, shared], check=True)
    found = json.loads((folder / "manifest.json").read_text())
    return [Written(**each) for each in found]


def files(columns: Sequence[Written]) -> Iterator[list[Written]]:
    by_path = defaultdict(list)
    for each in columns:
        by_path[each.path].append(each)
    yield from by_path.values()


def read_together(cells: dict[str, Any]) -> list[str]:
    """The cases whose columns are read from one file: all but those that fail the window."""
    return [key for key, cell in cells.items() if not cell["here"].startswith(REFUSED)]


def test_the_page_is_what_the_program_has_found():
    assert PAGE.read_text() == page(kept()), "run `make compatibility`"


@pytest.mark.parametrize(("key", "cell"), CELLS)
def test_no_window_is_a_success_with_other_values(key: str, cell: str):
    assert OTHER not in cell


@pytest.mark.parametrize(
    ("key", "cell"), [each for each in CELLS if each.values[1].startswith(REFUSED)]
)
def test_each_refusal_names_column_place_and_fix(key: str, cell: str):
    assert re.search(r"\bv\b", cell)
    assert "FILE" in cell or key.startswith(("iceberg", "delta"))
    assert re.search(
        r"write|declare|name it|fix|CAST|read the files|customSchema|locale|leave", cell
    )


@pytest.mark.usefixtures("long")
@pytest.mark.skipif(ENVIRONMENT is not None, reason="make compatibility loads them one by one")
@pytest.mark.parametrize("script", HERE)
def test_files_of_programs_are_read_as_the_page_says(lab: Lab, script: str):
    cells = kept()["cells"].get(SPARK, {})
    columns = written(script, lab.root / "w", read_together(cells))
    if not any(each.key in cells for each in columns):
        pytest.skip(f"the page has no line of this program on Spark {SPARK}")
    found: dict[str, str] = {}
    for each in files(columns):
        found |= outcomes(lab, each)
    assert found == {key: cells[key]["here"] for key in found}


@pytest.mark.usefixtures("long")
@pytest.mark.skipif(ENVIRONMENT is None, reason="make compatibility installs the programs")
@pytest.mark.parametrize("script", PROGRAMS)
def test_all_cells_are_as_the_page_says(lab: Lab, script: str):
    table = kept()
    before = table["cells"].setdefault(SPARK, {})
    single = written(script, lab.root / "s")
    here: dict[str, str] = {}
    for columns in files(written(script, lab.root / "t", read_together(before))):
        here |= each_outcome(lab, columns, single)
    session = lab.spark.newSession()
    cells = {
        each.key: {"spark": spark_outcome(session, each), "here": here[each.key]} for each in single
    }
    writer = single[0].writer
    known = {key: cell for key, cell in before.items() if f": {writer} " in key}
    table["versions"][writer] = single[0].version
    table["cells"][SPARK] = {k: v for k, v in before.items() if k not in known} | cells
    keep(table)
    changed = {key: cell for key, cell in cells.items() if cell != known.get(key)}
    assert changed == {}, f"{KEPT} is written anew; look at what has changed"
    assert cells.keys() == known.keys()


def each_outcome(lab: Lab, columns: list[Written], single: list[Written]) -> dict[str, str]:
    """Load a file; if its columns cannot be read together, each in a file of its own."""
    try:
        return dict(outcomes(lab, columns))
    except LogdrivenError:
        keys = {each.key for each in columns}
        found: dict[str, str] = {}
        for each in single:
            if each.key in keys:
                found |= outcomes(lab, [each])
        return found
