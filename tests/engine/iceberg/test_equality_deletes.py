"""Rows that another engine deleted by their values, such as Flink's upserts, are not read."""

import random
from math import nan
from typing import Any

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)
from pyspark import __version__ as spark_version

from logdriven_dagster.engine.iceberg.scan import plan
from logdriven_dagster.errors import TerminalStepError
from tests.builders import day
from tests.engine.foreign_tables import (
    append,
    data_files,
    deleted_rows,
    deleted_values,
    foreign_table,
)
from tests.engine.laboratory import Lab

ROWS = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "part", StringType()),
    NestedField(3, "v", DoubleType()),
)
BY_PART = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))


def row(id_: int | None, part: str | None = "a", v: float | None = 0.0) -> dict[str, Any]:
    return {"id": id_, "part": part, "v": v}


def ids(lab: Lab) -> list[Any]:
    """The first column of the rows that a window reads."""
    return [each[0] for each in lab.rows("ods.t")]


def test_a_delete_applies_to_older_files_only(lab: Lab):
    table = foreign_table(lab, ROWS)
    append(table, row(1), row(2), row(3))
    deleted_values(table, {"id": 1}, {"id": 2}, upserted=[row(2, v=2.0)])
    append(table, row(1, v=3.0))
    assert lab.rows("ods.t") == [(1, "a", 3.0), (2, "a", 2.0), (3, "a", 0.0)]


def test_null_equals_null(lab: Lab):
    table = foreign_table(lab, ROWS)
    append(table, row(1, None), row(1, "a"), row(None, None), row(2, None))
    deleted_values(table, {"id": 1, "part": None})
    assert lab.rows("ods.t") == [(1, "a", 0.0), (2, None, 0.0), (None, None, 0.0)]
    deleted_values(table, {"id": None})
    assert ids(lab) == [1, 2]


def test_not_a_number_equals_itself_and_zero_has_a_sign(lab: Lab):
    """As Iceberg's Java library compares."""
    table = foreign_table(lab, ROWS)
    append(table, row(1, v=0.0), row(2, v=-0.0), row(3, v=nan), row(4, v=None))
    deleted_values(table, {"v": -0.0}, {"v": nan})
    assert ids(lab) == [1, 4]


def test_files_with_other_key_columns_are_in_one_table(lab: Lab):
    table = foreign_table(lab, ROWS)
    append(table, row(1), row(2, "b"), row(3, "c"), row(4, "c"))
    deleted_values(table, {"id": 1})
    deleted_values(table, {"part": "b"})
    deleted_values(table, {"part": "c", "id": 4})
    assert ids(lab) == [3]


def test_a_delete_applies_to_its_partition_or_without_one_to_all(lab: Lab):
    table = foreign_table(lab, ROWS)
    append(table, row(1, "a"), row(2, "a"))
    with table.update_spec() as update:
        update.add_identity("part")
    append(table, row(1, "a"), row(1, "b"), row(2, "b"))
    inside = next(file for file in data_files(table) if list(file.partition._data) == ["a"])
    deleted_values(table, {"id": 1}, inside=inside)
    assert lab.rows("ods.t") == [(1, "a", 0.0), (1, "b", 0.0), (2, "a", 0.0), (2, "b", 0.0)]
    deleted_values(table, {"id": 2})
    assert lab.rows("ods.t") == [(1, "a", 0.0), (1, "b", 0.0)]


def test_a_partition_that_is_null_has_its_own_deletes(lab: Lab):
    table = foreign_table(lab, ROWS, partition_spec=BY_PART)
    append(table, row(1, None), row(1, "a"))
    inside = next(file for file in data_files(table) if list(file.partition._data) == [None])
    deleted_values(table, {"id": 1}, inside=inside)
    assert lab.rows("ods.t") == [(1, "a", 0.0)]


def test_only_the_key_of_a_delete_file_is_compared(lab: Lab):
    """A file may hold more columns, with bounds that the rows do not have."""
    table = foreign_table(lab, ROWS)
    append(table, row(1, "a"))
    bounds = {2: b"x"}
    deleted_values(
        table, {"id": 1, "part": "x"}, columns=["part"], lower_bounds=bounds, upper_bounds=bounds
    )
    assert ids(lab) == []
    (task,) = plan(table, EqualTo("part", "a"))  # type: ignore[arg-type]
    assert task.equality_deletes


def test_renamed_widened_and_dropped_key_columns_are_found_by_their_ids(lab: Lab):
    schema = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "part", StringType()))
    table = foreign_table(lab, schema)
    append(table, *({"id": n, "part": "a" if n < 3 else "b"} for n in range(5)))
    deleted_values(table, {"id": 1, "part": "a"}, {"id": 4, "part": "a"})
    with table.update_schema() as update:
        update.update_column("id", field_type=LongType())
        update.rename_column("id", "number")
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("part")
    with table.update_schema() as update:
        update.add_column("part", StringType())
    table.refresh()
    append(table, {"number": 1, "part": "a"})
    deleted_values(table, {"number": 0})
    if spark_version.startswith("4.0."):
        with pytest.raises(
            TerminalStepError, match=r"ods\.t: .*number was widened from int to long"
        ):
            lab.rows("ods.t")
        return
    assert lab.rows("ods.t") == [(1, "a"), (2, None), (3, None), (4, None)]


@pytest.mark.skipif(spark_version.startswith("4.0."), reason="Spark 4.0 reads no UUID by its id")
def test_a_key_column_may_be_in_a_struct_and_a_uuid(lab: Lab):
    inner = StructType(NestedField(3, "x", LongType()), NestedField(4, "y", StringType()))
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "s", inner),
        NestedField(5, "u", UUIDType()),
    )
    one, two = b"\x01" * 16, b"\x02" * 16
    table = foreign_table(lab, schema)
    values = [(1, {"x": 1, "y": "a"}), (2, {"x": 2, "y": "b"}), (3, None), (4, {"x": None})]
    append(table, *({"id": n, "s": s, "u": two if n == 2 else one} for n, s in values))
    deleted_values(table, {"s.x": 1})
    assert ids(lab) == [2, 3, 4]
    deleted_values(table, {"u": two})
    assert ids(lab) == [3, 4]
    deleted_values(table, {"s.x": None})
    assert ids(lab) == []


def test_deletes_are_found_by_ids_where_rows_are_found_by_names(lab: Lab):
    """As in a table with a name mapping, which windows add."""
    table = foreign_table(lab, ROWS)
    append(table, row(1), row(2), row(None))
    mapping = table.schema().name_mapping.model_dump_json()
    with table.transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": mapping})
    deleted_values(table, {"id": 2})
    assert ids(lab) == [1, None]


def test_positions_and_values_are_deleted_in_one_table(lab: Lab):
    """Flink deletes a row of the same commit by its position."""
    table = foreign_table(lab, ROWS)
    append(table, row(1), row(2), row(2), row(3))
    deleted_rows(table, data_files(table)[0], [2])
    deleted_values(table, {"id": 1})
    assert ids(lab) == [2, 3]


def test_deleted_values_are_not_counted_as_read(lab: Lab):
    table = foreign_table(lab, ROWS)
    append(table, *(row(n) for n in range(5)))
    deleted_values(table, {"id": 1}, {"id": 9}, upserted=[row(1)])
    deleted_rows(table, data_files(table)[0], [0])
    lab.table(
        "dwh.u", {"sql": "SELECT * FROM ods.t", "target": {"type": "parquet"}}, depends_on=["ods.t"]
    )
    ran = lab.run("dwh.u", day(1), reads={"ods.t": None})
    assert (ran.counts.source, ran.counts.target) == (4, 4)


def test_a_window_rewrites_such_a_table_without_the_deleted_rows(lab: Lab):
    table = foreign_table(lab, ROWS)
    append(table, *(row(n) for n in range(4)))
    deleted_values(table, {"id": 1})
    target = {"type": "iceberg", "mode": "upsert", "key": ["id"]}
    sql = "SELECT 2 AS id, 'z' AS part, CAST(1 AS DOUBLE) AS v"
    lab.table("ods.t", {"sql": sql, "target": target})
    lab.run("ods.t", day(1))
    assert lab.rows("ods.t") == [(0, "a", 0.0), (2, "z", 1.0), (3, "a", 0.0)]


def test_what_cannot_be_compared_is_refused_by_name(lab: Lab):
    inner = ListType(3, LongType(), element_required=False)
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "l", inner))
    table = foreign_table(lab, schema)
    append(table, {"id": 1, "l": [1]})
    deleted_values(table, {"id": 1}, equality_ids=[3])
    with pytest.raises(TerminalStepError, match=r"ods\.t: .*field id 3.*list or map; compact"):
        lab.rows("ods.t")
    other = foreign_table(lab, ROWS, name="ods.u")
    append(other, row(1))
    deleted_values(other, {"id": 1}, file_format=FileFormat.AVRO)
    with pytest.raises(TerminalStepError, match=r"-deletes is an AVRO file.*write\.delete\.format"):
        plan(other)


class Model:
    """The rows of a table and its deletes, applied one by one as the specification says."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, Any, dict[str, Any]]] = []
        self.deletes: list[tuple[int, Any, dict[str, Any]]] = []
        self.now = 0

    def remaining(self) -> list[tuple[Any, ...]]:
        kept = (
            tuple(values.values())
            for at, place, values in self.rows
            if not any(
                at < then
                and where in (None, place)
                and all(repr(values[name]) == repr(value) for name, value in key.items())
                for then, where, key in self.deletes
            )
        )
        return sorted(kept, key=repr)


@pytest.mark.parametrize("seed", [1, 2])
def test_random_tables_have_the_rows_of_a_model(lab: Lab, seed: int):
    choose = random.Random(seed)
    table, model = foreign_table(lab, ROWS), Model()
    partitioned = False
    pick = {"id": [None, 1, 2, 3], "part": [None, "a", "b"], "v": [None, 0.0, -0.0, nan, 1.5]}

    def some() -> dict[str, Any]:
        return {name: choose.choice(values) for name, values in pick.items()}

    for step in range(14):
        if step == 5:
            with table.update_spec() as update:
                update.add_identity("part")
            table.refresh()
            partitioned = True
        model.now += 1
        place = (lambda r: ("part", r["part"])) if partitioned else (lambda _: "none")
        new = [some() for _ in range(choose.randint(1, 4))]
        model.rows += [(model.now, place(each), each) for each in new]
        if step % 2:
            key = choose.sample(list(pick), choose.choice([1, 1, 2, 3]))
            gone = [{name: some()[name] for name in key} for _ in range(choose.randint(1, 2))]
            files = [f for f in data_files(table) if f.spec_id]
            inside = choose.choice([None, *files])
            where = ("part", inside.partition[0]) if inside else None
            model.deletes += [(model.now, where, each) for each in gone]
            deleted_values(table, *gone, inside=inside, upserted=new)
        else:
            append(table, *new)
        table.refresh()
    assert [repr(each) for each in lab.rows("ods.t")] == [repr(each) for each in model.remaining()]
