"""Files of other programs are read as docs/evidence/compatibility.md says, or refused by name.

`make compatibility` installs the programs, and writes the page. Without them, those that the tests
have anyway write their files, and the cells of the page are compared.
"""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pyspark import __version__ as spark_version
from sqlalchemy import URL

from logdriven_dagster.errors import LogdrivenError
from tests.engine.compatibility.cells import KEPT, PAGE, keep, kept, page
from tests.engine.compatibility.databases import (
    columns_of,
    plain_options,
    prepare,
    target_outcome,
    written_by_spark,
    written_together,
)
from tests.engine.compatibility.loading import OTHER, REFUSED, outcomes, spark_outcome
from tests.engine.compatibility.table_features import FEATURES, outcome
from tests.engine.compatibility.writers.manifest import Written
from tests.engine.laboratory import Lab
from tests.needs import rarely

WRITERS = Path(__file__).parent / "writers"
PROGRAMS = {
    "polars_files": "polars",
    "duckdb_files": "duckdb",
    "pandas_files": "pandas",
    "fastparquet_files": "fastparquet",
    "pyarrow_files": "pyarrow",
    "delta_tables": "deltalake",
    "pyiceberg_tables": "pyiceberg_core",
    "pyorc_files": "pyorc",
    "fastavro_files": "fastavro",
    "xlsxwriter_files": "xlsxwriter",
    "numpy_files": "numpy",
}
"""Script → the package that it needs."""
ENVIRONMENT = os.environ.get("LOGDRIVEN_TEST_WRITERS")
"""The environment that `make compatibility` has made."""
TABLES = ("iceberg", "delta", "postgresql", "mariadb", "into ")
"""Beginnings of the keys of cases without a file."""
SPARK = ".".join(spark_version.split(".")[:2])
HERE = [script for script, package in PROGRAMS.items() if find_spec(package)]
CELLS = [
    (f"{key}, Spark {version}", cell["here"])
    for version, cells in kept()["cells"].items()
    for key, cell in cells.items()
]
FIX = re.compile(
    r"write|convert|declare|name it|fix|CAST|read the files|customSchema|locale|leave|rename|"
    r"use Spark|open and save"
)


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


def test_no_window_is_a_success_with_other_values():
    assert [key for key, cell in CELLS if OTHER in cell] == []


def test_each_refusal_names_column_place_and_fix():
    refusals = [(key, cell) for key, cell in CELLS if cell.startswith(REFUSED)]
    assert [
        f"{key}: {cell}"
        for key, cell in refusals
        if not (" features: " in key or (re.search(r"\bv\b", cell) and FIX.search(cell)))
        or not ("FILE" in cell or key.startswith(TABLES))
    ] == []


@pytest.mark.usefixtures("long")
@pytest.mark.skipif(ENVIRONMENT is not None, reason="make compatibility loads them one by one")
@pytest.mark.parametrize(
    "script",
    [*({"delta_tables"} & {*HERE}), *rarely(*(each for each in HERE if each != "delta_tables"))],
)
def test_files_of_programs_are_read_as_the_page_states(lab: Lab, script: str):
    cells = kept()["cells"].get(SPARK, {})
    columns = written(script, lab.root / "w", read_together(cells))
    first = columns[0]
    if not any(each.key in cells for each in columns):
        pytest.skip(f"the page has no line of this program on Spark {SPARK}")
    if first.version != kept()["versions"][first.writer]:
        pytest.skip(f"the page is of another version than {first.version}")
    found: dict[str, str] = {}
    for each in files(columns):
        found |= outcomes(lab, each)
    assert found == {key: cells[key]["here"] for key in found}


@pytest.mark.usefixtures("long")
@pytest.mark.skipif(ENVIRONMENT is not None, reason="make compatibility loads them one by one")
def test_columns_of_postgresql_are_as_the_page_states(lab: Lab, postgres_url: URL):
    compare(lab, postgres_url)


@pytest.mark.usefixtures("long")
@pytest.mark.skipif(ENVIRONMENT is not None, reason="make compatibility loads them one by one")
def test_columns_of_mariadb_are_as_the_page_states(lab: Lab, mariadb_url: URL):
    compare(lab, mariadb_url)


@pytest.mark.usefixtures("long")
@pytest.mark.skipif(ENVIRONMENT is None, reason="make compatibility installs the programs")
@pytest.mark.parametrize("script", PROGRAMS)
def test_all_cells_are_as_the_page_states(lab: Lab, script: str):
    before = kept()["cells"].get(SPARK, {})
    single = written(script, lab.root / "s")
    here: dict[str, str] = {}
    for columns in files(written(script, lab.root / "t", read_together(before))):
        here |= each_outcome(lab, columns, single)
    session = lab.spark.newSession()
    cells = {
        each.key: {"spark": spark_outcome(session, each), "here": here[each.key]} for each in single
    }
    renew(cells, single[0])


@pytest.mark.usefixtures("long")
@pytest.mark.skipif(ENVIRONMENT is None, reason="make compatibility writes the page")
def test_all_cells_of_postgresql_are_as_the_page_states(lab: Lab, postgres_url: URL):
    renew_database(lab, postgres_url)


@pytest.mark.usefixtures("long")
@pytest.mark.skipif(ENVIRONMENT is None, reason="make compatibility writes the page")
def test_all_cells_of_mariadb_are_as_the_page_states(lab: Lab, mariadb_url: URL):
    renew_database(lab, mariadb_url)


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("form", FEATURES)
def test_features_of_tables_are_as_the_page_states(spark: Any, tmp_path: Path, form: str):
    cells: dict[str, Any] = {}
    for number, (name, case) in enumerate(FEATURES[form].items()):
        root = tmp_path / str(number)
        root.mkdir()
        cells[f"{form} features: {name}"] = {
            "spark": "needs a jar",
            "here": outcome(Lab(root, spark), case),
        }
    renew_cells(cells, f"{form} features: ")


def renew(cells: dict[str, Any], first: Written) -> None:
    """Write the lines of a program to the page; a line that has changed is a failure."""
    renew_cells(cells, f": {first.writer} ", {first.writer: first.version})


def renew_cells(cells: dict[str, Any], text: str, versions: Mapping[str, str] = {}) -> None:
    """Write the lines whose keys contain `text` to the page; a change is a failure."""
    table = kept()
    before = table["cells"].setdefault(SPARK, {})
    known = {key: cell for key, cell in before.items() if text in key}
    if ENVIRONMENT is None:
        assert cells == known
        return
    table["versions"] |= versions
    table["cells"][SPARK] = {k: v for k, v in before.items() if k not in known} | cells
    keep(table)
    changed = {key: cell for key, cell in cells.items() if cell != known.get(key)}
    assert changed == {}, f"{KEPT} is written again; look at the changes"
    assert cells.keys() == known.keys()


def renew_database(lab: Lab, url: URL) -> None:
    """Read each type of column from a table of its own, and write each value into one."""
    base = prepare(lab, url)
    single = list(columns_of(base))
    here: dict[str, str] = {}
    together = read_together(kept()["cells"].get(SPARK, {}))
    for columns in files(list(columns_of(base, together))):
        here |= each_outcome(lab, columns, single)
    session = lab.spark.newSession()
    connection = lab.project.connection("db")
    options = plain_options(connection)
    cells = {
        each.key: {"spark": spark_outcome(session, each, options), "here": here[each.key]}
        for each in single
    }
    for key, target in base.targets.items():
        cells[key] = {
            "spark": written_by_spark(session, lab, base, target),
            "here": target_outcome(lab, base, target),
        }
    renew(cells, single[0])


def compare(lab: Lab, url: URL) -> None:
    """Read and write the columns of the page, those that are not refused in one table."""
    base = prepare(lab, url)
    cells = kept()["cells"].get(SPARK, {})
    together = read_together(cells)
    found: dict[str, str] = {}
    for columns in files(list(columns_of(base, together))):
        found |= outcomes(lab, columns)
    shared = {key: each for key, each in base.targets.items() if key in together}
    if shared:
        texts = written_together(lab, base, list(shared.values()))
        found |= dict(zip(shared, texts, strict=True))
    for key in base.targets.keys() - shared.keys():
        found[key] = target_outcome(lab, base, base.targets[key])
    if not any(key in cells for key in found):
        pytest.skip(f"the page has no line of this database on Spark {SPARK}")
    assert found == {key: cells[key]["here"] for key in found}


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
