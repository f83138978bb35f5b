"""What folders of plain files hold, read from their pointers."""

from collections.abc import Iterator, Sequence

from logdriven_dagster.config.locations import as_path
from logdriven_dagster.config.models.types.files import FileTarget
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.queries.schemas import columns_of, merged
from logdriven_dagster.engine.storage.garbage import Garbage, Search
from logdriven_dagster.engine.targets.contents import Contents, Holdings
from logdriven_dagster.engine.targets.files.garbage import leftovers
from logdriven_dagster.engine.targets.files.pointers import Pointers, file_of_others, total
from logdriven_dagster.engine.targets.files.table import files_folder, visible


class FilesContents(Contents):
    """Targets of types parquet, orc, csv and json."""

    def holdings(self, project: Project, table: str, target: FileTarget) -> Holdings:
        pointers = Pointers(files_folder(project, table, target), project.zone).current()
        held = visible({name: each for name, each in pointers.items() if each.folder}, project.zone)
        if not held:
            return Holdings()
        schemas = {pointer.columns: pointer.schema() for pointer in held}
        return Holdings(columns_of(merged(list(schemas.values()), table)), total(held))

    def rows_of_others(
        self, project: Project, targets: Sequence[tuple[str, FileTarget]]
    ) -> Iterator[str | None]:
        for table, target in targets:
            folder = files_folder(project, table, target)
            other = file_of_others(folder)
            keep = target.existing_rows == "keep"
            then = "it stays there unread" if keep else "the first window will be refused"
            held = f"{as_path(folder.location)} holds {other}, which no window wrote: {then}"
            yield held if other else None

    def leftovers(self, search: Search, table: str, target: FileTarget) -> Iterator[Garbage]:
        return leftovers(search, table, target)
