"""Files that a window selects: loaded alone, with the columns that all files together have."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.errors import PySparkException

from logdriven_dagster.engine.sources.file_rows import ALL_FILES, FileSelection, local_path
from logdriven_dagster.engine.sources.files.folders import find_typical
from logdriven_dagster.engine.sources.files.listing import files_below
from logdriven_dagster.engine.sources.files.loading import build_cache_key
from logdriven_dagster.engine.sources.known_sources import KnownSources, list_local_versions
from logdriven_dagster.engine.sources.readers import Reading, read_source
from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab

PARQUET = {"type": "parquet", "path": "in"}
NULL = "__HIVE_DEFAULT_PARTITION__"


def reading_of(lab: Lab, source: dict[str, Any], **fields: Any) -> tuple[Reading, Any]:
    """Return a reading of a source in which nothing is cached."""
    lab.table("ods.t", {"source": source, "target": {"type": "parquet"}}, **fields)
    run, project = lab.window_run("ods.t", day(1)), lab.project
    reading = Reading(project, lab.spark, run, lambda: None, KnownSources())
    return reading, project.table("ods.t").steps[0].source


def put(lab: Lab, name: str, **columns: Any) -> Path:
    path = lab.root / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(columns or {"a": [1]}), path)
    return path


def select(paths: Any) -> FileSelection:
    return FileSelection(
        frozenset(Path(path).as_uri().replace("file:///", "file:/") for path in paths)
    )


def rows_in(frame: Any, paths: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a frame in some files."""
    wanted = set(map(str, paths))
    found = frame.select("*", "_metadata.file_path").collect()
    return sorted((tuple(row)[:-1] for row in found if local_path(row[-1]) in wanted), key=repr)


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()), key=repr)


def files_discovered(spark: Any) -> int:
    """Spark's own counter of the files that it has listed."""
    metrics = spark._jvm.org.apache.spark.metrics.source.HiveCatalogMetrics
    return int(metrics.METRIC_FILES_DISCOVERED().getCount())


VALUES = {
    "a day, and another text": ["2026-01-01", "unknown"],
    "days": ["2026-01-01", "2026-12-31", "1999-02-28"],
    "a day that does not exist": ["2026-01-01", "2026-02-30"],
    "numbers, and one with a zero": ["1", "12", "007"],
    "months": ["01", "02", "12"],
    "large and small numbers": ["1", "12345678901"],
    "very large numbers": ["1", "1234567890123456789012"],
    "numbers, and none": ["1", NULL],
    "only no value": [NULL, NULL],
    "numbers and fractions": ["1", "2.5"],
    "fractions": ["1.5", "2.5"],
    "days and times": ["2026-01-01", "2026-01-02 10%3A00%3A00"],
    "days and numbers": ["2026-01-01", "20260102"],
    "words": ["NL", "DE", "FR"],
    "numbers that are words": ["NaN", "Infinity"],
    "words and numbers": ["NL", "1"],
    "negative numbers": ["-1", "1", "-0"],
    "a month of a year": ["2026-01", "2026-02"],
    "hours": ["2026-01-01-00", "2026-01-01-23"],
}


@pytest.mark.parametrize("case", VALUES)
def test_columns_of_folders_have_the_types_and_values_of_all_folders(lab: Lab, case: str):
    paths = [put(lab, f"v={v}/{n}.parquet", a=[n]) for n, v in enumerate(VALUES[case])]
    paths.append(put(lab, f"v={VALUES[case][0]}/last.parquet", a=[99]))
    reading, source = reading_of(lab, PARQUET)
    whole = read_source(reading, source)
    for chosen in ([], paths[:1], paths[1:2], paths[1:]):
        alone = replace(reading, files=select(chosen), sources=KnownSources())
        found = read_source(alone, source)
        assert found.schema == whole.schema
        assert rows_of(found) == rows_in(whole, chosen)


def texts(chance: random.Random) -> str:
    return chance.choice(
        [
            str(chance.randint(-5, 10 ** chance.randint(1, 25))),
            f"{chance.randint(1, 12):02}",
            f"{chance.randint(1990, 2030)}-{chance.randint(1, 12):02}-{chance.randint(1, 31):02}",
            "".join(chance.choice("abcNITxyz019-. +e") for _ in range(chance.randint(1, 6))),
            NULL,
            f"{chance.random():.3f}",
            f"2026-01-0{chance.randint(1, 9)} {chance.randint(0, 29):02}%3A00%3A00",
            f"2026{chance.randint(1, 12):02}{chance.randint(1, 31):02}",
        ]
    )


@pytest.mark.parametrize("seed", range(10))
def test_a_few_typical_folders_have_the_types_of_all_folders(lab: Lab, seed: int):
    chance = random.Random(seed)
    names = ["v", "w"][: chance.randint(1, 2)]
    kinds = [texts(chance) for _ in range(chance.randint(1, 4))]
    for n in range(20):
        values = [chance.choice([*kinds, texts(chance)]) for _ in names]
        folders = "/".join(f"{name}={v}" for name, v in zip(names, values, strict=True))
        lab.file(f"in/{folders}/{n}.txt", "x\n")
    base = str(lab.root / "in")
    paths = [str(path) for path in (lab.root / "in").rglob("*.txt")]
    typical = find_typical(paths, base)
    assert typical is not None
    alone = lab.spark.read.option("basePath", base).text(typical)
    assert alone.schema == lab.spark.read.text(base).schema


def test_many_folders_with_texts_of_unknown_types_have_no_typical_ones():
    paths = [f"/in/v={n}.{n}/f" for n in range(1000)]
    assert find_typical(paths, "/in") is None
    assert find_typical([f"/in/v={n}/f" for n in range(1000)], "/in") == ["/in/v=0/f"]


def test_a_source_may_have_more_than_ten_thousand_files(tmp_path: Path):
    for n in range(10_001):
        (tmp_path / f"{n}.csv").touch()
    assert len(list_local_versions(str(tmp_path)) or ()) == 10_001


PLACES = ["", "_x", ".x", "v=1", "v=2", "_v=3", "plain", "2026/v=1", "v=1/plain", "v=1/_done"]
FILES = ["a.txt", "_b.txt", ".c.txt", "_d=1.txt", "e._COPYING_", "f g%20h.txt", "_metadata", "i"]


@pytest.mark.parametrize("seed", range(20))
def test_the_files_that_are_found_here_are_those_that_spark_reads(lab: Lab, seed: int):
    chance = random.Random(seed)
    for place in chance.sample(PLACES, 4):
        for name in chance.sample(FILES, 3):
            lab.file(f"in/{place}/{name}", f"{place} {name}\n")
    reading, source = reading_of(lab, {"type": "text", "path": "in"})
    try:
        whole = read_source(reading, source)
    except (PySparkException, TerminalStepError):
        return  # folders that contradict each other, or files next to folders of columns
    read = {local_path(row[0]) for row in whole.select("_metadata.file_path").collect()}
    found = files_below(reading, source, build_cache_key(reading, source))
    assert {path for path, _, _ in found or ()} == read


@pytest.mark.parametrize("missing", ["refuse", "allow"])
def test_files_with_other_columns_are_loaded_with_those_of_all(lab: Lab, missing: str):
    first = put(lab, "ds=2026-01-01/a.parquet", a=[1])
    last = put(lab, "ds=2026-01-02/b.parquet", b=["x"], a=[2])
    reading, source = reading_of(lab, PARQUET, missing_columns=missing)
    whole = read_source(reading, source)
    for chosen in (first, last):
        found = read_source(replace(reading, files=select([chosen])), source)
        assert found.schema == whole.schema
        assert rows_of(found) == rows_in(whole, [chosen])


SOURCES = {
    "parquet": PARQUET,
    "parquet with columns": {**PARQUET, "columns": "a BIGINT, ds DATE"},
    "csv": {"type": "csv", "path": "in", "columns": "a BIGINT"},
    "json": {"type": "json", "path": "in", "columns": "a BIGINT"},
}


PATTERNS = {
    "in/*.csv": {},
    "in/ds=*/*.csv": {},
    "in/?s=*/a*": {},
    "in/ds=*/a.csv": {"options": {"basePath": "{root}/in"}},
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_files_that_a_pattern_matches_are_loaded_alone(lab: Lab, pattern: str):
    names = [f"ds=2026-01-{n:02}/a.csv" for n in range(1, 11)] if "=" in pattern else "abcdefghij"
    paths = [
        lab.file(f"in/{name.removesuffix('.csv')}.csv", f"{n}\n") for n, name in enumerate(names)
    ]
    text = json.dumps(PATTERNS[pattern]).replace("{root}", str(lab.root))
    source = {"type": "csv", "path": pattern, "columns": "a INT", **json.loads(text)}
    reading, read = reading_of(lab, source)
    whole = read_source(reading, read)
    before = files_discovered(lab.spark)
    found = read_source(replace(reading, files=select(paths[2:4])), read)
    assert files_discovered(lab.spark) - before <= 3
    assert found.schema == whole.schema
    assert rows_of(found) == rows_in(whole, paths[2:4])


def test_a_pattern_that_matches_a_folder_is_listed_by_spark(lab: Lab):
    lab.file("in/a.csv", "1\n")
    lab.file("in/b/c.csv", "2\n")
    reading, source = reading_of(lab, {"type": "csv", "path": "in/*", "columns": "a INT"})
    assert files_below(reading, source, build_cache_key(reading, source)) is None


def test_spark_lists_a_thousand_selected_files_and_no_others(lab: Lab):
    paths = [lab.file(f"in/ds=2026-01-{n % 28 + 1:02}/{n}.csv", f"{n}\n") for n in range(1_500)]
    reading, source = reading_of(lab, {"type": "csv", "path": "in", "columns": "a INT"})
    before = files_discovered(lab.spark)
    found = read_source(replace(reading, files=select(paths[:1_100])), source)
    assert files_discovered(lab.spark) - before <= 1_101  # and the file with the types
    assert sorted(row.a for row in found.collect()) == list(range(1_100))


def test_a_condition_on_the_names_of_very_many_files_is_left_to_the_filter_of_a_window(lab: Lab):
    selection = FileSelection(frozenset(f"file:/in/{n}" for n in range(5_001)))
    assert selection.apply(lab.spark.range(3)).count() == 3


@pytest.mark.parametrize("kind", SOURCES)
def test_spark_lists_the_selected_files_and_no_others(lab: Lab, kind: str):
    rows = lab.spark.range(40).selectExpr("id AS a", "DATE'2026-01-01' + CAST(id AS INT) AS ds")
    writer = rows.repartition("ds").write.partitionBy("ds").format(SOURCES[kind]["type"])
    writer.save(str(lab.root / "in"))
    reading, source = reading_of(lab, SOURCES[kind])
    paths = sorted((lab.root / "in").glob("ds=*/part*"))
    for chosen in (select(paths[3:4]), replace(select(paths[1:]), is_inverted=True)):
        before = files_discovered(lab.spark)
        found = read_source(replace(reading, files=chosen), source)
        assert files_discovered(lab.spark) - before <= 2  # and the file with the types
        assert len(rows_of(found)) == 1
    assert len(rows_of(read_source(replace(reading, files=ALL_FILES), source))) == 40
