"""What Iceberg tables hold, read from the catalog."""

from collections.abc import Iterator, Sequence

from logdriven_dagster.config.models.types.iceberg import IcebergTarget
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.iceberg.names import identifier
from logdriven_dagster.engine.iceberg.schema import spark_schema
from logdriven_dagster.engine.queries.schemas import columns_of
from logdriven_dagster.engine.storage.garbage import Garbage, Search
from logdriven_dagster.engine.targets.contents import Contents, Holdings
from logdriven_dagster.engine.targets.first_contact import what_becomes
from logdriven_dagster.engine.targets.iceberg.catalog import (
    is_listed,
    load_existing,
    open_catalog,
    total_rows,
)
from logdriven_dagster.engine.targets.iceberg.first_contact import unknown_files
from logdriven_dagster.engine.targets.iceberg.garbage import leftovers


class IcebergContents(Contents):
    """Answers what targets of type iceberg hold."""

    def holdings(self, project: Project, table: str, target: IcebergTarget) -> Holdings:
        known = identifier(target.name or table)
        if not is_listed(project, known):
            return Holdings()  # to open an SQL catalog would make it
        found = load_existing(open_catalog(project), known)
        if found is None:
            return Holdings()
        return Holdings(columns_of(spark_schema(found.schema())), total_rows(found))

    def rows_of_others(
        self, project: Project, targets: Sequence[tuple[str, IcebergTarget]]
    ) -> Iterator[str | None]:
        for table, target in targets:
            known = identifier(target.name or table)
            listed = is_listed(project, known)
            found = load_existing(open_catalog(project), known) if listed else None
            holds = found is not None and bool(unknown_files(found))
            yield what_becomes(target.name or table, target) if holds else None

    def leftovers(self, search: Search, table: str, target: IcebergTarget) -> Iterator[Garbage]:
        return leftovers(search, table, target)
