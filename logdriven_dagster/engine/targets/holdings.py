"""What the target of a table holds now, told without Spark: its columns and its number of rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.steps import (
    FileTarget,
    IcebergTarget,
    JdbcTarget,
    KafkaTarget,
)
from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.databases.connections import database, spark_type
from logdriven_dagster.engine.databases.tables import reflected
from logdriven_dagster.engine.queries.schemas import WINDOW_START, columns_of, merged
from logdriven_dagster.engine.storage.locations import storage_of
from logdriven_dagster.engine.targets.files.pointers import Pointers, total
from logdriven_dagster.engine.targets.files.table import files_folder, visible
from logdriven_dagster.engine.targets.iceberg.catalog import load_existing, open_catalog, total_rows
from logdriven_dagster.engine.targets.iceberg.schema import spark_schema
from logdriven_dagster.engine.targets.iceberg.table import identifier
from logdriven_dagster.model.runs import Column

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

_MOST_COUNTED = 2_000_000
"""Rows that a database counts within a second or so."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """The columns of a published table, and how many rows it has where that is told quickly."""

    columns: tuple[Column, ...] = ()
    rows: int | None = None


def holdings(project: Project, table: TableConfig) -> Holdings:
    """What readers of the table find now; nothing where the target cannot tell, or is empty."""
    target = table.output
    return _HOLDINGS[type(target)](project, table.table, target)


def _of_iceberg(project: Project, table: str, target: IcebergTarget) -> Holdings:
    if not storage_of(project.warehouse).exists(project.warehouse):
        return Holdings()  # to ask the catalog would make it
    found = load_existing(open_catalog(project), identifier(target.name or table))
    if found is None:
        return Holdings()
    return Holdings(columns_of(spark_schema(found.schema())), total_rows(found))


def _of_files(project: Project, table: str, target: FileTarget) -> Holdings:
    pointers = Pointers(files_folder(project, table, target), project.zone).current()
    held = visible({name: each for name, each in pointers.items() if each.folder}, project.zone)
    if not held:
        return Holdings()
    schemas = {pointer.columns: pointer.schema() for pointer in held}
    return Holdings(columns_of(merged(list(schemas.values()), table)), total(held))


def _of_database(project: Project, _table: str, target: JdbcTarget) -> Holdings:
    connection = project.connection(target.connection)
    schema, _, name = target.table.rpartition(".")
    with database(connection) as engine, engine.connect() as conn:
        found = reflected(name, schema or None, conn)
        if found is None:
            return Holdings()
        rows = _counted(conn, found)
    kinds = [(each.name, spark_type(each.type, engine.dialect.name)) for each in found.columns]
    columns = tuple(Column(name, kind) for name, kind in kinds if name != WINDOW_START)
    return Holdings(columns, rows)


def _counted(conn: "Connection", table: "Table") -> int | None:
    """The rows of a table of a database, which it has to count; None for very many."""
    from sqlalchemy import func, literal, select

    some = select(literal(1)).select_from(table).limit(_MOST_COUNTED + 1).subquery()
    rows = conn.execute(select(func.count()).select_from(some)).scalar_one()
    return rows if rows <= _MOST_COUNTED else None


def _unknown(_project: Project, _table: str, _target: Any) -> Holdings:
    return Holdings()


_HOLDINGS: dict[type[Any], Callable[[Project, str, Any], Holdings]] = {
    IcebergTarget: _of_iceberg,
    FileTarget: _of_files,
    JdbcTarget: _of_database,
    KafkaTarget: _unknown,
}
"""A topic has no columns."""
