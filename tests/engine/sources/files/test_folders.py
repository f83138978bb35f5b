"""Values in names of folders, and folders that belong to writers."""

from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.engine.laboratory import Lab
from tests.engine.sources.files.loading import json_lines, load, refused
from tests.lake import Lake

BERLIN = ZoneInfo("Europe/Berlin")


def put(lab: Lab, name: str, **columns: Any) -> Path:
    path = lab.root / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table({name: [value] for name, value in columns.items()}), path)
    return path


def texts(lab: Lab, column: str, **fields: Any) -> list[str]:
    source = {"type": "parquet", "path": "in", **fields}
    load(lab, source, f"SELECT CAST({column} AS STRING) AS v, typeof({column}) AS t FROM source")
    return [f"{value} {kind}" for value, kind in lab.rows("ods.t")]


FOLDERS = {
    "leading zeros": (["v=01234", "v=5"], ["01234 string", "5 string"]),
    "trailing zeros": (["v=1.10", "v=2.5"], ["1.10 string", "2.5 string"]),
    "the letter of a type": (["v=5d"], ["5d string"]),
    "an exponent": (["v=1e3"], ["1e3 string"]),
    "a wall time that clocks skip": (
        ["v=2026-03-29 02%3A30%3A00"],
        ["2026-03-29 02:30:00 string"],
    ),
    "whole numbers": (["v=7", "v=-12"], ["-12 int", "7 int"]),
    "large numbers": (["v=12345678901"], ["12345678901 bigint"]),
    "fractions": (["v=2.5"], ["2.5 double"]),
    "days": (["v=2026-01-31"], ["2026-01-31 date"]),
    "times": (["v=2026-01-31 02%3A30%3A00"], ["2026-01-31 02:30:00 timestamp"]),
    "no value": (["v=7", "v=__HIVE_DEFAULT_PARTITION__"], ["7 int", "None int"]),
}


@pytest.mark.sampled
@pytest.mark.parametrize("case", FOLDERS)
def test_a_value_in_a_folder_that_does_not_read_back_stays_a_text(lab: Lab, case: str):
    lab.settings["timezone"] = "Europe/Berlin"
    folders, expected = FOLDERS[case]
    for folder in folders:
        put(lab, f"{folder}/f.parquet", a=1)
    assert sorted(texts(lab, "v")) == expected


@pytest.mark.parametrize("place", ["2026/v=1", "2026/v=1/part", "v=1/part"])
def test_files_in_plain_folders_above_or_below_a_column_are_read_and_checked(lab: Lab, place: str):
    put(lab, f"{place}/f.parquet", a=1)
    assert texts(lab, "v") == ["1 int"]
    bad = lab.root / "in" / place.replace("v=1", "v=2") / "f.parquet"
    bad.parent.mkdir(parents=True)
    parquet.write_table(pa.table({"a": pa.array([2**64 - 1], pa.uint64())}), bad)
    source = {"type": "parquet", "path": "in", "columns": "a BIGINT, v INT"}
    assert f"{bad}: the column a" in refused(lab, source)


def test_folders_with_escaped_bytes_of_utf8_are_refused(lab: Lab):
    """DuckDB writes such names; Spark reads each byte as a character."""
    put(lab, "v=Zürich/f.parquet", a=1)
    put(lab, "v=Gen%2Fève/f.parquet", a=1)
    assert sorted(texts(lab, "v")) == ["Gen/ève string", "Zürich string"]
    put(lab, "v=K%C3%B6ln/f.parquet", a=1)
    for columns in ({}, {"columns": "a INT, v STRING"}):
        problem = refused(lab, {"type": "parquet", "path": "in", **columns})
        assert f"the folder {lab.root}/in/v=K%C3%B6ln contains escaped bytes, each of" in problem
        assert "rename v=K%C3%B6ln to v=Köln" in problem


@pytest.mark.sampled
@pytest.mark.connect
@pytest.mark.parametrize("source", [json_lines("a INT"), {"type": "json", "path": "in"}])
def test_folders_of_text_files_keep_their_texts_too(lab: Lab, source: dict[str, Any]):
    lab.file("in/v=01234/f.json", '{"a": 1}\n')
    load(lab, source, "SELECT a, v FROM source")
    assert lab.rows("ods.t") == [(1, "01234")]


def test_folders_below_a_pattern_keep_their_texts(lab: Lab):
    put(lab, "x/v=01234/f.parquet", a=1)
    assert texts(lab, "v", path="in/*") == ["01234 string"]


DECLARED = {
    "a fraction": ("v DECIMAL(9, 2)", "2.5", "decimal(9,2)"),
    "the letter of a type": ("v DOUBLE", "5d", "double"),
    "a wall time that clocks skip": ("v TIMESTAMP", "2026-03-29 02%3A30%3A00", "timestamp"),
    "a number that would wrap around": ("v TINYINT", "300", "tinyint"),
    "a number that would be rounded": ("v FLOAT", "16777217", "float"),
    "a text": ("v INT", "abc", "int"),
    "another word than true or false": ("v BOOLEAN", "yes", "boolean"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("case", DECLARED)
def test_a_value_in_a_folder_that_its_declared_type_would_change_is_refused(lab: Lab, case: str):
    lab.settings["timezone"] = "Europe/Berlin"
    column, text, kind = DECLARED[case]
    put(lab, f"v={text}/f.parquet", a=1)
    problem = refused(lab, {"type": "parquet", "path": "in", "columns": f"a BIGINT, {column}"})
    assert f"is not a {kind} that Spark reads exactly; write v STRING in `columns`" in problem
    assert texts(lab, "v", columns="a BIGINT, v STRING")[0].endswith("string")


def test_a_column_of_a_file_that_its_folder_hides_is_refused(lab: Lab):
    path = put(lab, "id=7/f.parquet", id=1, a=1)
    problem = refused(lab, {"type": "parquet", "path": "in"})
    assert f"{path}: the column id is in the file and in the name of its folder" in problem
    assert texts(lab, "id", path="in/*/*.parquet") == ["1 bigint"]


def test_a_column_that_folder_and_file_agree_about_is_read(lab: Lab):
    put(lab, "id=7/f.parquet", id=7, a=1)
    assert texts(lab, "id") == ["7 int"]


@pytest.mark.sampled
@pytest.mark.parametrize("path", ["in", "in/*", "in/*/*", "in/?*"])
def test_folders_of_unfinished_writers_are_not_read(lab: Lab, path: str):
    deep = "x/" if path == "in/*/*" else ""
    put(lab, f"{deep}f.parquet", a=1)
    for folder in ("_temporary/0", ".spark-staging-1/v"):
        put(lab, f"{deep}{folder}/f.parquet", a=2)
    load(lab, {"type": "parquet", "path": path})
    assert lab.rows("ods.t") == [(1,)]


def test_a_folder_of_a_writer_that_is_named_is_read(lab: Lab):
    put(lab, "_done/f.parquet", a=1)
    load(lab, {"type": "parquet", "path": "in/_done/*"})
    assert lab.rows("ods.t") == [(1,)]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_text_of_unfinished_writers_is_not_read(lab: Lab, form: str):
    text = {"csv": "a\n{}\n", "json": '{{"a": {}}}\n'}[form]
    lab.file(f"in/f.{form}", text.format(1))
    lab.file(f"in/_temporary/0/f.{form}", text.format(2))
    header = {"header": True} if form == "csv" else {}
    load(lab, {"type": form, "path": "in/*", "columns": "a INT", **header})
    assert lab.rows("ods.t") == [(1,)]


def test_files_of_a_pattern_are_looked_at_as_those_of_a_folder(lab: Lab):
    path = lab.root / "in/f.parquet"
    path.parent.mkdir()
    parquet.write_table(pa.table({"u": pa.array([2**64 - 1], pa.uint64())}), path)
    source = {"type": "parquet", "path": "in/*.parquet", "columns": "u BIGINT"}
    assert f"{path}: the column u is unsigned bigint" in refused(lab, source)


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_a_file_next_to_folders_of_columns_is_refused(lab: Lab, form: str):
    """Spark would read the files in the folders only."""
    text = {"csv": "{}\n", "json": '{{"a": {}}}\n'}.get(form, "")
    for number, name in enumerate((f"f.{form}", f"v=2/f.{form}"), 1):
        put(lab, name, a=number)
        if text:
            lab.file(f"in/{name}", text.format(number))
    put(lab, "_SUCCESS", a=1)
    for columns in ({"columns": "a BIGINT"}, {"columns": "a BIGINT, v INT"}):
        problem = refused(lab, {"type": form, "path": "in", **columns})
        assert f"{lab.root}/in/f.{form}: the file is next to folders such as v=2" in problem
        assert "move it into such a folder" in problem
    (lab.root / f"in/f.{form}").unlink()
    load(lab, {"type": form, "path": "in", "columns": "a BIGINT"})
    assert lab.rows("ods.t") == [(2, 2)]


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_a_file_next_to_folders_is_refused_in_an_object_store_too(lab: Lab, lake: Lake, form: str):
    lab.settings.update(lake.settings(lab.root))
    url = lake.url(lab.root / "in")
    for number, name in enumerate((f"f.{form}", f"v=2/f.{form}"), 1):
        put(lab, name, a=number)
        if form == "json":
            lab.file(f"in/{name}", f'{{"a": {number}}}\n')
    source = {"type": form, "path": url, "columns": "a BIGINT, v INT"}
    problem = refused(lab, source)
    assert f"{url}/f.{form}: the file is next to folders such as v=2" in problem
    load(lab, source | {"path": f"{url}/*.{form}", "columns": "a BIGINT"})
    assert lab.rows("ods.t") == [(1,)]
    (lab.root / f"in/f.{form}").unlink()
    load(lab, {**source, "columns": "a BIGINT"}, "SELECT a FROM source")
    assert lab.rows("ods.t") == [(2,)]


def test_folders_that_are_not_read_are_not_looked_at(lab: Lab):
    put(lab, "archive/f.parquet", a=1, b=2)
    put(lab, "f.parquet", a=1)
    load(lab, {"type": "parquet", "path": "in"})
    assert lab.rows("ods.t") == [(1,)]
