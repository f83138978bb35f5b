"""Parquet and ORC files of other programs: read exactly, or refused with file, column and fix."""

import base64
from collections.abc import Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet
from pyspark.sql import types as ty

from logdriven_dagster.engine.sources.files.typed.footers import footers
from logdriven_dagster.engine.sources.files.typed.held_types import carrier, is_exact
from logdriven_dagster.engine.sources.files.typed.newer_features import refuse_newer_features
from logdriven_dagster.engine.sources.known_sources import fingerprint
from logdriven_dagster.engine.storage.data_files import DataFile
from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.laboratory import Lab
from tests.engine.sources.files.loading import TARGET, load, refused

AT = datetime(2022, 1, 1, 3)


def write(lab: Lab, name: str, columns: Mapping[str, pa.Array], **options: Any) -> str:
    """Write a file below `in`; its path."""
    path = lab.root / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    module: Any = parquet if name.endswith(".parquet") else orc
    module.write_table(pa.table(dict(columns)), path, **options)
    return str(path)


def source(columns: str | None = None, form: str = "parquet", **fields: Any) -> dict[str, Any]:
    return {"type": form, "path": "in", **({"columns": columns} if columns else {}), **fields}


def rows(lab: Lab, columns: str | None = None, form: str = "parquet") -> list[tuple[Any, ...]]:
    load(lab, source(columns, form))
    return lab.rows("ods.t")


def test_days_beyond_the_years_of_python_leave_no_table_behind(lab: Lab):
    write(lab, "f.parquet", {"n": pa.array([1]), "day": pa.array([3_000_000], pa.date32())})
    lab.table("ods.t", {"source": source(), "target": {"type": "iceberg"}})
    with pytest.raises(TerminalStepError, match="column day holds days outside of the years 1 to"):
        lab.run("ods.t", day(1))
    assert not lab.engine._catalog.table_exists("ods.t")
    load(lab, source(), "SELECT n FROM source", {"type": "iceberg"})
    lab.table("ods.t", {"source": source(), "target": {"type": "iceberg"}})
    with pytest.raises(TerminalStepError, match="column day holds days outside of the years 1 to"):
        lab.run("ods.t", day(2))


def test_a_codec_that_spark_lacks_is_named_with_file_and_columns(lab: Lab):
    path = write(lab, "f.parquet", {"v": pa.array([1])}, compression="brotli")
    problem = f"{path}: the columns v are compressed with BROTLI, which Spark cannot read"
    for columns in (None, "v BIGINT"):
        assert f"{problem}; write the file with zstd" in refused(lab, source(columns))


def test_durations_are_read_as_their_numbers_only_where_columns_declares_it(lab: Lab):
    file = write(lab, "f.parquet", {"v": pa.array([1], pa.duration("us")), "n": pa.array([2])})
    problem = f"{file}: the column v is a duration[us], which Spark cannot read; "
    assert f'{problem}write columns: "v BIGINT, n BIGINT"' in refused(lab, source())
    assert rows(lab, "v BIGINT, n BIGINT") == [(1, 2)]
    write(lab, "g.parquet", {"v": pa.array([1], pa.duration("ms")), "n": pa.array([2])})
    problem = refused(lab, source("v BIGINT, n BIGINT"))
    assert "the column v is duration[us] in" in problem


STRUCT = pa.struct([("a", pa.int32())])
GROWN = pa.struct([("a", pa.int32()), ("b", pa.int32())])
NESTED = {
    "a struct": (STRUCT, GROWN, {"a": 1}, {"a": 2, "b": 3}),
    "an array": (pa.list_(STRUCT), pa.list_(GROWN), [{"a": 1}], [{"a": 2, "b": 3}]),
    "a map": (
        pa.map_(pa.string(), STRUCT),
        pa.map_(pa.string(), GROWN),
        [("k", {"a": 1})],
        [("k", {"a": 2, "b": 3})],
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("form", ["parquet", "orc"])
@pytest.mark.parametrize("case", NESTED)
def test_a_nested_field_that_only_newer_files_have_is_read(lab: Lab, case: str, form: str):
    old, new, one, other = NESTED[case]
    write(lab, f"1.{form}", {"v": pa.array([one], old)})
    write(lab, f"2.{form}", {"v": pa.array([other], new)})
    assert "'b': 3" in repr(dicts(lab, source(form=form)))


@pytest.mark.parametrize("case", NESTED)
def test_columns_name_every_nested_field_of_the_files(lab: Lab, case: str):
    old, new, one, other = NESTED[case]
    write(lab, "1.parquet", {"v": pa.array([one], old)})
    path = write(lab, "2.parquet", {"v": pa.array([other], new)})
    kinds = {"a struct": "{}", "an array": "ARRAY<{}>", "a map": "MAP<STRING, {}>"}
    short, whole = "STRUCT<a: INT>", "STRUCT<a: INT, b: INT>"
    problem = refused(lab, source(f"v {kinds[case].format(short)}"))
    assert f"{path}: `columns` does not contain the field v" in problem
    assert "'b': 3" in repr(dicts(lab, source(f"v {kinds[case].format(whole)}")))


def test_a_nested_field_that_one_file_has_lost_is_refused(lab: Lab):
    older = write(lab, "1.parquet", {"v": pa.array([{"a": 1, "b": 2}], GROWN)})
    newer = write(lab, "2.parquet", {"v": pa.array([{"a": 1}], STRUCT)})
    assert f"{newer}: the file has no column v.b, which {older} has" in refused(lab, source())


def test_a_nested_field_that_no_file_has_is_refused(lab: Lab):
    write(lab, "1.parquet", {"v": pa.array([{"a": 1}], STRUCT)})
    assert "columns has v.c, which is not in any file" in refused(
        lab, source("v STRUCT<a: INT, c: INT>")
    )


def dicts(lab: Lab, given: dict[str, Any]) -> list[Any]:
    load(lab, given)
    return [row.asDict(recursive=True) for row in lab.engine.read("ods.t").collect()]


UTC = pa.timestamp("us", "UTC")
CHANGED = {
    "unsigned 64 bits": (pa.uint64(), 2**64 - 1, "BIGINT", "unsigned bigint", "DECIMAL(20,0)"),
    "unsigned 32 bits": (pa.uint32(), 2**32 - 1, "INT", "unsigned int", "BIGINT"),
    "unsigned 16 bits": (pa.uint16(), 2**16 - 1, "SMALLINT", "unsigned smallint", "INT"),
    "unsigned 8 bits": (pa.uint8(), 255, "TINYINT", "unsigned tinyint", "SMALLINT"),
    "a wide number": (pa.int32(), 70_000, "SMALLINT", "int", "INT"),
    "a number as a day": (pa.int32(), 70_000, "DATE", "int", "INT"),
    "a decimal as a number": (
        pa.decimal128(18, 2),
        Decimal("1.50"),
        "BIGINT",
        "decimal(18,2)",
        "DECIMAL(18,2)",
    ),
    "a time without a zone": (
        pa.timestamp("us"),
        AT,
        "TIMESTAMP",
        "timestamp_ntz",
        "TIMESTAMP_NTZ",
    ),
    "milliseconds without a zone": (
        pa.timestamp("ms"),
        AT,
        "TIMESTAMP",
        "timestamp_ntz of milliseconds",
        "TIMESTAMP_NTZ",
    ),
    "nanoseconds without a zone": (
        pa.timestamp("ns"),
        AT,
        "TIMESTAMP",
        "timestamp_ntz of nanoseconds",
        "TIMESTAMP_NTZ",
    ),
    "a time with a zone": (UTC, AT, "TIMESTAMP_NTZ", "timestamp", "TIMESTAMP"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("encoding", ["dictionary", "plain"])
@pytest.mark.parametrize("case", CHANGED)
def test_a_value_that_columns_would_change_is_refused(lab: Lab, case: str, encoding: str):
    lab.settings["timezone"] = "America/New_York"
    kind, value, declared, held, fix = CHANGED[case]
    options = {"use_dictionary": encoding == "dictionary", "store_decimal_as_integer": True}
    path = write(lab, "f.parquet", {"v": pa.array([value, None], kind)}, **options)
    problem = refused(lab, source(f"v {declared}"))
    assert f"{path}: the column v is {held} in the file and {declared} in `columns`" in problem
    assert f"write v {fix} in `columns`, and CAST in the query" in problem
    load(lab, source(f"v {fix}"), "SELECT CAST(v AS STRING) AS v FROM source")
    text = "2021-12-31 22:00:00" if case == "a time with a zone" else str(value)
    assert lab.rows("ods.t") == sorted([(None,), (text,)], key=repr)


def test_nested_values_are_looked_at_too(lab: Lab):
    kind = pa.list_(pa.struct([("u", pa.uint64())]))
    path = write(lab, "f.parquet", {"v": pa.array([[{"u": 2**64 - 1}]], kind)})
    problem = refused(lab, source("v ARRAY<STRUCT<u: BIGINT>>"))
    assert f"{path}: the column v.element.u is unsigned bigint in the file" in problem


def test_files_with_and_without_a_zone_are_refused(lab: Lab):
    naive = write(lab, "1.parquet", {"ts": pa.array([AT], pa.timestamp("us"))})
    zoned = write(lab, "2.parquet", {"ts": pa.array([AT], UTC)})
    for columns in (None, "ts TIMESTAMP"):
        problem = refused(lab, source(columns))
        assert naive in problem
        assert columns or f"ts is timestamp_ntz in {naive} and timestamp in {zoned}" in problem


def test_the_bare_numbers_of_times_have_one_unit(lab: Lab):
    write(lab, "1.parquet", {"ts": pa.array([AT], pa.timestamp("ms"))})
    write(lab, "2.parquet", {"ts": pa.array([AT], pa.timestamp("us"))})
    problem = refused(lab, source("ts BIGINT"))
    assert "the column ts is timestamp_ntz of milliseconds in" in problem
    assert rows(lab) == [(AT,), (AT,)]


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_the_widest_type_of_the_files_is_read(lab: Lab, form: str):
    write(lab, f"1.{form}", {"v": pa.array([1], pa.int32()), "f": pa.array([1.5], pa.float32())})
    write(lab, f"2.{form}", {"v": pa.array([2**40]), "f": pa.array([1.1])})
    assert rows(lab, form=form) == [(1, 1.5), (2**40, 1.1)]


ARROW: dict[str, tuple[pa.DataType, Any]] = {
    "boolean": (pa.bool_(), True),
    "tinyint": (pa.int8(), -128),
    "smallint": (pa.int16(), -32768),
    "int": (pa.int32(), -(2**31)),
    "bigint": (pa.int64(), 2**63 - 1),
    "unsigned tinyint": (pa.uint8(), 255),
    "unsigned smallint": (pa.uint16(), 65535),
    "unsigned int": (pa.uint32(), 2**32 - 1),
    "unsigned bigint": (pa.uint64(), 2**64 - 1),
    "float": (pa.float32(), 0.5),
    "double": (pa.float64(), 0.1),
    "decimal(9,2)": (pa.decimal128(9, 2), Decimal("-1234567.89")),
    "decimal(18,2)": (pa.decimal128(18, 2), Decimal("1234567890123456.78")),
    "decimal(38,2)": (pa.decimal128(38, 2), Decimal("1.50")),
    "string": (pa.string(), "x"),
    "date": (pa.date32(), date(2022, 1, 1)),
    "timestamp": (UTC, AT.replace(tzinfo=timezone.utc)),
    "timestamp_ntz": (pa.timestamp("us"), AT),
}
DECLARED = [
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string"),
    *("decimal(10,0)", "decimal(20,0)", "decimal(20,2)", "decimal(38,2)"),
    *("date", "timestamp", "timestamp_ntz"),
]


def test_what_is_called_exact_is_read_as_it_is_in_the_file(lab: Lab):
    numbers = (int, float, Decimal)
    for kind, (arrow, value) in ARROW.items():
        path = write(lab, f"{kind}.parquet", {"v": pa.array([value], arrow)})
        for declared in DECLARED:
            if not is_exact(kind, declared) or carrier(kind, declared) != declared:
                continue
            frame = lab.spark.read.schema(f"v {declared}").parquet(path)
            ((read,),) = frame.collect()
            if isinstance(read, datetime) and declared == "timestamp":
                read = read.astimezone(timezone.utc)
            if declared == "bigint" and isinstance(value, datetime):
                read = datetime.fromtimestamp(read / 1e6, timezone.utc).replace(tzinfo=value.tzinfo)
            assert read == value, (kind, declared)
            assert isinstance(read, numbers) == isinstance(value, numbers) or declared == "bigint"


NANOS = [AT.replace(microsecond=123456), None, datetime(1900, 1, 1, 0, 0, 0, 1)]


@pytest.mark.connect
@pytest.mark.parametrize("columns", [None, "n TIMESTAMP_NTZ, z TIMESTAMP, l ARRAY<TIMESTAMP_NTZ>"])
def test_nanoseconds_are_read_where_nothing_is_lost(lab: Lab, columns: str | None):
    lab.settings["timezone"] = "Europe/Berlin"
    skipped = datetime(2022, 3, 27, 2, 30)
    values = [*NANOS, skipped]
    lists = [None if each is None else [each, None] for each in values]
    given = {
        "n": pa.array(values, pa.timestamp("ns")),
        "z": pa.array(values, pa.timestamp("ns", "UTC")),
        "l": pa.array(lists, pa.list_(pa.timestamp("ns"))),
    }
    write(lab, "f.parquet", given)
    read = sorted(dicts(lab, source(columns)), key=lambda row: repr(row["n"]))
    assert sorted((row["n"] for row in read), key=repr) == sorted(values, key=repr)
    assert sorted((row["l"] for row in read), key=repr) == sorted(lists, key=repr)
    for row in read:
        assert (
            row["n"] is None or row["z"].astimezone(timezone.utc).replace(tzinfo=None) == row["n"]
        )


def test_nanoseconds_of_structs_and_maps_are_read(lab: Lab):
    ns = pa.timestamp("ns")
    write(
        lab,
        "f.parquet",
        {
            "s": pa.array([{"t": AT, "x": 1}, None], pa.struct([("t", ns), ("x", pa.int32())])),
            "m": pa.array([[("k", {"t": AT})], None], pa.map_(pa.string(), pa.struct([("t", ns)]))),
        },
    )
    read = dicts(lab, source())
    assert {"s": {"t": AT, "x": 1}, "m": {"k": {"t": AT}}} in read
    assert {"s": None, "m": None} in read


def test_nanoseconds_that_would_be_lost_are_refused(lab: Lab):
    write(lab, "f.parquet", {"ts": pa.array([1_641_006_000_123_456_789], pa.timestamp("ns"))})
    problem = refused(lab, source())
    assert "column ts holds 1641006000123456789, whose nanoseconds a TIMESTAMP cannot" in problem
    assert rows(lab, "ts BIGINT") == [(1_641_006_000_123_456_789,)]


def test_nanoseconds_determine_the_window(lab: Lab):
    instants = [datetime(2022, 1, n, 12) for n in (1, 2, 2)]
    write(lab, "f.parquet", {"ts": pa.array(instants, pa.timestamp("ns", "UTC"))})
    lab.table("ods.t", {"source": source(window_column="ts"), "target": TARGET})
    assert [lab.run("ods.t", day(n)).counts.target for n in (1, 2, 3)] == [1, 2, 0]


UNREADABLE = {
    "duration of nanoseconds": (pa.duration("ns"), 1, "duration[ns]", "BIGINT"),
    "decimal over 38 digits": (pa.decimal256(50, 2), Decimal(1), "decimal(50,2)", "BINARY"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("case", UNREADABLE)
def test_a_type_that_spark_lacks_is_refused_with_the_line_to_write(lab: Lab, case: str):
    arrow, value, kind, fix = UNREADABLE[case]
    path = write(lab, "f.parquet", {"id": pa.array([1]), "v": pa.array([value], arrow)})
    problem = refused(lab, source())
    assert f"{path}: the column v is a {kind}, which Spark cannot read" in problem
    assert f'write columns: "id BIGINT, v {fix}", which reads it as {fix}' in problem
    assert len(rows(lab, f"id BIGINT, v {fix}")) == 1


def test_integers_of_128_bits_are_refused_by_the_column(lab: Lab):
    """Integers that polars writes as 16 bytes, and what they are into the schema of Arrow alone."""
    says = pa.schema([("n", pa.int64())]).serialize().to_pybytes()
    says = says.replace((64).to_bytes(4, "little"), (128).to_bytes(4, "little"))
    table = pa.table({"n": pa.array([(2**100).to_bytes(16, "little")], pa.binary(16))})
    path = lab.root / "in" / "f.parquet"
    path.parent.mkdir()
    with parquet.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"ARROW:schema": base64.b64encode(says).decode()})
    with pytest.raises(pa.ArrowNotImplementedError):
        parquet.read_metadata(path)
    problem = refused(lab, source())
    assert f"{path}: the column n is a 128-bit integer, which Spark cannot read" in problem
    assert 'write columns: "n BINARY", which reads it as BINARY' in problem
    assert rows(lab, "n BINARY") == [((2**100).to_bytes(16, "little"),)]


ORC_CHANGED = {
    "a wide number": (pa.int64(), 2**40, "INT", "BIGINT"),
    "digits": (pa.decimal128(18, 3), Decimal("1.555"), "DECIMAL(18, 2)", "DECIMAL(18,3)"),
    "a fraction": (pa.decimal128(18, 3), Decimal("1.555"), "BIGINT", "DECIMAL(18,3)"),
    "a text": (pa.string(), "x", "INT", "STRING"),
    "a double": (pa.float64(), 0.1, "FLOAT", "DOUBLE"),
    "a time as a day": (pa.timestamp("us"), AT, "DATE", "TIMESTAMP"),
    "a time": (pa.timestamp("us"), AT, "TIMESTAMP_NTZ", "TIMESTAMP"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("case", ORC_CHANGED)
def test_orc_values_that_columns_would_change_are_refused(lab: Lab, case: str):
    arrow, value, declared, fix = ORC_CHANGED[case]
    path = write(lab, "f.orc", {"v": pa.array([value], arrow)})
    problem = refused(lab, source(f"v {declared}", "orc"))
    assert f"{path}: the column v is" in problem
    assert f"write v {fix} in `columns`" in problem
    assert len(rows(lab, f"v {fix}", "orc")) == 1


def test_types_of_spark_that_are_numbers_in_its_files_are_read(lab: Lab):
    sql = "SELECT TIMESTAMP_NTZ'2022-01-01 03:00:00' AS n, INTERVAL '1' DAY AS i"
    for form in ("orc", "parquet"):
        folder = str(lab.root / f"in/{form}")
        lab.spark.sql(sql).coalesce(1).write.format(form).save(folder)
        given = source("n TIMESTAMP_NTZ, i INTERVAL DAY", form, path=f"in/{form}")
        load(lab, given, "SELECT n, CAST(i AS STRING) AS i FROM source")
        assert lab.rows("ods.t") == [(AT, "INTERVAL '1' DAY")]


OLD = {
    "a day": (pa.date32(), date(1500, 1, 1)),
    "a day that Java's calendar lacks": (pa.date32(), date(1582, 10, 10)),
    "a time": (pa.timestamp("us"), datetime(1500, 1, 1)),
    "a time with a zone": (pa.timestamp("us", "UTC"), datetime(1500, 1, 1)),
    "a day in a list": (pa.list_(pa.struct([("d", pa.date32())])), [{"d": date(1, 1, 1)}]),
}


@pytest.mark.sampled
@pytest.mark.parametrize("case", OLD)
def test_old_days_of_orc_files_that_java_did_not_write_are_refused(lab: Lab, case: str):
    kind, value = OLD[case]
    path = write(lab, "f.orc", {"d": pa.array([value, None], kind)})
    problem = refused(lab, source(form="orc"))
    assert "column d holds a day before 1582-10-15" in problem
    assert path in problem
    assert "write the column as text, or the file as Parquet" in problem


def test_newer_days_of_orc_files_are_read(lab: Lab):
    days = [date(1582, 10, 16), date(1970, 1, 1), date(9999, 12, 31), None]
    times = [day and datetime(day.year, day.month, day.day, 3) for day in days]
    given = {"d": pa.array(days, pa.date32()), "t": pa.array(times, pa.timestamp("us"))}
    write(lab, "f.orc", given)
    expected = zip(days, [time and str(time) for time in times], strict=True)
    load(lab, source(form="orc"), "SELECT d, CAST(t AS STRING) AS t FROM source")
    assert lab.rows("ods.t") == sorted(expected, key=repr)


def test_old_days_that_spark_wrote_to_orc_are_read(lab: Lab):
    sql = "SELECT DATE'1500-01-01' AS d"
    lab.spark.sql(sql).coalesce(1).write.orc(str(lab.root / "in"))
    assert rows(lab, form="orc") == [(date(1500, 1, 1),)]


def test_lists_and_maps_whose_values_are_all_null_are_read(lab: Lab):
    """PyArrow writes them with an empty dictionary, in which Spark looks for the elements."""
    at = pa.timestamp("us", "UTC")
    pair = pa.struct([("a", at), ("t", pa.time64("us"))])
    columns = {
        "l": pa.array([[None, None], []], pa.list_(at)),
        "m": pa.array([[("a", None)], []], pa.map_(pa.string(), at)),
        "t": pa.array([[("a", None)], []], pa.map_(pa.string(), pa.time64("us"))),
        "s": pa.array([[{"a": None, "t": None}], []], pa.list_(pair)),
    }
    write(lab, "f.parquet", columns)
    load(lab, source(), target={"type": "orc"})
    assert lab.rows("ods.t") == [
        ([None, None], {"a": None}, {"a": None}, [(None, None)]),
        ([], {}, {}, []),
    ]


def test_two_columns_of_one_name_in_any_case_are_refused_with_their_file(lab: Lab):
    file = write(lab, "f.parquet", {"a": pa.array([1]), "A": pa.array([2])})
    for columns in (None, "a BIGINT"):
        assert f"{file}: the file has two columns named a, and" in refused(lab, source(columns))
    nested = pa.array([[{"x": 1, "X": 2}]])
    write(lab, "f.parquet", {"a": nested})
    assert "two columns named a.element.x, and Spark does" in refused(lab, source())


SPLIT = {"use_dictionary": False, "column_encoding": {"v": "BYTE_STREAM_SPLIT"}}


def test_an_encoding_that_older_versions_of_spark_lack_is_named_with_its_column(lab: Lab):
    file = write(lab, "f.parquet", {"n": pa.array([1]), "v": pa.array([1.5])}, **SPLIT)
    if older_than(lab, 4, 3):
        problem = refused(lab, source("n BIGINT, v DOUBLE"))
        assert f"{file}: the column v has the encoding BYTE_STREAM_SPLIT, which Spark" in problem
        assert "use_byte_stream_split=False), set spark.sql.parquet.enableVectorized" in problem
        assert rows(lab, "n BIGINT") == [(1,)]
        lab.settings["spark"] = {"config": {"spark.sql.parquet.enableVectorizedReader": False}}
    assert rows(lab, "n BIGINT, v DOUBLE") == [(1, 1.5)]


def test_features_of_parquet_are_refused_on_the_versions_of_spark_that_lack_them():
    binary, one = ty.StructType().add("v", ty.BinaryType()), ty.StructType().add("n", ty.LongType())
    for version, feature, columns, problem in (
        ("4.0.3", "variant", one, "nor open the file; write it as text, or use Spark 4.1 or newer"),
        ("4.0.3", "geometry", binary, "cannot read, nor open the file"),
        ("4.1.0", "geometry", None, "has the type GEOMETRY, which Spark 4.1.0 cannot read; write"),
        ("4.1.0", "instant", one, "write the file as Parquet, or use Spark 4.2 or newer"),
        ("4.2.1", "BYTE_STREAM_SPLIT", None, "or use Spark 4.3 or newer"),
    ):
        with pytest.raises(TerminalStepError, match=problem):
            refuse_newer_features(features(feature), columns, Session(version))
    for version, feature, columns in (
        ("4.1.0", "variant", None),
        ("4.1.0", "geometry", binary),
        ("4.2.0", "geography", None),
        ("4.2.0", "instant", None),
        ("4.0.0", "BYTE_STREAM_SPLIT", one),
        ("4.3.0", "BYTE_STREAM_SPLIT", None),
    ):
        refuse_newer_features(features(feature), columns, Session(version))


def test_orc_files_with_instants_at_any_depth_are_refused_before_spark_4_2(lab: Lab):
    instants = pa.array([[AT]], pa.list_(pa.timestamp("us", "UTC")))
    file = write(lab, "f.orc", {"n": pa.array([1]), "v": instants})
    (footer,) = footers([DataFile(*each) for each in fingerprint(file)], "orc")
    assert footer.newer == {(("v",), "instant")}
    if older_than(lab, 4, 2):
        assert f"{file}: the column v has the ORC type timestamp with local" in refused(
            lab, source(form="orc")
        )


def features(name: str) -> Any:
    return [("f.parquet", frozenset([(("v",), name)]))]


class Session:
    """A session of a version of Spark, with its default settings."""

    def __init__(self, version: str):
        self.version, self.conf = version, {"spark.sql.parquet.enableVectorizedReader": "true"}


def older_than(lab: Lab, *version: int) -> bool:
    return tuple(map(int, lab.spark.version.split(".")[:2])) < version
