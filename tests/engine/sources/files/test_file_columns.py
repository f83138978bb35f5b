"""Facts about the file of each row are columns of their own."""

import pyarrow as pa
import pytest
from pyarrow import parquet

from logdriven_dagster.errors import InvalidProjectError
from tests.engine.laboratory import Lab
from tests.engine.sources.files.loading import json_lines, load, refused

FACTS = {"file": "file_name", "bytes": "file_size", "at": "file_modification_time"}
SOURCES = {
    "csv": {"type": "csv", "path": "in/*.csv", "columns": "a INT"},
    "lenient csv": {"type": "csv", "path": "in/*.csv", "columns": "a INT", "mode": "PERMISSIVE"},
    "json": json_lines("a INT", path="in/*.json"),
    "inferred json": {"type": "json", "path": "in/*.json"},
    "parquet": {"type": "parquet", "path": "in/*.parquet"},
    "parquet of two types": {"type": "parquet", "path": "in/?.parquet"},
}


@pytest.mark.sampled
@pytest.mark.parametrize("case", SOURCES)
def test_each_row_has_the_facts_of_its_file(lab: Lab, case: str):
    lab.file("in/a.csv", "1\n")
    lab.file("in/b.json", '{"a": 1}\n')
    times = pa.array([1], pa.timestamp("ns"))
    parquet.write_table(pa.table({"a": [1], "t": times.cast("int64")}), lab.root / "in/cc.parquet")
    if "two types" in case:
        parquet.write_table(pa.table({"a": pa.array([1], pa.uint32())}), lab.root / "in/d.parquet")
        parquet.write_table(pa.table({"a": pa.array([1], pa.int32())}), lab.root / "in/e.parquet")
    source = SOURCES[case] | {"file_columns": FACTS}
    load(lab, source, "SELECT file, bytes, at IS NOT NULL AS timed, a FROM source")
    found = lab.rows("ods.t")
    names = {"csv": ["a.csv"], "json": ["b.json"], "parquet": ["cc.parquet"]}
    expected = ["d.parquet", "e.parquet"] if "two types" in case else names[source["type"]]
    sizes = [(lab.root / "in" / name).stat().st_size for name in expected]
    assert sorted(found) == [
        (name, size, True, 1) for name, size in zip(expected, sizes, strict=True)
    ]


def test_rows_of_parquet_have_their_number(lab: Lab):
    (lab.root / "in").mkdir()
    parquet.write_table(pa.table({"a": [7, 8]}), lab.root / "in/f.parquet")
    load(lab, {"type": "parquet", "path": "in", "file_columns": {"row": "row_index"}})
    assert sorted(lab.rows("ods.t")) == [(7, 0), (8, 1)]


def test_a_window_without_files_has_the_columns(lab: Lab):
    source = {"path": "no/*.csv", "missing_files": "no_rows", "file_columns": FACTS}
    load(lab, SOURCES["csv"] | source | {"path": "no/${DATA_RANGE:yyyy}/*.csv"})
    assert lab.rows("ods.t") == []


def test_only_parquet_has_numbers_of_rows(lab: Lab):
    with pytest.raises(InvalidProjectError, match="row_index is only known for parquet"):
        load(lab, SOURCES["csv"] | {"file_columns": {"row": "row_index"}})


def test_a_column_of_the_files_is_not_hidden(lab: Lab):
    lab.file("in/b.json", '{"a": 1}\n')
    problem = refused(lab, SOURCES["inferred json"] | {"file_columns": {"A": "file_name"}})
    assert "the files have a column A" in problem
