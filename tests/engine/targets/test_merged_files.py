"""Few rows that Arrow merges into few files: the rows, counts and statistics are those of Spark."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from pyspark.sql.types import StructType

from logdriven_dagster.engine.arrow import merging
from logdriven_dagster.engine.arrow.merging import MergedFile, merge_files
from logdriven_dagster.engine.arrow.parquet import rows_of_file
from logdriven_dagster.engine.storage.local import LocalStorage
from logdriven_dagster.engine.storage.locations import Folder
from logdriven_dagster.engine.storage.spark_files import FILE, read_files
from logdriven_dagster.engine.targets.store import StagedRows
from logdriven_dagster.engine.targets.upserted_files import merge
from tests.builders import day
from tests.engine.laboratory import Lab
from tests.random_examples import examples

END = datetime(2022, 1, 3, tzinfo=timezone.utc)
NUMBERS = count(1)

COLUMNS = """
    id BIGINT, Name STRING, small DECIMAL(9, 2), middle DECIMAL(18, 4), large DECIMAL(38, 10),
    instant TIMESTAMP, clock TIMESTAMP_NTZ, day DATE, single FLOAT, double DOUBLE,
    bytes BINARY, flag BOOLEAN, text STRING, number INT,
    struct STRUCT<a: INT, b: ARRAY<STRING>>, list ARRAY<ARRAY<DECIMAL(20, 3)>>,
    map MAP<STRING, STRUCT<x: DOUBLE, y: DATE>>, _window_start TIMESTAMP"""


@cache
def schema() -> Any:
    return StructType.fromDDL(COLUMNS)


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**digits - 1
    return st.integers(-most, most).map(lambda each: Decimal(f"{each}E-{scale}"))


CLOCKS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
INSTANTS = CLOCKS.map(lambda each: each.replace(tzinfo=timezone.utc))
DATES = st.dates()
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(
    ["é" * 40, "x" * 5000]
)
DOUBLES = st.floats(allow_nan=False)
VALUES = {
    "small": decimals(9, 2),
    "middle": decimals(18, 4),
    "large": decimals(38, 10),
    "instant": INSTANTS,
    "clock": CLOCKS,
    "day": DATES,
    "single": st.floats(allow_nan=False, width=32),
    "double": DOUBLES,
    "bytes": st.binary(max_size=4),
    "flag": st.booleans(),
    "text": TEXTS,
    "number": st.integers(-(2**31), 2**31 - 1),
    "struct": st.tuples(
        st.none() | st.integers(0, 9), st.none() | st.lists(st.none() | TEXTS, max_size=2)
    ),
    "list": st.lists(st.none() | st.lists(st.none() | decimals(20, 3), max_size=2), max_size=2),
    "map": st.dictionaries(TEXTS, st.none() | st.tuples(DOUBLES, st.none() | DATES), max_size=2),
}
WINDOWS = st.none() | st.sampled_from([END - timedelta(days=1), END, END + timedelta(days=1)])


@st.composite
def rows(draw: Any, windows: Any, *, unique: bool) -> list[tuple[Any, ...]]:
    """Rows with few different keys, each value of which may be NULL."""
    key = st.tuples(st.integers(0, 3), st.sampled_from(["a", "ä", ""]))
    keys = draw(st.lists(key, min_size=1, max_size=6, unique=unique))
    others = [st.none() | values for values in VALUES.values()]
    return [(*key, *(draw(each) for each in others), draw(windows)) for key in keys]


@dataclass
class PlainFiles:
    """A table that consists of Parquet files; implements `KeyedFiles`."""

    files: Sequence[str]
    by_arrow: bool

    @property
    def schema(self) -> Any:
        return schema()

    def rows(self, spark: Any, files: Sequence[str]) -> Any:
        from pyspark.sql import functions as sf

        return read_files(spark, "parquet", files, schema()).withColumn(FILE, sf.input_file_name())

    def add_partition_column(self, frame: Any) -> Any:
        return frame.coalesce(1)

    def with_keys(self, ranges: Mapping[str, Any]) -> list[str]:
        return list(self.files)

    def read_few(self, files: Sequence[str], schema: Any) -> Iterator[tuple[str, Any]]:
        for file in files:
            for batch in rows_of_file(LocalStorage().open(file), schema):
                yield file, batch

    def hold_plain_rows(self, files: Sequence[str]) -> bool:
        return self.by_arrow


def write(frame: Any, folder: Path, **options: str) -> list[str]:
    """Write one file by Spark; its location."""
    place = folder / f"written-{next(NUMBERS)}"
    frame.coalesce(1).write.options(**options).parquet(str(place))
    return [file.as_uri().replace("file:///", "file:/") for file in place.glob("*.parquet")]


def write_rows(lab: Lab, values: Sequence[tuple[Any, ...]]) -> list[str]:
    return write(lab.spark.createDataFrame(list(values), schema()), lab.root)


def stage(lab: Lab, files: Sequence[str], number: int) -> StagedRows:
    lab.table("ods.t", {"sql": "SELECT 1", "target": {"type": "parquet"}})
    run = lab.window_run("ods.t", day(2)).for_step("step_1")
    return StagedRows(
        run=run, location="", schema=schema(), source_rows=None, rows=number, files=tuple(files)
    )


def describe(files: Sequence[str]) -> dict[str, Any]:
    """Values, NULLs, minimum and maximum of each column of some files, from their footers.

    Ends and NULLs are unknown where a file has none, as Parquet for Java has none of long values.
    """
    found: dict[str, Any] = {}
    for file in files:
        footer = parquet.read_metadata(file.removeprefix("file:"))
        (group,) = map(footer.row_group, range(footer.num_row_groups))
        for column in map(group.column, range(group.num_columns)):
            found.setdefault(column.path_in_schema, []).append(column.statistics)
    return {
        name: (sum(each.num_values for each in known), *ends_of(known))
        for name, known in found.items()
    }


def ends_of(known: Sequence[Any]) -> tuple[Any, Any]:
    filled = [each for each in known if each.num_values]
    if not filled or not all(each.has_min_max for each in filled):
        return None, None
    return min(each.min for each in filled), max(each.max for each in filled)


def is_equal_or_unknown(by_arrow: Any, by_spark: Any) -> bool:
    return by_arrow == by_spark or None in (by_arrow[1], by_spark[1])


@pytest.mark.usefixtures("long")
@given(data=st.data())
@settings(
    max_examples=examples(20),
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
def test_random_rows_are_merged_as_by_spark(lab: Lab, data: st.DataObject):
    new = data.draw(rows(st.just(day(2).start), unique=True))
    old = data.draw(rows(WINDOWS, unique=False))
    staged = stage(lab, write_rows(lab, new), len(new))
    files = [*write_rows(lab, old[::2]), *(write_rows(lab, old[1::2]) if len(old) > 1 else [])]
    seen = []
    for by_arrow in (True, False):
        folder = Folder(LocalStorage(), (lab.root / f"table-{next(NUMBERS)}").as_uri())
        removed, added, merged = merge(
            lab.spark, PlainFiles(files, by_arrow), ("ID", "name"), staged, folder
        )
        frame = read_files(lab.spark, "parquet", added, schema())
        seen.append((removed, merged, sorted(map(repr, frame.collect())), describe(added)))
    (*by_arrow, described), (*by_spark, expected) = seen
    assert by_arrow == by_spark
    for name, column in described.items():
        assert is_equal_or_unknown(column, expected[name]), name


def merged_frame(lab: Lab, old: Sequence[str], new: Sequence[str]) -> Any:
    """The rows that Arrow merges; None if they are for Spark."""
    merged = merge_files(old, new, ["id"], END, LocalStorage())
    return None if merged is None else lab.spark.read.parquet(*put(lab, merged))


def put(lab: Lab, merged: Sequence[MergedFile]) -> list[str]:
    """Write merged files; their paths."""
    paths = [lab.root / f"merged-{next(NUMBERS)}.parquet" for _ in merged]
    for path, file in zip(paths, merged, strict=True):
        path.write_bytes(file.content)
    return list(map(str, paths))


def of(lab: Lab, values: str, **options: str) -> list[str]:
    """A file by Spark with the columns id and v of a window."""
    sql = f"SELECT {values}, TIMESTAMP'2022-01-02 00:00:00' AS _window_start"
    return write(lab.spark.sql(sql), lab.root, **options)


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "uncompressed"])
def test_a_merged_file_has_the_codec_and_the_metadata_of_the_new_one(lab: Lab, codec: str):
    old, new = of(lab, "1 AS id, 'a' AS v"), of(lab, "2 AS id, 'b' AS v", compression=codec)
    (merged,) = merge_files(old, new, ["id"], END, LocalStorage()) or []
    assert merged.codec == codec
    footer = parquet.read_metadata(pa.BufferReader(merged.content))
    known = parquet.read_metadata(new[0].removeprefix("file:"))
    assert footer.row_group(0).column(0).compression == codec.upper()
    assert footer.metadata.keys() == known.metadata.keys()
    assert footer.metadata[merging._VERSION] == known.metadata[merging._VERSION]
    assert merging._describe_layout(footer) == merging._describe_layout(known)


SETTINGS = {
    "INT96": ("spark.sql.parquet.outputTimestampType", "INT96"),
    "rebased dates": ("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY"),
    "legacy types": ("spark.sql.parquet.writeLegacyFormat", "true"),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_files_by_legacy_settings_are_merged_by_spark(lab: Lab, setting: str):
    name, value = SETTINGS[setting]
    before = lab.spark.conf.get(name)
    values = "1 AS id, DATE'1200-01-01' AS v, CAST(1 AS DECIMAL(9, 2)) AS d, array(1) AS a"
    lab.spark.conf.set(name, value)
    try:
        old = of(lab, values)
    finally:
        lab.spark.conf.set(name, before)
    assert merged_frame(lab, old, of(lab, values)) is None
    assert merged_frame(lab, old, old) is None


@pytest.mark.parametrize(
    "old",
    [
        "1L AS id, 'a' AS v",
        "1 AS id, X'00' AS v",
        "1 AS id",
        "1 AS id, 'a' AS V",
        "1 AS id, 'a' AS v, 1 AS w",
        "'a' AS v, 1 AS id",
    ],
)
def test_files_of_another_schema_are_merged_by_spark(lab: Lab, old: str):
    assert merged_frame(lab, of(lab, old), of(lab, "1 AS id, 'a' AS v")) is None


def test_not_null_is_no_part_of_the_schema(lab: Lab):
    old = of(lab, "CAST(NULL AS INT) AS id, named_struct('x', CAST(NULL AS INT)) AS v")
    found = merged_frame(lab, old, of(lab, "1 AS id, named_struct('x', 1) AS v"))
    assert [(row.id, row.v.x) for row in found.collect()] == [(None, None), (1, 1)]


@pytest.mark.parametrize("value", ["DOUBLE('NaN')", "array(FLOAT('NaN'))"])
def test_files_with_nan_are_merged_by_spark_whose_statistics_leave_it_out(lab: Lab, value: str):
    one = value.replace("NaN", "1")
    nan, old = of(lab, f"1 AS id, {value} AS v"), of(lab, f"1 AS id, {one} AS v")
    assert merged_frame(lab, old, nan) is None
    assert merged_frame(lab, nan, old) is None
    assert merged_frame(lab, old, old) is not None


def test_zeros_keep_their_signs(lab: Lab):
    old, new = of(lab, "1 AS id, -0.0D AS v"), of(lab, "2 AS id, 0.0D AS v")
    found = merged_frame(lab, old, new).collect()
    assert [math.copysign(1, row.v) for row in found] == [-1, 1]


def test_files_of_other_writers_are_merged_by_spark(lab: Lab):
    (new,) = of(lab, "1 AS id, 'a' AS v")
    place = lab.root / "other.parquet"
    parquet.write_table(parquet.read_table(new.removeprefix("file:")), place)
    assert merged_frame(lab, [str(place)], [new]) is None


def test_more_bytes_than_few_are_merged_by_spark(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    old, new = of(lab, "1 AS id, 'a' AS v"), of(lab, "1 AS id, 'b' AS v")
    assert merged_frame(lab, old, new) is not None
    monkeypatch.setattr(merging, "FEW_BYTES", 100)
    assert merged_frame(lab, old, new) is None


def test_a_merged_file_is_merged_again(lab: Lab):
    old, new = (
        of(lab, "1 AS id, map('a', array(1)) AS v"),
        of(lab, "2 AS id, map('b', array(2)) AS v"),
    )
    merged = merge_files(old, new, ["id"], END, LocalStorage())
    assert merged is not None
    found = merged_frame(lab, put(lab, merged), new)
    assert [(row.id, row.v) for row in found.collect()] == [(1, {"a": [1]}), (2, {"b": [2]})]


def test_a_new_row_goes_to_the_file_with_its_key_or_to_the_smallest_one(lab: Lab):
    values = "explode(array({})) AS id, '{}' AS v"
    old = [*of(lab, values.format("1, 2, 3", "a")), *of(lab, values.format("7, 8", "a"))]
    new = of(lab, values.format("2, 4, 7, 9", "b"))
    merged = merge_files(old, new, ["id"], END, LocalStorage())
    assert merged is not None
    tables = [parquet.read_table(path, columns=["id", "v"]) for path in put(lab, merged)]
    assert [list(zip(*each.to_pydict().values(), strict=True)) for each in tables] == [
        [(1, "a"), (3, "a"), (2, "b")],
        [(8, "a"), (4, "b"), (7, "b"), (9, "b")],
    ]


def test_a_file_without_remaining_rows_is_left_out(lab: Lab):
    old = [*of(lab, "1 AS id, 'a' AS v"), *of(lab, "1 AS id, 'c' AS v")]
    merged = merge_files(old, of(lab, "1 AS id, 'b' AS v"), ["id"], END, LocalStorage())
    assert merged is not None
    (path,) = put(lab, merged)
    assert parquet.read_table(path)["v"].to_pylist() == ["b"]
