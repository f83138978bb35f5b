"""Columns of a table in Dagster have types, and comments of the file or of the target."""

from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from logdriven_dagster.engine.targets.contents import holdings
from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog
from logdriven_dagster.orchestration.assets.windows import columns_shown
from tests.orchestration.world import EVENTS, World

FIELDS = (
    NestedField(1, "id", LongType(), doc="of the order"),
    NestedField(2, "name", StringType(), doc="as typed"),
    NestedField(3, "note", StringType()),
)


def shown(world: World) -> list[tuple[str, str, str | None]]:
    table = world.project.table("ods.events")
    found: Any = columns_shown(table, holdings(world.project, table).columns)
    columns = found["dagster/column_schema"].columns
    return [(each.name, each.type, each.description) for each in columns]


def test_comments_of_the_file_come_before_those_of_the_iceberg_table(world: World) -> None:
    world.write(EVENTS)
    catalog = open_catalog(world.project)
    catalog.create_namespace("ods")
    catalog.create_table("ods.events", Schema(*FIELDS))
    expected = [("id", "bigint", "of the order"), ("name", "string", "as typed")]
    assert shown(world) == [*expected, ("note", "string", None)]
    world.write({**EVENTS, "columns": "ID BIGINT COMMENT 'the key', name STRING, note STRING"})
    assert shown(world)[:2] == [("id", "bigint", "the key"), ("name", "string", "as typed")]
