"""Contents of Iceberg tables, read from the catalog."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from logdriven_dagster.config.models.types.iceberg import IcebergTarget
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.arrow.rows import ArrowRows
from logdriven_dagster.engine.iceberg.arrow_rows import arrow_rows
from logdriven_dagster.engine.iceberg.names import name_of_table
from logdriven_dagster.engine.iceberg.schema import refuse_unreadable_types, spark_schema
from logdriven_dagster.engine.queries.schemas import columns_of, window_column
from logdriven_dagster.engine.storage.garbage import Garbage, Search
from logdriven_dagster.engine.targets.contents import (
    Contents,
    Holdings,
    Named,
    SnapshotHistory,
)
from logdriven_dagster.engine.targets.first_contact import what_becomes
from logdriven_dagster.engine.targets.iceberg.catalog import total_rows
from logdriven_dagster.engine.targets.iceberg.first_contact import unknown_files
from logdriven_dagster.engine.targets.iceberg.garbage import leftovers
from logdriven_dagster.engine.targets.iceberg.history import list_snapshots
from logdriven_dagster.engine.targets.iceberg.renaming import (
    find_existing_table,
    find_rename_obstacle,
    list_table_parts,
    rename_table,
)
from logdriven_dagster.errors import NotPublishedError
from logdriven_dagster.model.windows import TimeWindow


class IcebergContents(Contents):
    """Reader of the contents of targets of type iceberg."""

    def holdings(self, project: Project, table: str, target: IcebergTarget) -> Holdings:
        found = find_existing_table(project, target.name or table)
        if found is None:
            return Holdings()
        refuse_unreadable_types(found.schema(), name_of_table(found))
        comments = {field.name: field.doc for field in found.schema().fields}
        columns = columns_of(spark_schema(found.schema()))
        described = (replace(each, comment=comments[each.name]) for each in columns)
        return Holdings(tuple(described), total_rows(found))

    def rows(
        self, project: Project, table: str, target: IcebergTarget, window: TimeWindow | None
    ) -> ArrowRows | None:
        found = find_existing_table(project, target.name or table)
        if found is None:
            raise NotPublishedError(f"{table} was never published, so it cannot be read")
        return arrow_rows(found, window_column(target), window)

    def list_snapshots(
        self, project: Project, table: str, target: IcebergTarget
    ) -> SnapshotHistory:
        found = find_existing_table(project, target.name or table)
        if found is None:
            raise NotPublishedError(f"{table} was never published, so it cannot be read")
        return list_snapshots(found)

    def effects_on_existing_rows(
        self, project: Project, targets: Sequence[tuple[str, IcebergTarget]]
    ) -> Iterator[str | None]:
        for table, target in targets:
            found = find_existing_table(project, target.name or table)
            holds = found is not None and bool(unknown_files(found))
            yield what_becomes(target.name or table, target) if holds else None

    def leftovers(self, search: Search, table: str, target: IcebergTarget) -> Iterator[Garbage]:
        return leftovers(search, table, target)

    def find_move_obstacle(self, project: Project, old: Named, new: Named) -> str | None:
        return find_rename_obstacle(
            project, *(target.name or table for table, target in (old, new))
        )

    def move(self, project: Project, old: Named, new: Named) -> None:
        rename_table(project, *(target.name or table for table, target in (old, new)))

    def list_parts(self, project: Project, table: str, target: IcebergTarget) -> Iterator[Garbage]:
        return list_table_parts(project, table, target.name or table)
