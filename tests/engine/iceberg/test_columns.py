"""Files that windows staged are known by their paths, whichever engine wrote them."""

import pytest

from logdriven_dagster.engine.iceberg.columns import is_staged_here

BY_SPARK = "part-00000-b9de4894-9fc3-445b-8062-30c2421a078f-c000.snappy.parquet"
BY_SAIL = "dgGa1U0XpM7qcMWL_0.zst.parquet"


@pytest.mark.parametrize("folder", ["data/1-load", "data/27-load/day=2022-01-01"])
@pytest.mark.parametrize("name", [BY_SPARK, BY_SAIL])
def test_a_file_in_the_folder_of_an_attempt_was_staged_here(folder: str, name: str) -> None:
    assert is_staged_here(f"file:///wh/ods/t/{folder}/{name}")


@pytest.mark.parametrize(
    "path", ["data/00000-0-5a7d.parquet", "data/2022-01-01/0.parquet", f"other/1-load/{BY_SPARK}"]
)
def test_other_files_were_not(path: str) -> None:
    assert not is_staged_here(f"s3://wh/ods/t/{path}")
