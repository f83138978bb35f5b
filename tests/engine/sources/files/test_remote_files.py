"""Parquet and ORC files in an object store: read by the footers of all files, as local ones are."""

import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet
from pyspark.errors import PySparkException
from s3fs import S3FileSystem

from logdriven_dagster.engine.sources.file_rows import FileSelection, local_path
from logdriven_dagster.engine.sources.files import arrivals as listed
from logdriven_dagster.engine.sources.files.arrivals import arrivals, has_files
from logdriven_dagster.engine.sources.files.listing import files_below, remote_files
from logdriven_dagster.engine.sources.files.loading import build_cache_key
from logdriven_dagster.engine.sources.known_sources import KnownSources
from logdriven_dagster.engine.sources.readers import Reading, read_source
from logdriven_dagster.engine.storage.locations import file_system
from logdriven_dagster.errors import TerminalStepError, TransientStepError
from scripts.lake.faults import Fault
from tests.builders import at, day
from tests.engine.laboratory import Lab
from tests.execution.conftest import World
from tests.lake import Lake

KINDS = ["parquet", "orc"]
FILES = """
    table: ods.lines
    incremental_type: files
    period: 1 day
    steps:
      - step: load
        source: {{type: parquet, path: {url}}}
        target: {{type: parquet}}
"""
AT = datetime(2022, 1, 1, 12)


def write(folder: Path, name: str, columns: Any, **options: Any) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    (orc if path.suffix == ".orc" else parquet).write_table(table, path, **options)


def reading_of(lab: Lab, source: dict[str, Any], **fields: Any) -> tuple[Reading, Any]:
    lab.table("ods.t", {"source": source, "target": {"type": "parquet"}}, **fields)
    run, project = lab.window_run("ods.t", day(1)), lab.project
    reading = Reading(project, lab.spark, run, lambda: None, KnownSources())
    return reading, project.table("ods.t").steps[0].source


def read(lab: Lab, path: str, kind: str, **fields: Any) -> list[tuple[Any, ...]] | str:
    """Return the sorted rows of a source, or the error that refuses it."""
    reading, source = reading_of(
        lab, {"type": kind, "path": path, **fields.pop("source", {})}, **fields
    )
    try:
        frame = read_source(reading, source)
        return [(*sorted(frame.columns),), *sorted(map(tuple, frame.collect()), key=repr)]
    except (TerminalStepError, PySparkException) as error:
        return str(error)


def files_discovered(spark: Any) -> int:
    """Spark's own counter of the files that it has listed."""
    metrics = spark._jvm.org.apache.spark.metrics.source.HiveCatalogMetrics
    return int(metrics.METRIC_FILES_DISCOVERED().getCount())


def with_storage(lab: Lab, lake: Lake) -> None:
    lab.settings = {**lab.settings, "storage": lake.settings(lab.root)["storage"]}


def with_local_paths(lab: Lab, lake: Lake, found: Any) -> Any:
    """Return a text with relative paths in place of local paths and URLs."""
    places = (lake.url(lab.root), str(lab.root))
    if isinstance(found, str):
        found = found.replace("s3a:", "s3:")
        for place in places:
            found = found.replace(f"{place}/in", "in")
    return found


def copied_schema(folder: Path) -> pa.Table:
    """Return a table with the schema that Spark wrote, and a column that is not in it."""
    schema = '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}'
    metadata = {"org.apache.spark.sql.parquet.row.metadata": schema}
    return pa.table({"n": [1], "extra": ["x"]}).replace_schema_metadata(metadata)


CASES: dict[str, Callable[[Path, str], None]] = {
    "an added column": lambda folder, kind: (
        write(folder, f"a.{kind}", {"n": [1]}),
        write(folder, f"b.{kind}", {"n": [2], "extra": ["x"]}),
    ),
    "two types": lambda folder, kind: (
        write(folder, f"a b.{kind}", {"n": pa.array([1], pa.int32())}),
        write(folder, f"b.{kind}", {"n": pa.array([2**40])}),
    ),
    "two types in folders": lambda folder, kind: (
        write(folder, f"ds=2022-01-01/a.{kind}", {"n": pa.array([1], pa.int32())}),
        write(folder, f"ds=2022-01-02/a.{kind}", {"n": pa.array([2**40])}),
    ),
    "a column of NULL": lambda folder, kind: (
        write(folder, f"a.{kind}", {"n": pa.array([None], pa.int32())}),
        write(folder, f"b.{kind}", {"n": ["x"]}),
    ),
    "no common type": lambda folder, kind: (
        write(folder, f"a.{kind}", {"n": [1]}),
        write(folder, f"b.{kind}", {"n": ["x"]}),
    ),
    "digits of nanoseconds": lambda folder, kind: write(
        folder, f"a.{kind}", {"at": pa.array([1_640_995_200_000_000_001], pa.timestamp("ns"))}
    ),
    "a column that is also a folder": lambda folder, kind: write(
        folder, f"n=1/a.{kind}", {"n": [2], "m": [3]}
    ),
}
OF_PARQUET: dict[str, Callable[[Path, str], None]] = {
    "a copied schema": lambda folder, _: write(folder, "a.parquet", copied_schema(folder)),
    "a column that is also the same folder": lambda folder, _: write(
        folder, "n=1/a.parquet", {"n": [1], "m": [3]}
    ),
    "INT96 with nanoseconds": lambda folder, _: write(
        folder,
        "a.parquet",
        {"at": pa.array([1_640_995_200_000_000_001], pa.timestamp("ns"))},
        use_deprecated_int96_timestamps=True,
    ),
}


@pytest.mark.parametrize(
    ("case", "kind"),
    [*((case, kind) for case in CASES for kind in KINDS), *((c, "parquet") for c in OF_PARQUET)],
)
def test_files_of_an_object_store_are_read_or_refused_as_local_ones(
    lab: Lab, lake: Lake, case: str, kind: str
):
    (CASES | OF_PARQUET)[case](lab.root / "in", kind)
    with_storage(lab, lake)
    local = read(lab, "in", kind)
    for url in (lake.url(lab.root / "in"), lake.url(lab.root / "in").replace("s3:", "s3a:")):
        remote = read(lab, url, kind)
        assert with_local_paths(lab, lake, remote) == with_local_paths(lab, lake, local)


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_files_in_plain_folders_of_an_object_store_are_refused(lab: Lab, lake: Lake, kind: str):
    lab.file(f"in/2022/a.{kind}", "1\n")
    with_storage(lab, lake)
    found = read(lab, lake.url(lab.root / "in"), kind, source={"columns": "n INT"})
    assert "/in/2022/a." in found
    assert "Spark does not read files in folders below" in found


@pytest.mark.parametrize(("kind", "text"), [("csv", "1\nx\n"), ("json", '{"n": 1}\n{"n": "x"}\n')])
def test_a_malformed_value_is_located_with_the_settings_of_the_project(
    lab: Lab, lake: Lake, kind: str, text: str
):
    lab.file(f"in/a.{kind}", text)
    with_storage(lab, lake)
    url = lake.url(lab.root / "in")
    source = {"type": kind, "path": url, "columns": "n INT"}
    lab.table("ods.t", {"source": source, "target": {"type": "parquet"}})
    with pytest.raises(TerminalStepError, match=rf"{url}/a\.{kind}, line 2: column n holds 'x'"):
        lab.run("ods.t", day(1))


@pytest.mark.parametrize("kind", KINDS)
def test_a_newer_file_without_a_column_is_refused(lab: Lab, lake: Lake, kind: str):
    write(lab.root / "in", f"a.{kind}", {"n": [1], "lost": ["x"]})
    write(lab.root / "in", f"b.{kind}", {"n": [2]})
    with_storage(lab, lake)
    url = lake.url(lab.root / "in")
    assert f"{url}/b.{kind}: the file has no column lost" in read(lab, url, kind)
    found = read(lab, url, kind, missing_columns="allow")
    assert found == [("lost", "n"), (1, "x"), (2, None)]


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_a_pattern_matches_are_read_by_their_footers(lab: Lab, lake: Lake, kind: str):
    CASES["two types"](lab.root / "in", kind)
    with_storage(lab, lake)
    found = read(lab, f"{lake.url(lab.root)}/in/*.{kind}", kind)
    assert found == [("n",), (1,), (2**40,)]


def test_columns_of_files_that_only_spark_can_list_are_those_of_all_files(lab: Lab, lake: Lake):
    write(lab.root / "in", "a/x.parquet", {"n": [1]})
    write(lab.root / "in", "b/x.parquet", {"n": [2], "extra": ["x"]})
    with_storage(lab, lake)
    found = read(lab, f"{lake.url(lab.root)}/in/*", "parquet")
    assert found == [("extra", "n"), (1, None), (2, "x")]


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_spark_lists_the_selected_files_of_a_bucket_and_no_others(
    lab: Lab, lake: Lake, kind: str, scheme: str
):
    rows = lab.spark.range(40).selectExpr("id AS a", "DATE'2026-01-01' + CAST(id AS INT) AS ds")
    writer = rows.repartition("ds").write.partitionBy("ds").format(kind)
    writer.save(str(lab.root / "in"))
    with_storage(lab, lake)
    url = lake.url(lab.root / "in").replace("s3:", f"{scheme}:")
    reading, source = reading_of(lab, {"type": kind, "path": url, "columns": "a BIGINT, ds DATE"})
    names = sorted(
        f"{url}/{path.relative_to(lab.root / 'in')}" for path in lab.root.glob("in/ds=*/part*")
    )
    for chosen in (
        FileSelection(frozenset(names[3:4])),
        FileSelection(frozenset(names[1:]), is_inverted=True),
    ):
        before = files_discovered(lab.spark)
        found = read_source(replace(reading, files=chosen), source)
        assert files_discovered(lab.spark) - before <= 2  # and the file with the types
        assert len(found.collect()) == 1


PLACES = ["", "_x", ".x", "v=1", "v=2", "_v=3", "plain", "2026/v=1", "v=1/plain", "v=1/_done"]
NAMES = ["a.txt", "_b.txt", ".c.txt", "_d=1.txt", "e._COPYING_", "f g%20h.txt", "_metadata", "i"]


@pytest.mark.parametrize("seed", range(12))
def test_the_files_that_are_listed_here_are_those_that_spark_reads(lab: Lab, lake: Lake, seed: int):
    chance = random.Random(seed)
    for place in chance.sample(PLACES, 4):
        for name in chance.sample(NAMES, 3):
            lab.file(f"in/{place}/{name}", f"{place} {name}\n")
    with_storage(lab, lake)
    reading, source = reading_of(lab, {"type": "text", "path": lake.url(lab.root / "in")})
    try:
        whole = read_source(reading, source)
        read = {local_path(row[0]) for row in whole.select("_metadata.file_path").collect()}
    except (PySparkException, TerminalStepError):
        return  # folders that contradict each other, or files next to folders of columns
    found = files_below(reading, source, build_cache_key(reading, source))
    assert {path for path, _, _ in found or ()} == read


def test_a_footer_is_requested_once_per_version_of_a_file(lab: Lab, lake: Lake):
    for n in range(3):
        write(lab.root / "in", f"{n}.parquet", {"n": [n]})
    with_storage(lab, lake)
    url = lake.url(lab.root / "in")
    lake.faults.forget()
    assert read(lab, url, "parquet") == [("n",), (0,), (1,), (2,)]
    first = lake.faults.requests["GetObject"]
    assert first == 3 + 1  # and the schema of Spark in a sample
    assert lake.faults.requests["HeadObject"] == 0  # the listing has the sizes
    assert read(lab, url, "parquet") == [("n",), (0,), (1,), (2,)]
    assert lake.faults.requests["GetObject"] == first
    write(lab.root / "in", "2.parquet", {"n": [20]})
    assert read(lab, url, "parquet") == [("n",), (0,), (1,), (20,)]
    assert lake.faults.requests["GetObject"] == first + 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_version_with_the_same_size_and_time_has_its_own_footer(lab: Lab, lake: Lake, kind: str):
    write(lab.root / "in", f"a.{kind}", {"n": pa.array([1], pa.int32())})
    os.utime(lab.root / f"in/a.{kind}", ns=(10**17, 10**17))
    with_storage(lab, lake)
    file, sizes = lab.root / f"in/b.{kind}", set()
    for name in ("old", "own"):
        file.unlink(missing_ok=True)
        write(lab.root / "in", file.name, {"n": pa.array([2]), name: [3]})
        os.utime(file, ns=(10**18, 10**18))  # S3 lists times in seconds
        sizes.add(file.stat().st_size)
        found = read(lab, lake.url(lab.root / "in"), kind)
        assert found == [("n", name), (1, None), (2, 3)]
    assert len(sizes) == 1


def test_a_file_that_is_replaced_after_the_listing_is_listed_again(lab: Lab, lake: Lake):
    write(lab.root / "in", "a.parquet", {"n": [1]})
    with_storage(lab, lake)
    url = lake.url(lab.root / "in")
    reading, source = reading_of(lab, {"type": "parquet", "path": url})
    assert remote_files(reading, source, build_cache_key(reading, source))
    write(lab.root / "in", "a.parquet", {"n": [1], "extra": ["x" * 50]})
    with pytest.raises(TransientStepError, match=rf"replaced while it was read: {url}/a\.parquet"):
        read_source(reading, source)
    assert read(lab, url, "parquet") == [("extra", "n"), (1, "x" * 50)]


@pytest.fixture
def one_attempt(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Requests are not repeated: the retries of s3fs and botocore take 45 s."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(S3FileSystem, "retries", 1)
    S3FileSystem.clear_instance_cache()
    yield
    S3FileSystem.clear_instance_cache()


@pytest.mark.usefixtures("one_attempt")
def test_a_store_that_does_not_answer_is_no_damaged_file(lab: Lab, lake: Lake):
    write(lab.root / "in", "a.parquet", {"n": [1]})
    with_storage(lab, lake)
    url = lake.url(lab.root / "in")
    lake.faults.plan(Fault("500", "GetObject", "*a.parquet", times=None))
    try:
        with pytest.raises(TransientStepError, match=r"a\.parquet: could not be read"):
            read(lab, url, "parquet")
    finally:
        lake.faults.plan()
    assert read(lab, url, "parquet") == [("n",), (1,)]


class OneFile:
    """A file system of a store with one file, as the packages of Google and Azure list it."""

    def isdir(self, path: str) -> bool:
        return path == "c/in"

    def find(self, path: str, **_: Any) -> dict[str, Any]:
        return {f"{path}/x y.parquet": {"type": "file", "size": 1, "etag": "t", "mtime": 1}}


@pytest.mark.parametrize(
    "url", ["abfss://c@account.dfs.core.windows.net/in", "abfs://c/in", "gs://c/in", "s3a://c/in"]
)
def test_the_location_of_a_file_keeps_scheme_container_and_account(
    lab: Lab, url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(listed, "_system", lambda *_: (OneFile(), "c/in"))
    reading, source = reading_of(lab, {"type": "parquet", "path": url})
    (file,) = arrivals(reading.project, source, reading.run)
    assert file.location == f"{url}/x y.parquet"


@pytest.mark.usefixtures("one_attempt")
def test_a_listing_without_answer_does_not_skip_the_rules_of_footers(lab: Lab, lake: Lake):
    write(lab.root / "in", "a.parquet", {"n": [1], "lost": ["x"]})
    write(lab.root / "in", "b.parquet", {"n": [2]})
    with_storage(lab, lake)
    lake.faults.plan(Fault("503", "ListObjectsV2", times=None))
    try:
        with pytest.raises(TransientStepError, match="/in: could not be read"):
            read(lab, lake.url(lab.root / "in"), "parquet")
    finally:
        lake.faults.plan()


@pytest.mark.usefixtures("one_attempt")
def test_first_bytes_without_answer_do_not_skip_the_rules_of_text(lab: Lab, lake: Lake):
    (lab.root / "in").mkdir()
    (lab.root / "in/a.csv").write_text("1\n", encoding="utf-16")
    with_storage(lab, lake)
    url = lake.url(lab.root / "in")
    lake.faults.plan(Fault("503", "GetObject", "*a.csv", times=None))
    try:
        with pytest.raises(TransientStepError, match=r"a\.csv: could not be read"):
            read(lab, url, "csv", source={"columns": "n STRING"})
    finally:
        lake.faults.plan()
    assert "UTF-16" in read(lab, url, "csv", source={"columns": "n STRING"})


def test_objects_that_stand_for_folders_are_no_files(lab: Lab, lake: Lake):
    write(lab.root / "in", "ds=1/a.parquet", {"n": [1]})
    lab.file("in/ds=1_$folder$", "")
    with_storage(lab, lake)
    url = lake.url(lab.root / "in")
    reading, source = reading_of(lab, {"type": "parquet", "path": url})
    system = file_system(url, reading.project.storage)
    for folder in ("in", "in/ds=1", "in/ds=2", "empty"):
        key = lake.url(lab.root / folder).removeprefix("s3://lake/")
        system.call_s3("put_object", Bucket="lake", Key=f"{key}/", Body=b"")
    found = arrivals(reading.project, source, reading.run)
    assert [file.location for file in found] == [f"{url}/ds=1/a.parquet"]
    assert files_below(reading, source, build_cache_key(reading, source))
    assert not has_files(reading.project, lake.url(lab.root / "empty"))
    assert not has_files(reading.project, lake.url(lab.root / "empty") + "/*")


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_registered_files_of_an_object_store_are_read_by_their_footers(
    tmp_path: Path, spark: Any, lake: Lake, scheme: str
):
    world = World(tmp_path, spark)
    for name in ("numbers", "sums"):
        (world.root / f"tables/{name}.yaml").unlink()
    settings = {"project": "world", "storage": lake.settings(world.root)["storage"]}
    world.write("logdriven.yaml", json.dumps(settings))
    url = lake.url(world.root / "in").replace("s3:", f"{scheme}:")
    world.write("tables/files.yaml", FILES.format(url=url))
    CASES["an added column"](world.root / "in", "parquet")
    world.catch_up(now=at("2022-01-02"))
    assert world.rows("ods.lines") == [(1, None), (2, "x")]
