"""Times in Parquet files that the types of the footer do not describe: INT96, and infinity."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

from logdriven_dagster.engine.sources.files.typed.footers import footers
from logdriven_dagster.engine.sources.files.typed.held_types import leaves
from logdriven_dagster.engine.sources.known_sources import fingerprint
from logdriven_dagster.engine.storage.data_files import DataFile
from tests.engine.laboratory import Lab
from tests.engine.sources.files.loading import load, refused

AT = datetime(2022, 7, 1, 3)
NAIVE, ZONED = pa.timestamp("ns"), pa.timestamp("ns", "UTC")
INSTANT, CLOCK = "timestamp of 96 bits", "timestamp_ntz of 96 bits"
INT96 = {"use_deprecated_int96_timestamps": True}
SOURCE = {"type": "parquet", "path": "in"}


def write(folder: Path, columns: dict[str, pa.Array], name: str = "f", **options: Any) -> str:
    path = folder / "in" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(columns), path, **options)
    return str(path)


def write_by_duckdb(folder: Path, query: str) -> str:
    path = folder / "in" / "f.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    duckdb.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
    return str(path)


def kinds(path: str) -> dict[str, str]:
    files = fingerprint(path)
    assert files is not None
    (footer,) = footers([DataFile(*each) for each in files], "parquet")
    return {".".join(leaf): kind for leaf, kind in leaves(footer.columns)}


def test_the_schema_of_arrow_decides_whether_96_bits_are_an_instant(tmp_path: Path):
    pair = pa.struct([("a", NAIVE), ("n", pa.int64()), ("b", ZONED)])
    texts = pa.array(["x"]).dictionary_encode()
    columns = {
        "text": texts,
        "naive": pa.array([AT], NAIVE),
        "zoned": pa.array([AT], ZONED),
        "l": pa.array([[{"a": AT, "n": 1, "b": AT}]], pa.list_(pair)),
        "m": pa.array([[("k", AT)]], pa.map_(pa.string(), NAIVE)),
    }
    assert kinds(write(tmp_path, columns, **INT96)) == {
        "text": "string",
        "naive": CLOCK,
        "zoned": INSTANT,
        "l.element.a": CLOCK,
        "l.element.n": "bigint",
        "l.element.b": INSTANT,
        "m.key": "string",
        "m.value": CLOCK,
    }


def test_the_schema_of_pandas_decides_where_there_is_none_of_arrow(tmp_path: Path):
    """The files of fastparquet have no schema of Arrow."""
    table = pa.table({name: pa.array([AT], NAIVE) for name in ("naive", "Zoned", "other")})
    of_pandas = [
        {"field_name": "naive", "pandas_type": "datetime", "metadata": None},
        {"field_name": "Zoned", "pandas_type": "datetimetz", "metadata": {"timezone": "UTC"}},
    ]
    path = str(tmp_path / "f.parquet")
    with parquet.ParquetWriter(path, table.schema, store_schema=False, **INT96) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"pandas": json.dumps({"columns": of_pandas})})
    found = kinds(path)
    assert (found["naive"], found["zoned"]) == (CLOCK, INSTANT)
    assert found["other"].startswith("timestamp of 96 bits, whose footer does not record")


def test_times_of_96_bits_are_read_as_what_their_writer_means(lab: Lab):
    lab.settings["timezone"] = "America/New_York"
    zoned = AT.replace(tzinfo=timezone.utc)
    columns = {"naive": pa.array([AT], NAIVE), "zoned": pa.array([zoned], ZONED)}
    path = write(lab.root, columns, **INT96)
    texts = "SELECT CAST(naive AS STRING) naive, CAST(zoned AS STRING) zoned FROM source"
    load(lab, SOURCE, texts)
    shown = (str(AT), str(AT - timedelta(hours=4)))
    assert lab.rows("ods.t") == [shown]
    problem = refused(lab, {**SOURCE, "columns": "naive TIMESTAMP, zoned TIMESTAMP"}, texts)
    assert f"{path}: the column naive is {CLOCK} in the file and TIMESTAMP in" in problem
    problem = refused(lab, {**SOURCE, "columns": "naive TIMESTAMP_NTZ, zoned TIMESTAMP_NTZ"}, texts)
    assert f"{path}: the column zoned is {INSTANT} in the file and TIMESTAMP_NTZ in" in problem


def test_times_of_96_bits_without_a_record_of_their_meaning_are_refused(lab: Lab):
    lab.settings["timezone"] = "America/New_York"
    path = write(lab.root, {"v": pa.array([AT], NAIVE)}, store_schema=False, **INT96)
    problem = refused(lab, SOURCE)
    assert f"{path}: the column v is a timestamp of 96 bits, whose footer does not" in problem
    assert 'write columns: "v TIMESTAMP", which reads it as TIMESTAMP' in problem
    for kind, shown in (("TIMESTAMP", AT - timedelta(hours=4)), ("TIMESTAMP_NTZ", AT)):
        load(lab, {**SOURCE, "columns": f"v {kind}"}, "SELECT CAST(v AS STRING) v FROM source")
        assert lab.rows("ods.t") == [(str(shown),)]


def test_digits_of_96_bits_that_spark_would_cut_off_are_found(tmp_path: Path):
    """Of nested leaves too; times outside the range of nanoseconds wrap around in PyArrow."""
    lost = pa.array([1_000_000_001, None], pa.int64()).cast(NAIVE)
    kept = pa.array([-1_000, None], pa.int64()).cast(NAIVE)
    micros = pa.array([datetime(1500, 1, 2, 3, 4, 5, 6), None], pa.timestamp("us"))
    columns = {
        "lost": lost,
        "old": pa.array([-1, None], pa.int64()).cast(NAIVE),
        "kept": kept,
        "ancient": micros,
        "s": pa.StructArray.from_arrays([kept, lost], ["kept", "lost"]),
        "l": pa.ListArray.from_arrays([0, 1, 2], lost),
    }
    found = kinds(write(tmp_path, columns, **INT96))
    assert {name for name, kind in found.items() if "digits below" in kind} == {
        *("lost", "old", "s.lost", "l.element")
    }


def test_digits_of_96_bits_that_spark_would_cut_off_are_refused(lab: Lab):
    lost = pa.array([1_000_000_001], pa.int64()).cast(NAIVE)
    path = write(lab.root, {"a": pa.array([1]), "v": lost}, **INT96)
    problem = f"{path}: the column v has INT96 timestamps with digits below a microsecond"
    for columns in ({}, {"columns": "a BIGINT, v TIMESTAMP_NTZ"}):
        assert problem in refused(lab, {**SOURCE, **columns})
    load(lab, {**SOURCE, "columns": "a BIGINT"})
    assert lab.rows("ods.t") == [(1,)]


@pytest.fixture
def of_96_bits(lab: Lab) -> Iterator[Any]:
    name = "spark.sql.parquet.outputTimestampType"
    before = lab.spark.conf.get(name)
    lab.spark.conf.set(name, "INT96")
    yield lab.spark
    lab.spark.conf.set(name, before)


def test_times_of_96_bits_by_spark_are_instants(lab: Lab, of_96_bits: Any):
    frame = of_96_bits.sql("SELECT TIMESTAMP'2022-07-01 03:00:00Z' AS v")
    frame.coalesce(1).write.parquet(str(lab.root / "in"))
    (path,) = (lab.root / "in").glob("*.parquet")
    assert kinds(str(path)) == {"v": INSTANT}
    load(lab, SOURCE, "SELECT unix_seconds(v) v FROM source")
    assert lab.rows("ods.t") == [(int(AT.replace(tzinfo=timezone.utc).timestamp()),)]


def test_infinite_times_of_duckdb_are_found_in_the_statistics(tmp_path: Path):
    query = """
    SELECT unnest([DATE 'infinity', '-infinity', '2022-01-02']) AS day,
        DATE '9999-12-31' AS finite, TIMESTAMP '-infinity' AS naive,
        'x'::VARIANT AS other,
        TIMESTAMPTZ 'infinity' AS zoned, [TIMESTAMP_MS 'infinity'] AS l, 2147483647 AS n
    """
    assert kinds(write_by_duckdb(tmp_path, query)) == {
        "day": "date with infinity",
        "finite": "date",
        "naive": "timestamp_ntz with infinity",
        "other": "variant",
        "zoned": "timestamp with infinity",
        "l.element": "timestamp_ntz of milliseconds with infinity",
        "n": "int",
    }


def test_infinite_times_of_duckdb_are_refused_or_read_as_numbers(lab: Lab):
    days = "SELECT unnest([DATE 'infinity', '2022-01-02']) AS d, TIMESTAMP '-infinity' AS t"
    path = write_by_duckdb(lab.root, days)
    problem = refused(lab, SOURCE)
    assert f"{path}: the column d is a date with infinity, which Spark cannot read" in problem
    assert 'write columns: "d INT, t BIGINT", which reads it as INT' in problem
    assert "the column d is date with infinity" in refused(lab, {**SOURCE, "columns": "d DATE"})
    load(lab, {**SOURCE, "columns": "d INT, t BIGINT"})
    least = -(2**63 - 1)
    assert sorted(lab.rows("ods.t")) == [(18994, least), (2**31 - 1, least)]
