"""Tables that other engines wrote are read right; PyIceberg's own reader tells what that is."""

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)

from logdriven_dagster.engine.targets.contents import holdings
from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.foreign_tables import (
    add_file,
    append,
    arrow_schema,
    as_pyiceberg_reads,
    data_files,
    deleted_rows,
    deletion_vector,
    edited,
    foreign_table,
    from_hive,
    in_parquet,
)
from tests.engine.laboratory import Lab

TWO = Schema(NestedField(1, "a", LongType()), NestedField(2, "b", LongType()))
NESTED = Schema(
    NestedField(1, "id", LongType()),
    NestedField(
        2, "s", StructType(NestedField(3, "x", LongType()), NestedField(4, "y", StringType()))
    ),
    NestedField(
        5, "l", ListType(6, StructType(NestedField(7, "p", LongType())), element_required=False)
    ),
    NestedField(8, "m", MapType(9, StringType(), 10, StructType(NestedField(11, "v", LongType())))),
)


def ours(lab: Lab, sql: str = "SELECT *", name: str = "ods.t") -> list[tuple[Any, ...]]:
    """The rows as our windows read them, by a query over them."""
    frame = lab.engine.read(name)
    frame.createOrReplaceTempView("t")
    rows = lab.spark.sql(f"{sql} FROM t").collect()
    return sorted((plain(tuple(row)) for row in rows), key=repr)


def plain(value: Any) -> Any:
    """A value of Spark as PyArrow has it."""
    if hasattr(value, "asDict"):
        return {name: plain(part) for name, part in value.asDict().items()}
    if isinstance(value, dict):
        return [(key, plain(part)) for key, part in value.items()]
    return type(value)(map(plain, value)) if isinstance(value, (tuple, list)) else value


def test_renamed_columns_are_read_and_filtered_by_their_ids(lab: Lab):
    table = foreign_table(lab, TWO)
    append(table, *({"a": n, "b": -n} for n in range(3)))
    with table.update_schema() as update:
        update.rename_column("a", "c")
    with table.update_schema() as update:
        update.rename_column("b", "a")
    with table.update_schema() as update:
        update.rename_column("c", "b")
    append(table, {"b": 7, "a": -7})
    assert ours(lab) == as_pyiceberg_reads(table) == [(0, 0), (1, -1), (2, -2), (7, -7)]
    assert ours(lab, "SELECT count_if(b = 1), count_if(a = -2), max(b)") == [(1, 1, 7)]
    lab.engine.read("ods.t").where("b = 2").createOrReplaceTempView("two")
    assert [tuple(row) for row in lab.spark.table("two").collect()] == [(2, -2)]


def test_a_column_that_was_dropped_and_added_again_is_empty_in_older_files(lab: Lab):
    table = foreign_table(lab, TWO)
    append(table, {"a": 1, "b": 1})
    with table.update_schema() as update:
        update.delete_column("b")
    with table.update_schema() as update:
        update.add_column("b", StringType())
    append(table, {"a": 2, "b": "two"})
    assert ours(lab) == as_pyiceberg_reads(table) == [(1, None), (2, "two")]


def test_nested_columns_are_renamed_dropped_added_and_promoted(lab: Lab):
    table = foreign_table(lab, NESTED)
    append(table, row(1), {"id": 2, "s": None, "l": None, "m": None})
    with table.update_schema() as update:
        update.rename_column("s.x", "z")
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.add_column(("s", "x"), StringType())
        update.delete_column("s.y")
        update.rename_column("l.element.p", "q")
        update.rename_column("m.value.v", "w")
    assert ours(lab) == as_pyiceberg_reads(table)
    assert ours(lab, "SELECT s.z, s.x, get(l, 0).q, m['k'].w")[0] == (1, None, 1, 1)


def row(n: int) -> dict[str, Any]:
    return {"id": n, "s": {"x": n, "y": str(n)}, "l": [{"p": n}], "m": {"k": {"v": n}}}


def test_columns_grow(lab: Lab):
    schema = Schema(
        NestedField(1, "i", IntegerType()),
        NestedField(2, "f", FloatType()),
        NestedField(3, "d", DecimalType(7, 2)),
    )
    table = foreign_table(lab, schema)
    append(table, {"i": 1, "f": 1.5, "d": Decimal("1.25")})
    with table.update_schema() as update:
        update.update_column("i", LongType())
        update.update_column("f", DoubleType())
        update.update_column("d", DecimalType(20, 2))
    append(table, {"i": 2**40, "f": 0.1, "d": Decimal("123456789012.25")})
    assert ours(lab) == as_pyiceberg_reads(table)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["part-1.parquet", "hive.parquet"])
def test_files_with_and_without_ids_are_in_one_table(lab: Lab, name: str):
    """Those without are read by the names that the table's mapping remembers."""
    table = foreign_table(lab, NESTED)
    append(table, row(1))
    mapping = table.schema().name_mapping.model_dump_json()
    with table.transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": mapping})
    add_file(table, pa.Table.from_pylist([row(2)], without_ids(table)), name)
    with table.update_schema() as update:
        update.rename_column("id", "nr")
        update.rename_column("s.x", "z")
        update.rename_column("l.element.p", "q")
    append(table, {"nr": 3, "s": {"z": 3, "y": "3"}})
    assert ours(lab) == as_pyiceberg_reads(table)
    assert ours(lab, "SELECT nr, s.z, get(l, 0).q") == [(1, 1, 1), (2, 2, 2), (3, 3, None)]


def without_ids(table: Any) -> pa.Schema:
    return schema_to_pyarrow(table.schema(), include_field_ids=False)


def test_windows_of_ours_survive_a_rename_by_another_engine(lab: Lab):
    lab.table("ods.t", {"sql": "SELECT 1 AS a, 'x' AS b", "target": {"type": "iceberg"}})
    lab.run("ods.t", day(1))
    table = lab.engine._catalog.load_table("ods.t")
    with table.update_schema() as update:
        update.rename_column("a", "c")
    lab.table("ods.t", {"sql": "SELECT 2 AS c, 'y' AS b", "target": {"type": "iceberg"}})
    lab.run("ods.t", day(2))
    assert lab.rows("ods.t") == [(1, "x"), (2, "y")]
    assert [tuple(r)[:2] for r in as_pyiceberg_reads(table)] == lab.rows("ods.t")


DEFAULTS = {"n": 7, "s": "it's"}


def test_a_default_for_older_files_is_read(lab: Lab):
    table = foreign_table(lab, TWO)
    append(table, {"a": 1, "b": None})
    with table.update_schema() as update:
        update.add_column("n", LongType())
        update.add_column("s", StringType())
    append(table, {"a": 2, "b": 2, "n": None, "s": None})
    schemas = [schema.model_dump(by_alias=True) for schema in table.schemas().values()]
    for field in schemas[-1]["fields"]:
        if field["name"] in DEFAULTS:
            field["initial-default"] = DEFAULTS[field["name"]]
    version = {"format-version": 3, "next-row-id": 2}
    edited(table, schemas=[json_of(each) for each in schemas], **version)
    assert ours(lab) == [(1, None, 7, "it's"), (2, 2, None, None)]


def json_of(schema: dict[str, Any]) -> Any:
    fields = [{**field, "type": str(field["type"])} for field in schema["fields"]]
    return {**schema, "fields": fields}


def test_columns_that_are_only_in_the_partition_have_its_value(lab: Lab):
    """As after a migration from Hive, whose files lack the columns of their folders."""
    schema = Schema(
        NestedField(1, "v", LongType()),
        NestedField(2, "land", StringType()),
        NestedField(3, "day", DateType()),
    )
    spec = PartitionSpec(
        PartitionField(2, 1000, IdentityTransform(), "land"),
        PartitionField(3, 1001, IdentityTransform(), "day"),
    )
    table = foreign_table(lab, schema, partition_spec=spec)
    append(table, {"v": 1, "land": "de", "day": date(2022, 1, 1)})
    from_hive(table, {"v": [2]}, "fr", date(2022, 1, 2))
    from_hive(table, {"v": [3]}, None, date(2022, 1, 3), claimed=(2, 3))
    from_hive(table, {"v": [4]}, "it", date(2022, 1, 4), claimed=(2, 3))
    expected = [(1, "de", date(2022, 1, 1)), (2, "fr", date(2022, 1, 2))]
    expected += [(3, None, date(2022, 1, 3)), (4, "it", date(2022, 1, 4))]
    assert ours(lab) == as_pyiceberg_reads(table) == expected
    assert ours(lab, "SELECT count_if(land = 'fr'), count_if(land IS NULL)") == [(1, 1)]


def test_a_required_column_that_a_file_lacks_stops_the_query(lab: Lab):
    schema = Schema(
        NestedField(1, "v", LongType()), NestedField(2, "land", StringType(), required=True)
    )
    table = foreign_table(lab, schema)
    append(table, {"v": 1, "land": "de"})
    assert ours(lab) == [(1, "de")]
    append(table, {"v": 2, "land": "fr"})
    left = pa.table({"v": [2]}, pa.schema([arrow_schema(table).field("v")]))
    with table.io.new_output(data_files(table)[1].file_path).create(overwrite=True) as file:
        file.write(in_parquet(left))
    with pytest.raises(
        Exception, match=r"ods\.t: column land is required, but a file of the table"
    ):
        ours(lab)


UUIDS = Schema(
    NestedField(1, "u", UUIDType()),
    NestedField(2, "s", StructType(NestedField(3, "u", UUIDType()))),
    NestedField(4, "l", ListType(5, UUIDType(), element_required=False)),
    NestedField(6, "m", MapType(7, StringType(), 8, UUIDType(), value_required=False)),
)


def test_uuids_are_texts_found_by_ids_and_by_names(lab: Lab):
    table = foreign_table(lab, UUIDS)
    text = "0f8fad5b-d9cb-469f-a165-70867728950e"
    one, two = (
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array(each, pa.binary(16)))
        for each in ([UUID(text).bytes], [UUID(text).bytes, None])
    )
    columns = {
        "u": one,
        "s": pa.StructArray.from_arrays([one], ["u"]),
        "l": pa.ListArray.from_arrays([0, 2], two),
        "m": pa.MapArray.from_arrays([0, 1], ["k"], one),
    }
    table.append(pa.table(columns))
    expected = [(text, {"u": text}, [text, None], [("k", text)])]
    assert ours(lab) == expected
    assert ours(lab, f"SELECT count_if(u = '{text}')") == [(1,)]
    mapping = table.schema().name_mapping.model_dump_json()
    with table.transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": mapping})
    assert ours(lab) == expected


def test_lists_and_maps_whose_uuids_are_all_null_are_read(lab: Lab):
    table = foreign_table(lab, Schema(*UUIDS.fields[2:]))
    nulls = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([None, None], pa.binary(16)))
    entries = pa.MapArray.from_arrays([0, 2], ["a", "b"], nulls)
    table.append(pa.table({"l": pa.ListArray.from_arrays([0, 2], nulls), "m": entries}))
    assert ours(lab) == [([None, None], [("a", None), ("b", None)])]


def test_metadata_that_cannot_be_read_are_reported_with_their_table_and_problem(lab: Lab):
    table = foreign_table(lab, TWO)
    edited(table, **{"last-column-id": "none"})
    with pytest.raises(TerminalStepError, match=r"Iceberg table ods\.t cannot be read: .*last-col"):
        lab.rows("ods.t")


DELETES = {"position deletes": deleted_rows, "deletion vectors": deletion_vector}


@pytest.mark.sampled
@pytest.mark.parametrize("delete", DELETES.values(), ids=DELETES)
def test_rows_that_another_engine_deleted_are_gone(lab: Lab, delete: Any):
    table = foreign_table(lab, TWO)
    append(table, *({"a": n, "b": n} for n in range(5)))
    append(table, *({"a": n, "b": n} for n in range(5, 10)))
    first, second = data_files(table)
    delete(table, first, [0, 3])
    delete(table, second, [4])
    assert ours(lab, "SELECT a") == [(1,), (2,), (4,), (5,), (6,), (7,), (8,)]
    assert ours(lab) == as_pyiceberg_reads(table)
    assert ours(lab, "SELECT count(*), min(a), sum(b)") == [(7, 1, 33)]
    assert holdings(lab.project, lab.project.table("ods.t")).rows is None


def test_a_damaged_deletion_vector_is_named(lab: Lab):
    table = foreign_table(lab, TWO)
    append(table, *({"a": n, "b": n} for n in range(5)))
    deletion_vector(table, data_files(table)[0], [0, 3])
    (place,) = Path(table.location().removeprefix("file://")).glob("data/*-deletes")
    content = bytearray(place.read_bytes())
    content[42] ^= 1  # the number of a row
    for damaged, problem in (
        (bytes(content), "its checksum is wrong"),
        (place.read_bytes()[:40], "Incorrect magic bytes"),
    ):
        place.write_bytes(damaged)
        with pytest.raises(TerminalStepError, match=f"{place.name} cannot be read: {problem}"):
            lab.rows("ods.t")


def test_deleted_rows_are_not_counted_as_read(lab: Lab):
    table = foreign_table(lab, TWO)
    append(table, *({"a": n, "b": n} for n in range(5)))
    deleted_rows(table, data_files(table)[0], [0, 3])
    lab.table(
        "dwh.u", {"sql": "SELECT * FROM ods.t", "target": {"type": "parquet"}}, depends_on=["ods.t"]
    )
    ran = lab.run("dwh.u", day(1), reads={"ods.t": None})
    assert ran.counts.source == 3


def test_files_of_several_partition_specs_are_read_by_window(lab: Lab):
    schema = Schema(NestedField(1, "v", LongType()), NestedField(2, "at", TimestamptzType()))
    table = foreign_table(lab, schema)
    lab.table("ods.t", {"sql": "SELECT 1 AS v", "target": {**BY_TIME}})
    append(table, *({"v": n, "at": at(n)} for n in (1, 2)))
    with table.update_spec() as update:
        update.add_field("at", DayTransform(), "at_day")
    with table.update_spec() as update:
        update.remove_field("at_day")
        update.add_field("at", IdentityTransform(), "at_same")
    append_each(table, 1, 2)
    assert lab.rows("ods.t", day(2)) == [(2, at(2).replace(tzinfo=None))] * 2
    assert len(as_pyiceberg_reads(table)) == 4


BY_TIME = {"type": "iceberg", "window_column": "at"}


def append_each(table: Any, *days: int) -> None:
    table.refresh()
    for n in days:
        append(table, {"v": n, "at": at(n)})


def at(n: int) -> datetime:
    return datetime(2022, 1, n, 12, tzinfo=timezone.utc)


@pytest.mark.usefixtures("long")
def test_an_upsert_knows_deleted_rows_and_renamed_columns(lab: Lab):
    table = foreign_table(lab, TWO)
    append(table, *({"a": n, "b": n} for n in range(4)))
    deleted_rows(table, data_files(table)[0], [1])
    with table.update_schema() as update:
        update.rename_column("a", "id")
    target = {"type": "iceberg", "mode": "upsert", "key": ["id"]}
    query = "SELECT id, b FROM VALUES (1L, 10L), (2L, 20L) AS v (id, b)"
    lab.table("ods.t", {"sql": query, "target": target})
    done = lab.run("ods.t", day(1)).published[0].merged
    assert (done.inserted, done.updated) == (1, 1)
    assert [r[:2] for r in as_pyiceberg_reads(table)] == lab.rows("ods.t")
    assert lab.rows("ods.t") == [(0, 0), (1, 10), (2, 20), (3, 3)]
