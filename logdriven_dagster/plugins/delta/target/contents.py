"""Contents of Delta tables, read from their logs."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from logdriven_dagster.config.locations import as_path
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.arrow.rows import ArrowRows
from logdriven_dagster.engine.queries.schemas import columns_of, window_column
from logdriven_dagster.engine.storage.garbage import (
    Garbage,
    Search,
    list_folder_parts,
    refuse_other_files,
)
from logdriven_dagster.engine.storage.locations import storage_of
from logdriven_dagster.engine.storage.moves import find_move_obstacle, move_folder
from logdriven_dagster.engine.targets.contents import (
    Contents,
    Holdings,
    Named,
    SnapshotHistory,
)
from logdriven_dagster.engine.targets.first_contact import what_becomes
from logdriven_dagster.engine.targets.folders import target_folder
from logdriven_dagster.errors import NotPublishedError, UsageError
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.plugins.delta.format.arrow_rows import arrow_rows
from logdriven_dagster.plugins.delta.models import DeltaTarget
from logdriven_dagster.plugins.delta.target.first_contact import unknown_files
from logdriven_dagster.plugins.delta.target.garbage import leftovers
from logdriven_dagster.plugins.delta.target.history import list_snapshots, was_published_to
from logdriven_dagster.plugins.delta.target.table import open_target


class DeltaContents(Contents):
    """Reader of the contents of targets of type delta."""

    def holdings(self, project: Project, table: str, target: DeltaTarget) -> Holdings:
        found = open_target(project, table, target)
        return Holdings() if found is None else Holdings(columns_of(found.schema), found.rows)

    def rows(
        self, project: Project, table: str, target: DeltaTarget, window: TimeWindow | None
    ) -> ArrowRows | None:
        found = open_target(project, table, target)
        if found is None:
            raise NotPublishedError(f"{table} was never published, so it cannot be read")

        def open_file(location: str) -> BinaryIO:
            return storage_of(location, project.storage).open(location)

        return arrow_rows(found, open_file, window_column(target), window)

    def list_snapshots(self, project: Project, table: str, target: DeltaTarget) -> SnapshotHistory:
        found = open_target(project, table, target)
        if found is None:
            raise NotPublishedError(f"{table} was never published, so it cannot be read")
        return list_snapshots(found)

    def effects_on_existing_rows(
        self, project: Project, targets: Sequence[tuple[str, DeltaTarget]]
    ) -> Iterator[str | None]:
        for table, target in targets:
            found = open_target(project, table, target)
            holds = found is not None and bool(unknown_files(found))
            yield what_becomes(target.path or table, target) if holds else None

    def leftovers(self, search: Search, table: str, target: DeltaTarget) -> Iterator[Garbage]:
        return leftovers(search, table, target)

    def find_move_obstacle(self, project: Project, old: Named, new: Named) -> str | None:
        return find_move_obstacle(target_folder(project, *old), target_folder(project, *new))

    def move(self, project: Project, old: Named, new: Named) -> None:
        move_folder(target_folder(project, *old), target_folder(project, *new))

    def list_parts(self, project: Project, table: str, target: DeltaTarget) -> Iterator[Garbage]:
        found = open_target(project, table, target)
        folder = target_folder(project, table, target)
        if found is not None and (unknown_files(found) or not was_published_to(found)):
            place = as_path(folder.location)
            raise UsageError(f"{place} holds rows that no window wrote; remove it with other tools")
        if found is None:
            refuse_other_files(folder.get_subfolder("data"))
        return list_folder_parts(folder, table, {"_delta_log": "metadata", "data": "rows"})
