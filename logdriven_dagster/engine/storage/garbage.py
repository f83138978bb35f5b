"""Garbage of targets: files and tables that neither readers nor running attempts need."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial

from logdriven_dagster.config.locations import as_path
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.storage.locations import Folder, storage_of
from logdriven_dagster.engine.storage.staging import UPKEEP, find_staging_folders, staging_name
from logdriven_dagster.engine.storage.storage import Storage
from logdriven_dagster.errors import UsageError

InUse = Callable[[int, str], bool]
"""Function that returns whether an attempt needs the staging folder or table of this name.

Its first argument is the id of the job that staged it.
"""

_REWRITTEN_WITHIN = timedelta(hours=1)
"""Longest time since the last write to a file that is being compacted."""


@dataclass(frozen=True, slots=True)
class Garbage:
    """A file, folder or table that is no longer needed."""

    table: str
    """Empty for `settings`."""
    kind: str
    """`rows` (a staging folder or table, or replaced files), `metadata`, `pointer` or `settings`.

    `settings` is a folder with Spark settings that a killed process left behind.
    """
    location: str
    """The location in the form that is shown to users."""
    bytes: int | None
    """Size in bytes; None in a database, and for settings."""
    modified: datetime | None
    """Time of the last change; None in a database, where only the run log shows use."""
    remove: Callable[[], None]


@dataclass(frozen=True)
class Search:
    """A search for garbage in a project; files modified after `before` are too young."""

    project: Project
    in_use: InUse
    before: datetime

    def storage(self, location: str) -> Storage:
        """Return the file system of a location."""
        return storage_of(location, self.project.storage)

    def old(self, table: str, kind: str, location: str) -> Iterator[Garbage]:
        """Yield a file or folder as garbage if it is old enough and still exists."""
        storage = self.storage(location)
        try:
            size, modified = storage.weight(location)
        except FileNotFoundError:
            return
        if modified < self.before:
            remove = partial(storage.remove, location)
            yield Garbage(table, kind, as_path(location), size, modified, remove)

    def idle(self, folder: Folder) -> list[str]:
        """Return the staging folders below a folder that no running attempt needs.

        Callers must list published folders *afterwards*: an attempt that publishes and ends in the
        meantime is first in use, and then published.
        """
        staged = find_staging_folders(folder)
        return [each for each, job in staged.items() if not self._needs(job, each)]

    def _needs(self, job_id: int, folder: str) -> bool:
        """Return whether an attempt needs a folder; folders of maintenance are judged by age."""
        if job_id != UPKEEP:
            return self.in_use(job_id, staging_name(folder))
        try:
            modified = self.storage(folder).weight(folder).modified
        except FileNotFoundError:
            return True  # another process works there
        return modified > datetime.now(timezone.utc) - _REWRITTEN_WITHIN


def list_folder_parts(folder: Folder, table: str, kinds: Mapping[str, str]) -> Iterator[Garbage]:
    """Yield the parts of a table's folder that exist, and the folder if it holds nothing else.

    `kinds` maps their names to the kind of garbage, in the order in which they are removed.
    """
    present = folder.names()
    for name in kinds:
        if name in present:
            yield _build_part(folder.get_subfolder(name), table, kinds[name])
    if present and not set(present) - kinds.keys():
        yield _build_part(folder, table, "folder")


def refuse_other_files(data: Folder) -> None:
    """Raise UsageError if a folder of rows contains anything that no window wrote."""
    staged = find_staging_folders(data)
    for name in data.names():
        place = data.get_subfolder(name).location
        if not any(f"{each}/".startswith(f"{place}/") for each in staged):
            fix = "remove it, or the whole folder, with other tools"
            raise UsageError(f"{as_path(place)} was not written by a window; {fix}")


def _build_part(folder: Folder, table: str, kind: str) -> Garbage:
    size, modified = folder.storage.weight(folder.location)
    return Garbage(table, kind, as_path(folder.location), size, modified, folder.remove)
