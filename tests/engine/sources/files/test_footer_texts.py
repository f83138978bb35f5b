"""Footers that the run log keeps: the same as those that are read."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc, parquet

from logdriven_dagster.engine.sources.files.typed import footer_texts, footers
from logdriven_dagster.engine.sources.files.typed.footer_texts import parse_footer, write_footer
from logdriven_dagster.engine.sources.files.typed.held_types import Array, Map, Struct
from logdriven_dagster.engine.sources.known_sources import list_local_versions
from logdriven_dagster.engine.storage.data_files import DataFile
from logdriven_dagster.model.source_rows import FileRows

leaves = st.text(max_size=5)
held = st.recursive(
    leaves,
    lambda inner: (
        st.builds(Array, inner)
        | st.builds(Map, inner, inner)
        | st.lists(st.tuples(leaves, inner), max_size=3).map(lambda each: Struct(tuple(each)))
    ),
    max_leaves=8,
)
columns = st.lists(st.tuples(leaves, held), max_size=4).map(lambda each: Struct(tuple(each)))
features = st.frozensets(st.tuples(st.lists(leaves, max_size=3).map(tuple), leaves), max_size=3)


@given(columns, features, st.booleans())
def test_a_text_holds_the_whole_footer(found, newer, is_of_java):
    text = write_footer(found, newer, is_of_java=is_of_java)
    assert parse_footer(text) == (found, newer, is_of_java)


def test_footers_by_other_versions_are_read_again(monkeypatch: pytest.MonkeyPatch):
    text = write_footer(Struct((("a", "int"),)), frozenset(), is_of_java=True)
    parse_footer.cache_clear()
    monkeypatch.setattr(footer_texts, "_get_readers", lambda: "another version")
    assert parse_footer(text) is None
    parse_footer.cache_clear()


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_a_later_process_opens_no_file_of_a_known_version(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
):
    for n in range(3):
        rows = pa.table({"id": pa.array([n], [pa.int32(), pa.int64()][n % 2]), "of": [[{"x": n}]]})
        write = parquet.write_table if form == "parquet" else orc.write_table
        write(rows, tmp_path / f"{n}.{form}")
    versions = list_local_versions(str(tmp_path))
    assert versions is not None
    files = [DataFile(each.path, each.size, each.modified) for each in versions]
    read = footers.footers(files, form)
    texts = [footers.describe_footer(version, form) for version in versions]
    footers._known.clear()
    known = [
        FileRows("", version, 1, 0, 0, 0, footer=text)
        for version, text in zip(versions, texts, strict=True)
    ]
    footers.learn_footers(known, form)
    monkeypatch.setattr(footers, "_read_footer", lambda path, _form: pytest.fail(f"opens {path}"))
    assert footers.footers(files, form) == read
    footers._known.clear()
