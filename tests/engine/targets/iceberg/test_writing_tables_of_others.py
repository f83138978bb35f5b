"""Windows are written into tables that others made as these want it, and change nothing else."""

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import AlwaysTrue, EqualTo, GreaterThanOrEqual
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.partitioning import (
    PartitionField,
    PartitionSpec,
    partition_record_value,
)
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import DayTransform, parse_transform
from pyiceberg.types import (
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
    UUIDType,
)

from logdriven_dagster.engine.targets.iceberg import catalog as iceberg_catalog
from logdriven_dagster.engine.targets.upkeep import compact_files
from logdriven_dagster.errors import TerminalStepError
from logdriven_dagster.model.upkeep import Compaction
from tests.builders import day
from tests.engine.foreign_tables import append, as_pyiceberg_reads, edited, foreign_table
from tests.engine.laboratory import Lab
from tests.lake import CATALOG

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "at", TimestamptzType()),
    NestedField(3, "s", StringType()),
)
QUERY = """
    SELECT id, CASE WHEN id % 5 > 0 THEN :data_range_start + make_dt_interval(0, 5 * id) END AS at,
      CASE WHEN id % 7 > 0 THEN concat('s/', id % 3, '=é') END AS s
    FROM range(1, 12)"""
BY_TIME = {"type": "iceberg", "window_column": "at"}
SPECS = {
    "day": ["at day"],
    "month and bucket": ["at month", "id bucket[4]"],
    "hour": ["at hour"],
    "texts": ["s truncate[3]", "s bucket[2]", "s identity"],
    "all": ["at year", "at identity", "id truncate[10]", "id identity"],
}


def spec_of(*fields: str) -> PartitionSpec:
    made = []
    for number, text in enumerate(fields):
        name, transform = text.split()
        source = SCHEMA.find_field(name).field_id
        called = name if transform == "identity" else f"{name}_{number}"
        made.append(PartitionField(source, 1000 + number, parse_transform(transform), called))
    return PartitionSpec(*made)


@pytest.mark.sampled
@pytest.mark.parametrize("fields", SPECS.values(), ids=SPECS)
def test_each_file_is_of_one_partition_whose_values_the_table_knows(lab: Lab, fields: list[str]):
    table = foreign_table(lab, SCHEMA, partition_spec=spec_of(*fields))
    lab.table("ods.t", {"sql": QUERY, "target": {"type": "iceberg", "existing_rows": "keep"}})
    for window in (day(1), day(2), day(1)):
        assert lab.run("ods.t", window).counts.success == 11
    assert [row[:3] for row in as_pyiceberg_reads(table)] == lab_rows(lab)
    assert len(lab.rows("ods.t", day(2))) == 11
    assert are_placed(table)
    found = table.scan(row_filter=EqualTo("id", 3)).to_arrow().to_pylist()
    assert len(found) == 2
    later = GreaterThanOrEqual("at", "2022-01-02T12:00:00+00:00")
    expected = [row for row in lab_rows(lab) if row[1] and row[1] >= at(2)]
    assert table.scan(row_filter=later).to_arrow().num_rows == len(expected) > 0


def lab_rows(lab: Lab) -> list[tuple[Any, ...]]:
    rows = [row[:3] for row in lab.rows("ods.t")]
    return sorted(((i, at and at.replace(tzinfo=timezone.utc), s) for i, at, s in rows), key=repr)


def are_placed(table: Any) -> bool:
    """Whether each row of each file is of the partition that the table says."""
    tasks = list(table.refresh().scan().plan_files())
    for task in tasks:
        for row in of_file(table, task):
            for field, known in zip(table.spec().fields, task.file.partition, strict=True):
                source = table.schema().find_field(field.source_id)
                value = partition_record_value(field, row[source.name], table.schema())
                assert field.transform.transform(source.field_type)(value) == known
    return bool(tasks)


def of_file(table: Any, task: Any) -> list[dict[str, Any]]:
    scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    return scan.to_table([task]).to_pylist()


@pytest.mark.usefixtures("long")
def test_several_windows_in_one_pass_are_divided_by_window_and_partition(lab: Lab):
    table = foreign_table(lab, SCHEMA, partition_spec=spec_of("at day", "id bucket[2]"))
    query = "SELECT id, timestamp'2022-01-01' + make_dt_interval(id) AS at, 's' AS s FROM range(3)"
    lab.table("ods.t", {"sql": query, "target": BY_TIME})
    runs = [lab.window_run("ods.t", day(n)) for n in (1, 2, 3)]
    with lab.engine.open_session(runs) as session:
        lab.finish(session, "ods.t")
    assert [row[0] for row in lab.rows("ods.t")] == [0, 1, 2]
    assert are_placed(table)
    assert len(lab.rows("ods.t", day(2))) == 1


def test_windows_are_replaced_in_files_of_older_partitions(lab: Lab):
    table = foreign_table(lab, SCHEMA)
    append(table, *({"id": n, "at": at(n), "s": "theirs"} for n in (1, 2, 3)))
    with table.update_spec() as update:
        update.add_field("at", DayTransform(), "at_day")
    lab.table("ods.t", {"sql": one_row("first"), "target": BY_TIME})
    lab.run("ods.t", day(2))
    with table.refresh().update_spec() as update:
        update.add_field("id", parse_transform("bucket[4]"), "id_bucket")
    lab.table("ods.t", {"sql": one_row("again"), "target": BY_TIME})
    lab.run("ods.t", day(2))
    assert [row[2] for row in lab.rows("ods.t")] == ["theirs", "again", "theirs"]
    assert as_pyiceberg_reads(table) == lab_rows(lab)


def one_row(who: str) -> str:
    return f"SELECT 2L AS id, :data_range_start AS at, '{who}' AS s"


def at(n: int) -> datetime:
    return datetime(2022, 1, n, 12, tzinfo=timezone.utc)


@pytest.mark.usefixtures("long")
def test_upserts_and_whole_tables_keep_to_the_partitions(lab: Lab):
    table = foreign_table(lab, SCHEMA, partition_spec=spec_of("id bucket[3]"))
    for target in (
        {"type": "iceberg", "mode": "upsert", "key": ["id"]},
        {"type": "iceberg", "mode": "overwrite"},
    ):
        lab.table("ods.t", {"sql": QUERY, "target": target})
        lab.run("ods.t", day(1))
        lab.run("ods.t", day(2))
        assert len(lab.rows("ods.t")) == 11
        assert are_placed(table)


def test_required_columns_stay_so_and_are_never_empty(lab: Lab):
    schema = Schema(
        NestedField(1, "id", LongType(), required=True), NestedField(2, "v", LongType())
    )
    table = foreign_table(lab, schema)
    lab.table("ods.t", {"sql": "SELECT 1L AS id, 1L AS v, 1 AS n", "target": KEPT})
    lab.run("ods.t", day(1))
    assert table.refresh().schema().find_field("id").required
    assert [row[:3] for row in as_pyiceberg_reads(table)] == [(1, 1, 1)]
    empty = "SELECT CAST(NULL AS BIGINT) AS id, 1L AS v, 1 AS n"
    lab.table("ods.t", {"sql": empty, "target": KEPT})
    with pytest.raises(TerminalStepError, match="column id is required in the table, but 1 rows"):
        lab.run("ods.t", day(2))


KEPT = {"type": "iceberg", "existing_rows": "keep"}


def test_what_others_set_of_a_table_stays(lab: Lab, tmp_path: Path, monkeypatch: Any):
    """Its history, branches, tags and properties; its files go where theirs go."""
    monkeypatch.setattr(iceberg_catalog, "_MOST_SNAPSHOTS", 2)
    given = {"write.data.path": f"file://{tmp_path}/elsewhere", "owner": "they"}
    given |= {"write.delete.mode": "merge-on-read", "write.object-storage.enabled": "true"}
    order = SortOrder(SortField(1, transform=parse_transform("identity")))
    table = foreign_table(lab, SCHEMA, properties=given, sort_order=order)
    append(table, {"id": 1, "at": at(1), "s": "theirs"})
    theirs, first = dict(table.properties), table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(first, "then").create_branch(first, "side").commit()
    lab.table("ods.t", {"sql": one_row("ours"), "target": KEPT})
    for n in (2, 3, 4):
        lab.run("ods.t", day(n))
    names = {file.file.file_path for file in table.refresh().scan().plan_files()}
    assert sum(name.startswith(f"file://{tmp_path}/elsewhere/") for name in names) == 3 + 1
    assert {file.file.sort_order_id for file in table.scan().plan_files()} <= {None, 1}
    assert {table.refs()[name].snapshot_id for name in ("then", "side")} == {first}
    assert len(table.metadata.snapshots) == 4
    assert given.items() <= theirs.items()
    added = table.properties.items() - theirs.items()
    assert {name for name, _ in added} == {"schema.name-mapping.default"}
    assert theirs.keys() <= table.properties.keys()


def test_a_table_of_a_shared_catalog_may_lie_anywhere(lab: Lab, tmp_path: Path):
    place = f"file://{tmp_path}/theirs/orders"
    nested = CATALOG in ("sql", "rest")  # Glue and Hive know no namespaces within namespaces
    name = "sales.eu.orders" if nested else "sales.orders"
    table = foreign_table(lab, SCHEMA, name=name, location=place)
    target = {"type": "iceberg", "name": name, "existing_rows": "keep"}
    lab.table("ods.t", {"sql": one_row("ours"), "target": target})
    lab.run("ods.t", day(2))
    assert [row[:3] for row in as_pyiceberg_reads(table)] == lab_rows(lab)
    names = [task.file.file_path for task in table.scan().plan_files()]
    assert all(name.startswith(f"{place}/data/") for name in names)


def test_a_table_of_format_1_is_written(lab: Lab):
    table = foreign_table(lab, SCHEMA, properties={"format-version": "1"})
    append(table, {"id": 1, "at": at(1), "s": "theirs"})
    lab.table("ods.t", {"sql": one_row("ours"), "target": BY_TIME})
    for window in (day(2), day(2), day(1)):
        lab.run("ods.t", window)
    assert table.refresh().metadata.format_version == 1
    assert [row[2] for row in as_pyiceberg_reads(table)] == ["ours", "ours"]


def test_a_table_of_format_3_is_refused_before_anything_is_written(lab: Lab):
    table = foreign_table(lab, SCHEMA)
    edited(table, **{"format-version": 3, "next-row-id": 0})
    with pytest.raises(TerminalStepError, match=r"ods\.t has Iceberg's format version 3"):
        lab.run("ods.t", day(1))
    assert not list(Path(table.location().removeprefix("file://")).glob("data/*"))


def test_a_column_that_spark_writes_as_another_type_is_refused_by_name(lab: Lab):
    foreign_table(lab, Schema(NestedField(1, "u", UUIDType()), NestedField(2, "v", IntegerType())))
    with pytest.raises(TerminalStepError, match="column u is a uuid"):
        lab.run("ods.t", day(1))


@pytest.mark.usefixtures("long")
def test_small_files_of_several_partitions_become_one_for_each(lab: Lab):
    table = foreign_table(lab, SCHEMA, partition_spec=spec_of("id bucket[2]"))
    lab.table("ods.t", {"sql": QUERY, "target": KEPT})
    for n in (1, 2, 3):
        lab.run("ods.t", day(n))
    rows = as_pyiceberg_reads(table)
    upsert = {"type": "iceberg", "mode": "upsert", "key": ["id"]}  # the table is one window
    lab.table("ods.t", {"sql": QUERY, "target": upsert})
    compact_files(lab.project, lab.spark, "ods.t", Compaction(min_files=2))
    assert as_pyiceberg_reads(table) == rows
    assert len(list(table.scan().plan_files())) == 2
    assert are_placed(table)
