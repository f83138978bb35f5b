"""What neither readers nor running attempts need any more, found without starting Spark.

Attempts that were killed leave staged rows; publications leave the files that they replaced;
commits leave metadata. A reader that began before a table's last fifty commits may still hold such
a file.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logdriven_dagster.config.models.steps import (
    FileTarget,
    IcebergTarget,
    JdbcTarget,
    KafkaTarget,
)
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.databases.connections import database
from logdriven_dagster.engine.storage.staging import UPKEEP
from logdriven_dagster.engine.targets.files.pointers import Pointers
from logdriven_dagster.engine.targets.files.table import files_folder
from logdriven_dagster.engine.targets.iceberg.catalog import open_catalog
from logdriven_dagster.engine.targets.iceberg.table import identifier, table_folder
from logdriven_dagster.engine.targets.jdbc.table import staging_prefix
from logdriven_dagster.engine.targets.rejected import rejected_target

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

InUse = Callable[[int, str], bool]
"""Whether an attempt needs what the job of this number staged at a location."""

_REWRITTEN_WITHIN = timedelta(hours=1)
"""A file that is being compacted was written to not longer ago than this."""

STAGED = re.compile(r"(\d+)-.+")
"""The names of staging folders, which begin with the job."""

_STAGING_TABLE = re.compile(r"(.+)(__staging_(\d+)_[0-9a-f]{6})")


@dataclass(frozen=True, slots=True)
class Garbage:
    """Something to remove."""

    table: str
    kind: str
    """`rows` (a staging folder or table, or files that were replaced), `metadata`, `pointer`."""
    location: str
    bytes: int | None
    """None in a database."""
    modified: datetime | None
    """None in a database, where only the run log says what is in use."""
    remove: Callable[[], None]


@dataclass(frozen=True)
class Search:
    """One look for garbage: whose, what is in use, and from when on files are too young."""

    project: Project
    in_use: InUse
    before: datetime

    def path(self, table: str, kind: str, path: Path) -> Iterator[Garbage]:
        """A file or folder, if it is old enough; one that is gone meanwhile is no garbage."""
        try:
            parts = [path, *path.rglob("*")] if path.is_dir() else [path]
            stats = [part.stat() for part in parts]
        except FileNotFoundError:
            return
        if _modified(stats) < self.before:
            size = sum(s.st_size for p, s in zip(parts, stats, strict=True) if p.is_file())
            yield Garbage(table, kind, str(path), size, _modified(stats), lambda: _remove(path))

    def idle(self, folder: Path) -> list[Path]:
        """The staging folders below a folder that no running attempt needs.

        Whoever asks looks at what is published *afterwards*: an attempt that publishes and ends
        meanwhile is in use first, and published then.
        """
        entries = sorted(folder.iterdir()) if folder.is_dir() else []
        staged = [(entry, STAGED.fullmatch(entry.name)) for entry in entries]
        return [e for e, match in staged if match and not self._needs(int(match[1]), e)]

    def _needs(self, job_id: int, folder: Path) -> bool:
        """Whether an attempt needs a folder; upkeep's are told by their age, whatever is asked."""
        if job_id != UPKEEP:
            return self.in_use(job_id, str(folder))
        try:
            modified = _modified([path.stat() for path in [folder, *folder.rglob("*")]])
        except FileNotFoundError:
            return True  # somebody works there
        return modified > datetime.now(timezone.utc) - _REWRITTEN_WITHIN


def find_garbage(project: Project, in_use: InUse, older_than: timedelta) -> Iterator[Garbage]:
    """The garbage of all configured targets; files younger than `older_than` are left alone."""
    search = Search(project, in_use, datetime.now(timezone.utc) - older_than)
    for name, config in project.tables.items():
        for step in config.steps:
            if step.target is not None:
                yield from FINDERS[type(step.target)](search, name, step.target)
            if (apart := rejected_target(name, step)) is not None:
                yield from FINDERS[type(apart[1])](search, *apart)
            if step.quality is not None and FINDERS[type(step.target)] is not _of_staging:
                yield from _of_staging(search, name)


def _of_files(search: Search, table: str, target: FileTarget) -> Iterator[Garbage]:
    folder = files_folder(search.project, table, target)
    idle, pointers = search.idle(folder / "data"), Pointers(folder, search.project.zone)
    needed = pointers.folders()
    for path in idle:
        if path.name not in needed:
            yield from search.path(table, "rows", path)
    for path in [*pointers.superseded(), *folder.glob("_windows/*.draft")]:
        yield from search.path(table, "pointer", path)


def _of_iceberg(search: Search, table: str, target: IcebergTarget) -> Iterator[Garbage]:
    from pyiceberg.exceptions import NoSuchTableError

    name = target.name or table
    folder = table_folder(search.project, name)
    idle, known = search.idle(folder / "data"), sorted(folder.glob("metadata/*"))
    files = {staging: sorted(staging.glob("*.parquet")) for staging in idle}
    try:
        found = open_catalog(search.project).load_table(identifier(name))
        named = named_files(found, found.metadata.snapshots)
    except NoSuchTableError:
        named = Named(set(), set(known))
    needed = {path.parent.name for path in named.data}
    for staging in idle:
        for path in files[staging] if staging.name in needed else [staging]:
            if path not in named.data:
                yield from search.path(table, "rows", path)
    for path in known:
        if path not in named.metadata:
            yield from search.path(table, "metadata", path)


@dataclass(frozen=True, slots=True)
class Named:
    """The files that a table names."""

    data: set[Path]
    metadata: set[Path]

    @property
    def all(self) -> set[Path]:
        return self.data | self.metadata


def named_files(table: "Table", snapshots: "Sequence[Snapshot]") -> Named:
    """The data files and metadata files that these snapshots of the table name."""
    locations = [table.metadata_location]
    locations += [entry.metadata_file for entry in table.metadata.metadata_log]
    statistics = [*table.metadata.statistics, *table.metadata.partition_statistics]
    locations += [file.statistics_path for file in statistics]
    manifests: dict[str, Any] = {}
    for snapshot in snapshots:
        locations.append(snapshot.manifest_list)
        manifests |= {manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)}
    files = {
        entry.data_file.file_path
        for manifest in manifests.values()
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    }
    return Named(set(map(_path, files)), set(map(_path, [*locations, *manifests])))


def _of_database(search: Search, table: str, target: JdbcTarget) -> Iterator[Garbage]:
    from sqlalchemy import inspect

    schema, _, name = target.table.rpartition(".")
    with database(search.project.connection(target.connection)) as engine:
        for found in sorted(inspect(engine).get_table_names(schema or None)):
            match = _STAGING_TABLE.fullmatch(found)
            if not match or staging_prefix(name, match[2]) != match[1]:
                continue
            if not search.in_use(int(match[3]), found):
                yield Garbage(table, "rows", found, None, None, _dropper(search, target, found))


def _dropper(search: Search, target: JdbcTarget, name: str) -> Callable[[], None]:
    def drop() -> None:
        from sqlalchemy import MetaData, Table

        schema = target.table.rpartition(".")[0] or None
        with database(search.project.connection(target.connection)) as engine:
            Table(name, MetaData(), schema=schema).drop(engine, checkfirst=True)

    return drop


def _of_staging(
    search: Search, table: str, _target: KafkaTarget | None = None
) -> Iterator[Garbage]:
    for path in search.idle(search.project.staging / table):
        yield from search.path(table, "rows", path)


def _modified(stats: list[os.stat_result]) -> datetime:
    return datetime.fromtimestamp(max(stat.st_mtime for stat in stats), timezone.utc)


def _path(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


FINDERS: dict[type[Any], Callable[[Search, str, Any], Iterator[Garbage]]] = {
    IcebergTarget: _of_iceberg,
    FileTarget: _of_files,
    JdbcTarget: _of_database,
    KafkaTarget: _of_staging,
}
