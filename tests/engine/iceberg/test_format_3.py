"""Tables of Iceberg's format version 3 as sources; PyIceberg does not write them."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from pyspark import __version__ as spark_version

from logdriven_dagster.errors import TerminalStepError
from tests.engine.foreign_tables import append_file, edited, foreign_table
from tests.engine.laboratory import Lab

ONE = Schema(NestedField(1, "id", LongType()))
TIMES = [datetime(1969, 12, 31, 23, 59, 59, 999999, timezone.utc), None]
TIMES += [datetime(2022, 1, 1, 12, 0, 0, 123456, timezone.utc)]


def in_version_3(table: Any, fields: list[dict[str, Any]]) -> None:
    """Let a table have format version 3 and these columns."""
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    edited(table, schemas=[schema], **{"format-version": 3, "next-row-id": 9})


def column(number: int, name: str, kind: Any, default: Any = None) -> dict[str, Any]:
    given = {} if default is None else {"initial-default": default, "write-default": default}
    return {"id": number, "name": name, "type": kind, "required": False, **given}


DEFAULTS: dict[str, tuple[Any, Any]] = {
    "boolean": (True, True),
    "int": (7, 7),
    "double": (0.5, 0.5),
    "decimal(9, 2)": ("14.20", "14.20"),
    "string": ("it's", "it's"),
    "date": ("2007-12-03", "2007-12-03"),
    "timestamp": ("2007-12-03T10:15:30.123456", "2007-12-03 10:15:30.123456"),
    "timestamptz": ("2007-12-03T10:15:30.123456+00:00", "2007-12-03 10:15:30.123456"),
}


def test_older_files_have_the_default_of_an_added_column(lab: Lab):
    lab.settings["timezone"] = "UTC"
    table = foreign_table(lab, ONE)
    append_file(table, pa.table({"id": pa.array([1], pa.int64())}), {"id": 1})
    newer = {"id": pa.array([2], pa.int64()), "int": pa.array([None], pa.int32())}
    append_file(table, pa.table(newer), {"id": 1, "int": 3})
    added = [
        column(n, kind, kind, given) for n, (kind, (given, _)) in enumerate(DEFAULTS.items(), 2)
    ]
    in_version_3(table, [column(1, "id", "long"), *added])
    old, new = lab.engine.read("ods.t").orderBy("id").collect()
    for kind, (_, value) in DEFAULTS.items():
        assert (str(old[kind]) if isinstance(value, str) else old[kind]) == value
    assert (new["int"], new["string"]) == (None, "it's")


@pytest.mark.parametrize(
    ("kind", "given"), [("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7"), ("binary", "0102ff")]
)
def test_a_default_that_spark_cannot_give_is_refused(lab: Lab, kind: str, given: str):
    table = foreign_table(lab, ONE)
    append_file(table, pa.table({"id": pa.array([1], pa.int64())}), {"id": 1})
    in_version_3(table, [column(1, "id", "long"), column(2, "x", kind, given)])
    with pytest.raises(TerminalStepError, match=rf"column x\b.* a {kind}, (cannot be|and Spark 4)"):
        lab.rows("ods.t")


def test_a_default_in_a_struct_is_refused(lab: Lab):
    table = foreign_table(lab, ONE)
    append_file(table, pa.table({"id": pa.array([1], pa.int64())}), {"id": 1})
    inner = {"type": "struct", "fields": [column(3, "x", "int", 7)]}
    in_version_3(table, [column(1, "id", "long"), column(2, "s", inner)])
    with pytest.raises(TerminalStepError, match=r"column x: defaults of nested columns.*rewrite"):
        lab.rows("ods.t")


needs_spark_4_1 = pytest.mark.skipif(
    spark_version.startswith("4.0."), reason="Spark 4.0 reads no nanoseconds by ids"
)
KINDS = {"timestamp_ns": None, "timestamptz_ns": "UTC"}


def nanoseconds(lab: Lab, kind: str, held: pa.Array) -> None:
    """A table with nanoseconds in a column, and in a struct."""
    table = foreign_table(lab, Schema(NestedField(1, "t", LongType())))
    inner = pa.field("u", held.type, metadata={"PARQUET:field_id": "3"})
    structs = pa.StructArray.from_arrays([held], fields=[inner])
    append_file(table, pa.table({"t": held, "s": structs}), {"t": 1, "s": 2})
    struct = {"type": "struct", "fields": [column(3, "u", kind)]}
    in_version_3(table, [column(1, "t", kind), column(2, "s", struct)])


@needs_spark_4_1
@pytest.mark.parametrize("kind", KINDS)
def test_nanoseconds_are_read_if_a_timestamp_can_store_them(lab: Lab, kind: str):
    zone = KINDS[kind]
    held = [at if at is None or zone else at.replace(tzinfo=None) for at in TIMES]
    nanoseconds(lab, kind, pa.array(held, pa.timestamp("ns", zone)))
    frame = lab.engine.read("ods.t")
    assert frame.dtypes[0] == ("t", "timestamp" if zone else "timestamp_ntz")
    assert frame.where("NOT t <=> s.u").isEmpty()
    rows = frame.selectExpr("unix_micros(t)" if zone else "CAST(t AS STRING)").collect()
    shown = [None if at is None else str(at) for at in held]
    if zone:
        epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
        shown = [None if at is None else (at - epoch) // timedelta(microseconds=1) for at in held]
    assert {row[0] for row in rows} == set(shown)


@needs_spark_4_1
@pytest.mark.parametrize("kind", KINDS)
def test_nanoseconds_that_a_timestamp_cannot_store_are_refused(lab: Lab, kind: str):
    finer = pa.array([1_500], pa.int64()).cast(pa.timestamp("ns", KINDS[kind]))
    nanoseconds(lab, kind, finer)
    with pytest.raises(Exception, match=r"column t holds 1500 nanoseconds since 1970.*type long"):
        lab.rows("ods.t")


def test_columns_of_the_row_lineage_are_not_read(lab: Lab):
    """Files that were rewritten hold the ids of their rows."""
    table = foreign_table(lab, ONE)
    one = pa.array([1], pa.int64())
    held = {"id": one, "_row_id": one, "_last_updated_sequence_number": one}
    ids = {"id": 1, "_row_id": 2147483540, "_last_updated_sequence_number": 2147483539}
    append_file(table, pa.table(held), ids)
    in_version_3(table, [column(1, "id", "long")])
    assert lab.rows("ods.t") == [(1,)]


def test_a_variant_column_is_refused_by_name(lab: Lab):
    table = foreign_table(lab, ONE)
    in_version_3(table, [column(1, "id", "long"), column(2, "v", "variant")])
    with pytest.raises(TerminalStepError, match=r"ods\.t cannot be read: .*'variant'.*rewrite it"):
        lab.rows("ods.t")
