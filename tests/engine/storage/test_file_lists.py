"""Many files are read from a list: the same rows as by their paths, and nobody looks for them."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as sf

from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.spark.mode import is_connect
from logdriven_dagster.engine.spark.session import fresh_session
from logdriven_dagster.engine.storage import file_lists
from logdriven_dagster.engine.storage.file_lists import listing_files
from logdriven_dagster.engine.storage.locations import spark_path
from logdriven_dagster.engine.storage.spark_files import read_files
from logdriven_dagster.engine.targets.garbage import find_garbage
from logdriven_dagster.errors import TerminalStepError
from tests.engine.laboratory import Lab
from tests.lake import Lake

pytestmark = pytest.mark.connect

FOLDERS = [
    "_job=7/n=x",
    "a b#c%20d+e=f",
    "größe [1] {2} 漢字",
    "_window_start=2022-01-01 00%3A00",
    "spaces\u00a0of\u3000others",
]
MANY = 40


@pytest.fixture
def files(lab: Lab) -> dict[str, int]:
    """Files of two rows each in folders of all kinds of names, with their bytes."""
    import pyarrow as pa
    from pyarrow import parquet

    found = {}
    for number in range(MANY):
        folder = lab.root / "theirs" / FOLDERS[number % len(FOLDERS)]
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"part {number}%.parquet"
        parquet.write_table(pa.table({"n": [2 * number, 2 * number + 1]}), path)
        found[f"file://{path}"] = path.stat().st_size
    return found


@pytest.fixture
def session(lab: Lab) -> Iterator[Any]:
    """A session as a window has it."""
    project = lab.project
    lab.table("ods.t", {"sql": "SELECT 1 AS v", "target": {"type": "parquet"}})
    with (
        fresh_session(lab.spark, project) as spark,
        listing_files(spark, project, "ods.t", 1),
    ):
        yield spark


def read(spark: Any, files: Any) -> Any:
    from pyspark.sql.types import LongType, StructType

    return read_files(spark, "parquet", files, StructType().add("n", LongType()))


def in_full(frame: Any) -> list[tuple[Any, ...]]:
    """Each row, with the file and the place that it is from."""
    columns = ["n", sf.col("_metadata.file_path"), sf.col("_metadata.row_index")]
    return sorted(tuple(row) for row in frame.select(*columns).collect())


def lists(lab: Lab) -> list[Path]:
    return sorted((lab.root / ".logdriven").glob("**/_spark_metadata"))


def test_the_rows_are_those_of_the_paths(lab: Lab, session: Any, files: dict[str, int]):
    frame = read(session, files)
    assert frame.columns == ["n"]
    assert in_full(frame) == in_full(read(session, list(files)))
    assert {row[1] for row in in_full(frame)} == {spark_path(file) for file in files}
    assert len(lists(lab)) == 1


def test_names_that_look_like_patterns_name_one_file_or_folder_each(lab: Lab):
    import pyarrow as pa
    from pyarrow import parquet

    lab.root /= "shop [1] {2,3}?*"
    files = {}
    for number in range(MANY):
        path = lab.root / "theirs" / f"[{number % 10}]*{{{number}}}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.table({"n": [2 * number, 2 * number + 1]}), path)
        files[f"file://{path}"] = path.stat().st_size
    lab.table("ods.t", {"sql": "SELECT 1 AS v", "target": {"type": "parquet"}})
    project = lab.project
    with (
        fresh_session(lab.spark, project) as spark,
        listing_files(spark, project, "ods.t", 1),
    ):
        for given in (files, list(files), list(files)[:1], list(files)[:3]):
            assert read(spark, given).count() == 2 * len(given)


def test_no_job_of_spark_looks_for_the_files(session: Any, files: dict[str, int]):
    if is_connect(session):
        pytest.skip("a server's pages show no jobs of analysis")
    session.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", "32")
    before = jobs(session)
    frame = read(session, files)
    assert jobs(session) == before
    read(session, list(files))
    assert jobs(session) == before + 1
    assert frame.count() == 2 * MANY


def jobs(spark: Any) -> int:
    """The number of the newest job; the store forgets old ones."""
    context = spark._jsparkSession.sparkContext()
    context.listenerBus().waitUntilEmpty()
    known = context.statusStore().jobsList(spark._jvm.java.util.ArrayList())
    return max(int(known.apply(n).jobId()) for n in range(known.size()))


def test_no_file_is_looked_for_before_it_is_read(session: Any):
    nowhere = {f"file:///nowhere/{number}.parquet": 100 for number in range(MANY)}
    assert read(session, nowhere).where("false").collect() == []


def test_a_list_in_a_store_is_two_requests_however_long_it_is(lab: Lab, lake: Lake):
    lab.settings |= lake.settings(lab.root) | {"catalog": f"sqlite:///{lab.root}/catalog.db"}
    lab.table("ods.t", {"sql": "SELECT 1 AS v", "target": {"type": "parquet"}})
    project, asked = lab.project, []
    for length in (MANY, 20 * MANY):
        lake.faults.forget()
        nowhere = {f"s3://lake/{number}.parquet": 100 for number in range(length)}
        with (
            fresh_session(lab.spark, project) as spark,
            listing_files(spark, project, "ods.t", 1),
        ):
            read(spark, nowhere)
            made = lake.faults.requests.total()
        asked.append((made, lake.faults.requests.total()))
    assert asked[0] == asked[1]
    assert asked[0][0] == 2
    assert asked[0][1] <= 5


def test_files_of_unknown_size_are_looked_for(lab: Lab, session: Any, files: dict[str, int]):
    assert read(session, list(files)).count() == 2 * MANY
    assert read(session, dict.fromkeys(files, 0)).count() == 2 * MANY
    assert not lists(lab)


def test_a_file_that_is_gone_is_named(session: Any, files: dict[str, int]):
    gone = Path(next(iter(files)).removeprefix("file://"))
    gone.unlink()
    session.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    with pytest.raises(TerminalStepError) as caught, step_errors():
        read(session, files).collect()
    assert gone.name in str(caught.value)


def test_a_list_that_spark_passes_over_is_no_empty_table(
    session: Any, files: dict[str, int], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(file_lists, "_LOG", "_elsewhere")
    session.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    with pytest.raises(TerminalStepError, match="Spark did not use the list"), step_errors():
        read(session, files).collect()


def test_a_session_for_which_such_lists_mean_nothing_reads_by_paths(
    lab: Lab, session: Any, files: dict[str, int]
):
    session.conf.set("spark.sql.streaming.fileStreamSink.ignoreMetadata", "true")
    assert read(session, files).count() == 2 * MANY
    assert not lists(lab)


def test_lists_go_with_the_session(lab: Lab, files: dict[str, int]):
    project = lab.project
    with (
        fresh_session(lab.spark, project) as spark,
        listing_files(spark, project, "ods.t", 1),
    ):
        read(spark, files)
        read(spark, files)
        assert len(lists(lab)) == 2
    assert not lists(lab)
    assert read(lab.spark, files).count() == 2 * MANY


def test_clean_finds_lists_of_a_session_that_was_killed(
    lab: Lab, session: Any, files: dict[str, int]
):
    read(session, files)
    at_once = timedelta(seconds=-5)
    assert not list(find_garbage(lab.project, lambda job, _: job == 1, at_once))
    (found,) = find_garbage(lab.project, lambda *_: False, at_once)
    assert found.location.rpartition("/")[2].startswith("1-files")
    found.remove()
    assert not lists(lab)
