"""Avro files are read exactly, or refused with file, record and column."""

from contextlib import suppress
from datetime import date, datetime, time, timezone
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from fastavro.utils import generate_many

from logdriven_dagster.engine.arrow.types import arrow_schema
from logdriven_dagster.errors import InvalidProjectError, TerminalStepError
from logdriven_dagster.plugins.formats.avro import _read_columns, _read_records
from logdriven_dagster.plugins.formats.avro_types import find_spark_type
from logdriven_dagster.plugins.formats.batches import PROBLEM, build_batches
from logdriven_dagster.plugins.formats.reader import File, _Task
from logdriven_dagster.runlog.observed import audits
from logdriven_dagster.testing.conformance import SourceConformance, SourceScene
from tests.builders import at, day
from tests.engine.laboratory import Lab
from tests.execution.conftest import World
from tests.lake import Lake

TARGET = {"type": "parquet"}
SOURCE = {"type": "avro", "path": "in"}
AT = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}


def record(*fields: Any) -> dict[str, Any]:
    named = [{"name": f[0], "type": f[1]} if isinstance(f, tuple) else f for f in fields]
    return {"type": "record", "name": "r", "fields": named}


def write(path: Path, schema: Any, rows: Any, codec: str = "null") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        fastavro.writer(stream, schema, rows, codec=codec)
    return path


def write_raw(path: Path, schema: Any, rows: Any) -> None:
    """Write values as they are stored, without the conversions of their logical types."""
    writers = fastavro.write.LOGICAL_WRITERS
    known = dict(writers)
    writers.clear()
    try:
        write(path, schema, rows)
    finally:
        writers.update(known)


def load(lab: Lab, source: Any = None, sql: str | None = None, **fields: Any) -> Any:
    step = {"source": SOURCE | (source or {}), "target": TARGET} | ({"sql": sql} if sql else {})
    lab.table("ods.t", step, **fields)
    return lab.run("ods.t", day(1))


def refused(lab: Lab, source: Any = None, **fields: Any) -> str:
    with pytest.raises(TerminalStepError) as caught:
        load(lab, source, **fields)
    return str(caught.value)


def logical(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **fields}


INSTANT = datetime(2022, 3, 4, 5, 6, 7, 891234, timezone.utc)
VALUES: dict[str, tuple[Any, Any, str]] = {
    "boolean": ("boolean", True, "true"),
    "int": ("int", -(2**31), "-2147483648"),
    "long": ("long", 2**63 - 1, "9223372036854775807"),
    "double": ("double", 0.1, "0.1"),
    "bytes": ("bytes", b"\x00\xff", "00FF"),
    "string": ("string", "é😀", "é😀"),
    "null or string": (["null", "string"], "x", "x"),
    "int or long": (["null", "int", "long"], 7, "7"),
    "enum": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", "B"),
    "date": (logical("int", "date"), date(1500, 1, 1), "1500-01-01"),
    "time-millis": (logical("int", "time-millis"), time(1, 2, 3, 500_000), "01:02:03.5"),
    "time-micros": (logical("long", "time-micros"), time(1, 2, 3, 1), "01:02:03.000001"),
    "timestamp-millis": (logical("long", "timestamp-millis"), INSTANT, "2022-03-04 05:06:07.891"),
    "timestamp-micros": (
        logical("long", "timestamp-micros"),
        INSTANT,
        "2022-03-04 05:06:07.891234",
    ),
    "timestamp-nanos": (logical("long", "timestamp-nanos"), 1000, "1970-01-01 00:00:00.000001"),
    "local": (logical("long", "local-timestamp-micros"), 1, "1970-01-01 00:00:00.000001"),
    "uuid": (logical("string", "uuid"), UUID(int=1), str(UUID(int=1))),
    "decimal": (
        logical("bytes", "decimal", precision=38, scale=2),
        Decimal("-123456789012345678901234567890123456.78"),
        "-123456789012345678901234567890123456.78",
    ),
    "map of arrays": (
        {"type": "map", "values": {"type": "array", "items": ["null", "long"]}},
        {"a": [1, None]},
        "{a -> [1, null]}",
    ),
    "record": (
        {"type": "record", "name": "n", "fields": [AT | {"name": "x"}]},
        {"x": INSTANT},
        "{2022-03-04 05:06:07.891234}",
    ),
}


def test_each_type_is_read_exactly(lab: Lab):
    names = {case: f"c{number}" for number, case in enumerate(VALUES)}
    schema = record(*((names[case], VALUES[case][0]) for case in VALUES))
    values = {names[case]: VALUES[case][1] for case in VALUES}
    write(lab.root / "in/f.avro", schema, [values, values], "deflate")
    lab.settings["timezone"] = "UTC"
    shown = ", ".join(
        f"hex({name}) AS {name}" if case == "bytes" else f"CAST({name} AS STRING) AS {name}"
        for case, name in names.items()
    )
    load(lab, sql=f"SELECT {shown} FROM source")
    (row, again) = lab.rows("ods.t")
    assert row == again == tuple(expected for *_, expected in VALUES.values())


def test_generated_values_are_read_as_fastavro_reads_them(tmp_path: Path):
    """Values of any schema; times and decimals have a test of their own."""
    kinds = [kind for kind, *_ in VALUES.values() if "logicalType" not in str(kind)]
    nested = record(*((f"n{number}", kind) for number, kind in enumerate(kinds)))
    schema = record(
        ("r", nested | {"name": "inner"}),
        ("l", {"type": "array", "items": ["null", "inner"]}),
        ("m", {"type": "map", "values": {"type": "array", "items": "double"}}),
    )
    rows = list(generate_many(schema, 500))
    path = write(tmp_path / "f.avro", schema, rows, "deflate")
    columns = arrow_schema(find_spark_type(schema, "f"))
    assert columns is not None
    with path.open("rb") as stream:
        batches = list(build_batches(_read_records(stream, "f"), columns, {}, "f", frozenset()))
    found = [row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict")]
    assert [row.pop(PROBLEM) for row in found] == [None] * 500
    with path.open("rb") as stream:
        assert found == list(fastavro.reader(stream))


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "a union": (["int", "string"], 1, "the column v is a union of int, string"),
    "a duration": (
        {"type": "fixed", "name": "d", "size": 12, "logicalType": "duration"},
        bytes(12),
        "the column v is a duration",
    ),
    "too many digits": (
        logical("bytes", "decimal", precision=40, scale=2),
        b"\x01",
        "the column v is DECIMAL(40, 2)",
    ),
    "a decimal without digits": (
        logical("bytes", "decimal"),
        b"\x01",
        "the column v is DECIMAL(0, 0)",
    ),
    "a negative time of day": (
        logical("int", "time-millis"),
        -1,
        "in/f.avro, after record 0: the file is incomplete or damaged",
    ),
    "nanoseconds": (
        logical("long", "timestamp-nanos"),
        1001,
        "in/f.avro, record 1: column v holds '1001 ns, with digits below a microsecond'",
    ),
    "digits beyond the precision": (
        logical("bytes", "decimal", precision=4, scale=2),
        b"\x7f\xff\xff",
        "in/f.avro, record 1: column v holds Decimal('83886.07')",
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("case", REFUSED)
def test_a_value_that_spark_cannot_hold_is_refused_with_its_place(lab: Lab, case: str):
    kind, value, problem = REFUSED[case]
    write_raw(lab.root / "in/f.avro", record(("v", kind)), [{"v": value}])
    assert problem in refused(lab)


def test_a_record_fails_its_own_window(lab: Lab):
    schema = record(AT, ("v", logical("long", "timestamp-nanos")))
    times = [datetime(2022, 1, n, 12, tzinfo=timezone.utc) for n in (1, 2)]
    micros = [int(each.timestamp()) * 1_000_000 for each in times]
    rows = [{"at": micros[0], "v": 1000}, {"at": micros[1], "v": 1001}]
    write_raw(lab.root / "in/f.avro", schema, rows)
    lab.table("ods.t", {"source": SOURCE | {"window_column": "at"}, "target": TARGET})
    counts = lab.run("ods.t", day(1)).counts
    assert (counts.source, counts.target) == (1, 1)
    with pytest.raises(TerminalStepError, match=r"record 2: column v holds"):
        lab.run("ods.t", day(2))
    source = SOURCE | {"window_column": "at", "mode": "PERMISSIVE"}
    lab.table("ods.t", {"source": source, "target": TARGET})
    counts = lab.run("ods.t", day(2)).counts
    assert (counts.target, counts.malformed) == (1, 1)
    assert [row[1] for row in lab.rows("ods.t", day(2))] == [None]


def test_columns_select_and_widen(lab: Lab):
    write(lab.root / "in/f.avro", record(("ID", "int"), ("x", "float")), [{"ID": 1, "x": 0.5}])
    load(lab, {"columns": "x DOUBLE, id DECIMAL(12, 0)"})
    assert lab.rows("ods.t") == [(0.5, Decimal(1))]
    assert "the column ID is int, not string" in refused(lab, {"columns": "id STRING"})
    problem = refused(lab, {"columns": "id INT, y INT"})
    assert "the files have no column y; they have ID" in problem


def test_files_of_several_schemas_have_one_type(lab: Lab):
    write(lab.root / "in/1.avro", record(("a", "int")), [{"a": 1}])
    write(lab.root / "in/2.avro", record(("a", "long"), ("b", "string")), [{"a": 2**40, "b": "x"}])
    load(lab)
    assert sorted(lab.rows("ods.t"), key=str) == [(1, None), (2**40, "x")]
    write(lab.root / "in/3.avro", record(("a", "long")), [{"a": 3}])
    assert "3.avro has no column b, which the older file" in refused(lab)
    assert load(lab, missing_columns="allow").counts.target == 3
    write(lab.root / "in/3.avro", record(("a", "string"), ("b", "string")), [])
    assert "3.avro: the column a is string, in older files bigint" in refused(lab)


def test_options_are_those_of_lists_of_files(lab: Lab):
    with pytest.raises(InvalidProjectError, match=r"options.mode: not an option for a list of"):
        load(lab, {"options": {"mode": "PERMISSIVE"}})


def test_folders_are_columns(lab: Lab):
    for number in (1, 2):
        path = lab.root / f"in/dt=2022-01-0{number}/f.avro"
        write(path, record(("n", "int")), [{"n": number}])
    source = SOURCE | {"window_column": "dt"}
    lab.table("ods.t", {"source": source, "target": TARGET})
    assert lab.run("ods.t", day(2)).counts.target == 1
    assert lab.rows("ods.t") == [(2, date(2022, 1, 2))]


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"id,x\n1,2\n", "is not an Avro file"), (None, "the file is incomplete or damaged")],
)
def test_a_file_that_is_not_avro_or_is_cut_off_is_refused(
    lab: Lab, content: bytes | None, problem: str
):
    path = write(lab.root / "in/f.avro", record(("n", "int")), [{"n": n} for n in range(1000)])
    path.write_bytes(path.read_bytes()[:-40] if content is None else content)
    assert problem in refused(lab)


@pytest.mark.sampled
@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_codecs_are_read(lab: Lab, codec: str):
    write(lab.root / "in/f.avro", record(("n", "int")), [{"n": 1}], codec)
    assert load(lab).counts.target == 1


ROWS = [{"a": f"text {n}" * 3, "b": n if n % 3 else None} for n in range(300)]


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz", "lz4"])
def test_a_damaged_block_of_any_codec_is_refused(tmp_path: Path, codec: str):
    """The bytes of a block: its sync marker, its size, and the compressed records."""
    schema = record(("a", "string"), ("b", ["null", "long"]))
    content = write(tmp_path / "f.avro", schema, ROWS, codec).read_bytes()
    assert [each.values for each in _read_records(BytesIO(content), "f")] == ROWS
    marker = content[-16:]
    start = content.index(marker) + 16
    damaged = {
        "sync marker": content[:-1] + bytes([content[-1] ^ 1]),
        "negative size": content[: start + 2] + b"\x01" + content[start + 3 :],
        "size without end": content[: start + 2] + b"\xff" * 20 + content[start + 3 :],
        "half a block": content[: len(content) // 2],
    }
    damaged |= {
        f"byte {n}": content[:n] + bytes([content[n] ^ 0x81]) + content[n + 1 :]
        for n in range(start, len(content) - 16, 1 + len(content) // 40)
    }
    for name, each in damaged.items():
        with suppress(TerminalStepError):
            assert len(list(_read_records(BytesIO(each), "f"))) == len(ROWS)
            # Only a byte of a value may differ, in codecs without a checksum.
            assert name.startswith("byte")
            assert codec in ("null", "deflate", "lz4", "zstandard")


def test_a_block_with_more_bytes_than_records_is_refused(tmp_path: Path):
    path = write(tmp_path / "f.avro", record(("n", "int")), [{"n": 1}, {"n": 2}])
    content = path.read_bytes()
    start = content.index(content[-16:]) + 16
    assert content[start : start + 2] == b"\x04\x04"
    with pytest.raises(TerminalStepError, match="a block has more bytes than records"):
        list(_read_records(BytesIO(content[:start] + b"\x02" + content[start + 1 :]), "f"))


def test_an_error_of_the_storage_is_none_of_the_file(tmp_path: Path):
    """It is temporary; bz2 also raises OSError for damaged data."""
    content = write(tmp_path / "f.avro", record(("n", "int")), [{"n": 1}], "bzip2").read_bytes()

    class Broken(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() > len(content) - 40:
                raise OSError("connection reset")
            return super().read(size)

    with pytest.raises(OSError, match="connection reset"):
        list(_read_records(Broken(content), "f"))


def test_a_library_that_workers_do_not_have_is_named(tmp_path: Path):
    def read(*_: Any) -> Any:
        raise ModuleNotFoundError("No module named 'fastavro'", name="fastavro")

    path = write(tmp_path / "f.avro", record(("n", "int")), [])
    task = _Task(read, pa.schema([]), {}, (), frozenset(), ())
    with pytest.raises(TerminalStepError, match=r"workers .* package fastavro; install it on"):
        list(task.read(iter([pa.record_batch({"path": [str(path)]})])))


def test_a_damaged_header_is_refused(tmp_path: Path):
    path = write(tmp_path / "f.avro", record(("a", "string"), ("b", "int")), [])
    content = path.read_bytes()
    for n in range(4, len(content) - 16):
        path.write_bytes(content[:n] + bytes([content[n] ^ 0x21]) + content[n + 1 :])
        with suppress(TerminalStepError):
            _read_columns(File(str(path), n, 0), ())


class TestAvro(SourceConformance):
    @pytest.fixture
    def scene(self, lab: Lab) -> SourceScene:
        times = [datetime(2022, 1, d, h, tzinfo=timezone.utc) for d, h in ((1, 1), (1, 23), (3, 0))]
        write(lab.root / "in/f.avro", record(AT), [{"at": each} for each in times])
        target = TARGET | {"window_column": "at"}
        lab.table("ods.t", {"source": SOURCE | {"window_column": "at"}, "target": target})
        return SourceScene(project=lab.project, start=lambda: lab.engine, counts=(2, 0, 1))


def test_rows_are_counted_by_file(spark: Any, world: World):
    for number in (1, 2, 3):
        time = datetime(2022, 1, number, 12, tzinfo=timezone.utc)
        write(world.root / f"in/{number}.avro", record(AT), [{"at": time}])
    world.write(
        "tables/t.yaml",
        """
        table: ods.t
        period: 1 day
        default_start: 2022-01-02
        batch_size: 1
        steps:
          - step: load
            source: {type: avro, path: in, window_column: at}
            target: {type: parquet}
        """,
    )
    world.catch_up(now=at("2022-01-04"))
    (rows,) = world.runner.run_log.ask(
        lambda conn: audits.read_source_rows(conn, ["ods.t"], with_files=True)
    )
    assert [file.total for file in rows.files] == [1, 1, 1]
    assert (rows.total, rows.before) == (3, 1)
    assert len(world.rows("ods.t")) == 2


def test_each_row_has_the_facts_of_its_file(lab: Lab):
    for number in (1, 2):
        write(lab.root / f"in/dt={number}/{number}.avro", record(("n", "int")), [{"n": number}])
    load(lab, {"file_columns": {"file": "file_name"}}, "SELECT n, dt, file FROM source")
    assert sorted(lab.rows("ods.t")) == [(1, 1, "1.avro"), (2, 2, "2.avro")]


def test_files_in_a_bucket_are_read(lab: Lab, lake: Lake):
    write(lab.root / "in/day=1/f.avro", record(("n", "int")), [{"n": 1}])
    lab.settings["storage"] = lake.settings(lab.root)["storage"]
    assert load(lab, {"path": lake.url(lab.root / "in")}).counts.target == 1
    assert lab.rows("ods.t") == [(1, 1)]
