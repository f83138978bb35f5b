"""What neither readers nor running attempts need any more, as every kind of target tells of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import partial

from logdriven_dagster.config.locations import as_path
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.storage.locations import Folder, storage_of
from logdriven_dagster.engine.storage.staging import UPKEEP, staged_folders, staging_name
from logdriven_dagster.engine.storage.storage import Storage

InUse = Callable[[int, str], bool]
"""Whether an attempt needs what the job of this number staged in a folder or table of this name."""

_REWRITTEN_WITHIN = timedelta(hours=1)
"""A file that is being compacted was written to not longer ago than this."""


@dataclass(frozen=True, slots=True)
class Garbage:
    """A file, folder or table that nobody needs any more."""

    table: str
    """Empty for `settings`."""
    kind: str
    """`rows` (a staging folder or table, or files that were replaced), `metadata`, `pointer`.

    Also `settings`: a folder with settings of Spark that a killed process left.
    """
    location: str
    """The location as people write it."""
    bytes: int | None
    """None in a database, and of settings."""
    modified: datetime | None
    """None in a database, where only the run log says what is in use."""
    remove: Callable[[], None]


@dataclass(frozen=True)
class Search:
    """A search for garbage: of which tables, what is in use, and which files are too young."""

    project: Project
    in_use: InUse
    before: datetime

    def storage(self, location: str) -> Storage:
        """Return the file system of a location."""
        return storage_of(location, self.project.storage)

    def old(self, table: str, kind: str, location: str) -> Iterator[Garbage]:
        """Yield a file or folder if it is old enough; one that is gone meanwhile is left out."""
        storage = self.storage(location)
        try:
            size, modified = storage.weight(location)
        except FileNotFoundError:
            return
        if modified < self.before:
            remove = partial(storage.remove, location)
            yield Garbage(table, kind, as_path(location), size, modified, remove)

    def idle(self, folder: Folder) -> list[str]:
        """The staging folders below a folder that no running attempt needs.

        Whoever asks looks at what is published *afterwards*: an attempt that publishes and ends
        meanwhile is in use first, and published then.
        """
        staged = staged_folders(folder)
        return [each for each, job in staged.items() if not self._needs(job, each)]

    def _needs(self, job_id: int, folder: str) -> bool:
        """Whether an attempt needs a folder; those of upkeep are judged by their age alone."""
        if job_id != UPKEEP:
            return self.in_use(job_id, staging_name(folder))
        try:
            modified = self.storage(folder).weight(folder).modified
        except FileNotFoundError:
            return True  # somebody works there
        return modified > datetime.now(timezone.utc) - _REWRITTEN_WITHIN
