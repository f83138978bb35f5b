"""Contents of folders of plain files, read from their pointers."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from logdriven_dagster.config.locations import as_path
from logdriven_dagster.config.models.types.files import FileTarget
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.arrow.parquet import rows_of_file
from logdriven_dagster.engine.arrow.rows import ArrowRows
from logdriven_dagster.engine.arrow.types import arrow_schema
from logdriven_dagster.engine.queries.schemas import columns_of, merge_schemas
from logdriven_dagster.engine.storage.garbage import (
    Garbage,
    Search,
    list_folder_parts,
    refuse_other_files,
)
from logdriven_dagster.engine.storage.moves import find_move_obstacle, move_folder
from logdriven_dagster.engine.targets.contents import Contents, Holdings, Named
from logdriven_dagster.engine.targets.files.garbage import leftovers
from logdriven_dagster.engine.targets.files.pointers import (
    Pointer,
    Pointers,
    find_foreign_file,
    total,
)
from logdriven_dagster.engine.targets.files.table import visible
from logdriven_dagster.engine.targets.folders import target_folder
from logdriven_dagster.errors import NotPublishedError
from logdriven_dagster.model.windows import TimeWindow

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class FilesContents(Contents):
    """Reader of the contents of targets of types parquet, orc, csv and json."""

    def holdings(self, project: Project, table: str, target: FileTarget) -> Holdings:
        held = visible(_read_pointers(project, table, target), project.zone)
        if not held:
            return Holdings()
        return Holdings(columns_of(_schema(held, table)), total(held))

    def rows(
        self, project: Project, table: str, target: FileTarget, window: TimeWindow | None
    ) -> ArrowRows | None:
        """Return the rows of Parquet files; only Spark can read back its text and ORC files."""
        if target.type != "parquet":
            return None
        pointers, zone = _read_pointers(project, table, target), project.zone
        if not pointers:
            raise NotPublishedError(f"{table} was never published, so it cannot be read")
        schema = arrow_schema(_schema(pointers.values(), table))
        if schema is None:
            return None
        data = target_folder(project, table, target).get_subfolder("data")
        files = (
            f"{data.location}/{pointer.folder}/{name}"
            for pointer in visible(pointers, zone)
            if window is None or window.contains(pointer.window(zone))
            for name in pointer.files
        )
        opened = (rows_of_file(data.storage.open(file), schema) for file in files)
        return ArrowRows(schema, chain.from_iterable(opened))

    def effects_on_existing_rows(
        self, project: Project, targets: Sequence[tuple[str, FileTarget]]
    ) -> Iterator[str | None]:
        for table, target in targets:
            folder = target_folder(project, table, target)
            other = find_foreign_file(folder)
            keep = target.existing_rows == "keep"
            then = "it stays there and is not read" if keep else "the first window will be refused"
            held = f"{as_path(folder.location)} contains {other}, which no window wrote: {then}"
            yield held if other else None

    def leftovers(self, search: Search, table: str, target: FileTarget) -> Iterator[Garbage]:
        return leftovers(search, table, target)

    def find_move_obstacle(self, project: Project, old: Named, new: Named) -> str | None:
        return find_move_obstacle(target_folder(project, *old), target_folder(project, *new))

    def move(self, project: Project, old: Named, new: Named) -> None:
        move_folder(target_folder(project, *old), target_folder(project, *new))

    def list_parts(self, project: Project, table: str, target: FileTarget) -> Iterator[Garbage]:
        folder = target_folder(project, table, target)
        refuse_other_files(folder.get_subfolder("data"))
        return list_folder_parts(folder, table, {"_windows": "pointer", "data": "rows"})


def _read_pointers(project: Project, table: str, target: FileTarget) -> dict[str, Pointer]:
    """Return the pointers of windows by name, without fences."""
    pointers = Pointers(target_folder(project, table, target), project.zone).current()
    return {name: each for name, each in pointers.items() if each.folder}


def _schema(pointers: Iterable[Pointer], table: str) -> "StructType":
    schemas = {pointer.columns: pointer.schema() for pointer in pointers}
    return merge_schemas(list(schemas.values()), table)
