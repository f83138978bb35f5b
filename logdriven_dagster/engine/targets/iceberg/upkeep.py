"""Upkeep of Iceberg tables: old snapshots go, small files become few. No row changes.

Neither says anything of a window: the run log, the fences and the order of publications stay as
they are. Killed at any point, what is left over is what `clean` finds.
"""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta, timezone
from functools import partial, reduce
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from logdriven_dagster.config.models.types.iceberg import IcebergTarget
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.spark.session import fresh_session
from logdriven_dagster.engine.storage.locations import folder_of, storage_of
from logdriven_dagster.engine.storage.staging import is_staging_folder
from logdriven_dagster.engine.targets.iceberg.catalog import (
    load_existing,
    open_catalog,
    remove_snapshots,
)
from logdriven_dagster.engine.targets.iceberg.commits import tries
from logdriven_dagster.engine.targets.iceberg.compaction import (
    Rewritten,
    SmallFiles,
    commit,
    rewrite,
    small_files,
)
from logdriven_dagster.engine.targets.iceberg.garbage import named_files
from logdriven_dagster.engine.targets.iceberg.history import indispensable, of_windows
from logdriven_dagster.engine.targets.iceberg.table import identifier, table_folder
from logdriven_dagster.model.upkeep import Compaction, Expiry, Upkept

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

Load = Callable[[], "Table | None"]

Unfinished = Callable[[], Collection[tuple[str, str]]]
"""Table and `data_range_start` of each window whose latest attempt did not succeed (yet).

It is asked after a table's history was read: what was published since then is younger than that.
"""

_WINDOWS_PER_COMMIT = 50
"""Each commit adds a snapshot, and publications forget all but the newest fifty."""


def expirable(
    project: Project,
    table_name: str,
    older_than: timedelta,
    options: Expiry,
    unfinished: Unfinished,
) -> Upkept:
    """Report what `expire_snapshots` would remove."""

    def look(_target: IcebergTarget, table: "Table", _load: Load) -> Upkept:
        old = _expired(table, older_than, options, unfinished)
        sizes = _sizes(project, _only_of(table, old))
        return _expiry(table_name, table, old, sizes, "would be removed")

    return _for_each_target(project, table_name, look)


def expire_snapshots(
    project: Project,
    table_name: str,
    older_than: timedelta,
    options: Expiry,
    unfinished: Unfinished,
) -> Upkept:
    """Remove snapshots that were replaced longer ago than `older_than`, and their files.

    What counts is since when nobody begins to read a snapshot, not when it was made. Those of
    windows whose attempts did not finish stay: whoever takes such an attempt over finds there what
    it published. Files go that no snapshot names any more.
    """

    def expire(_target: IcebergTarget, table: "Table", load: Load) -> Upkept:
        for current in chain([table], tries(load)):
            old = _expired(current, older_than, options, unfinished)
            files = _only_of(current, old)
            done = _expiry(table_name, current, old, _sizes(project, files), "removed")
            if not old or remove_snapshots(current, old):
                _remove(project, current, files)
                return done
        return _nothing(table_name, "it is being written to: nothing is removed this time")

    return _for_each_target(project, table_name, expire)


def compactable(project: Project, table_name: str, options: Compaction) -> Upkept:
    """Report what `compact_files` would write anew."""

    def look(target: IcebergTarget, table: "Table", _load: Load) -> Upkept:
        groups = small_files(table, project.table(table_name), target, options)
        wanted = sum(group.wanted for group in groups)
        return _compaction(table_name, groups, f"would become {wanted}")

    return _for_each_target(project, table_name, look)


def compact_files(
    project: Project, spark: "SparkSession", table_name: str, options: Compaction
) -> Upkept:
    """Write the small files of each window anew as few, with the same rows.

    Safe beside publications: a window that is published meanwhile is left for the next time.
    """

    def compact(target: IcebergTarget, table: "Table", load: Load) -> Upkept:
        folder = table_folder(project, target.name or table_name).within("data")
        groups = small_files(table, project.table(table_name), target, options)
        done: list[Rewritten] = []
        with fresh_session(spark, project) as session:
            for first in range(0, len(groups), _WINDOWS_PER_COMMIT):
                part = groups[first : first + _WINDOWS_PER_COMMIT]
                done += commit(load, rewrite(session, load, part, target, folder))
        left = len(groups) - len(done)
        made = f"became {sum(len(item.files) for item in done)}"
        made += f"; {left} windows changed meanwhile and wait for the next time" if left else ""
        return _compaction(table_name, [item.replaced for item in done], made)

    return _for_each_target(project, table_name, compact)


def _for_each_target(
    project: Project,
    table_name: str,
    work: "Callable[[IcebergTarget, Table, Load], Upkept]",
) -> Upkept:
    """The sum over a table's Iceberg targets; without one, a note. Failures are StepErrors."""
    steps = project.table(table_name).steps
    targets = [step.target for step in steps if isinstance(step.target, IcebergTarget)]
    if not targets:
        return _nothing(table_name, "passed over: it is not an Iceberg table")
    done = []
    with step_errors():
        catalog = open_catalog(project)
        for name, target in {target.name or table_name: target for target in targets}.items():
            load = partial(load_existing, catalog, identifier(name))
            table = load()
            missing = _nothing(table_name, f"{name} was never published")
            done.append(missing if table is None else work(target, table, load))
    return reduce(_sum, done)


def _sum(one: Upkept, other: Upkept) -> Upkept:
    return Upkept(
        f"{one.text}; {other.text}",
        one.rows + other.rows,
        one.files + other.files,
        one.bytes + other.bytes,
        one.table,
    )


def _nothing(table_name: str, why: str) -> Upkept:
    return Upkept(why, table=table_name)


def _expired(
    table: "Table", older_than: timedelta, options: Expiry, unfinished: Unfinished
) -> list[int]:
    """The snapshots that may go, oldest first."""
    before = (datetime.now(timezone.utc) - older_than).timestamp() * 1000
    snapshots = table.metadata.snapshots
    replaced = [old for old, new in pairwise(snapshots) if new.timestamp_ms < before]
    kept = {snapshot.snapshot_id for snapshot in snapshots[-options.keep :]}
    kept |= indispensable(table)
    if replaced:
        kept |= of_windows(table, unfinished())
    return [old.snapshot_id for old in replaced if old.snapshot_id not in kept]


def _only_of(table: "Table", expired: Collection[int]) -> set[str]:
    """Return the files that no other snapshots name."""
    if not expired:
        return set()
    gone = set(expired)
    kept = [item for item in table.metadata.snapshots if item.snapshot_id not in gone]
    return named_files(table, table.metadata.snapshots).all - named_files(table, kept).all


def _expiry(
    table_name: str, table: "Table", old: Collection[int], sizes: Collection[int], verb: str
) -> Upkept:
    text = f"{len(old)} of {len(table.metadata.snapshots)} snapshots {verb}"
    return Upkept(text if old else "no old snapshots", 0, len(sizes), sum(sizes), table_name)


def _sizes(project: Project, files: Collection[str]) -> list[int]:
    """Return the bytes of files; of one that is gone already, none."""
    found = []
    for location in files:
        try:
            found.append(storage_of(location, project.storage).weight(location).bytes)
        except FileNotFoundError:
            found.append(0)
    return found


def _compaction(table_name: str, groups: Collection[SmallFiles], became: str) -> Upkept:
    files = sum(len(group.files) for group in groups)
    rows, size = (sum(getattr(group, name) for group in groups) for name in ("rows", "bytes"))
    text = f"{files} files of {len(groups)} windows {became}" if groups else "no small files"
    return Upkept(text, rows, files, size, table_name)


def _remove(project: Project, table: "Table", files: Collection[str]) -> None:
    """Remove files, and the staging folders that no snapshot names any more."""
    named = named_files(table, table.metadata.snapshots).all
    needed = {folder_of(location) for location in named}
    for location in files:
        storage, folder = storage_of(location, project.storage), folder_of(location)
        if location not in named:
            storage.remove(location)
        if folder not in needed and is_staging_folder(folder):
            storage.remove(folder)
