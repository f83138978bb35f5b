"""Upkeep of targets that keep old versions: expiry and compaction, without changing rows.

It does not affect windows: the run log, the fences and the order of publications stay the same. If
it is killed at any point, `clean` finds the leftovers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeAlias

from logdriven_dagster.config.locations import normalize_location
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.failures import step_errors
from logdriven_dagster.engine.spark.session import fresh_session
from logdriven_dagster.engine.storage.file_lists import listing_files
from logdriven_dagster.engine.storage.locations import Folder, folder_of, storage_of
from logdriven_dagster.engine.storage.staging import UPKEEP, is_staging_folder
from logdriven_dagster.engine.targets.compaction import (
    Rewritten,
    SmallFiles,
    TableNow,
    commit,
    rewrite,
    small_files,
)
from logdriven_dagster.model.upkeep import Compaction, Expiry, Upkept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Unfinished: TypeAlias = Callable[[], Collection[tuple[str, str]]]
"""Table and `data_range_start` of each window whose latest attempt has not succeeded.

It is called after a table's history was read, so publications since then are newer than that
history.
"""

_WINDOWS_PER_COMMIT = 50
"""Each commit adds a version, and publications to Iceberg keep only the newest fifty."""


@dataclass(frozen=True, slots=True)
class Expiring:
    """The rule for versions of a table that may be removed."""

    older_than: timedelta
    """The minimum time since a version was replaced, after which no reader begins to read it."""
    options: Expiry
    unfinished: Unfinished
    """A runner that takes such an attempt over must find its publications."""


class Upkeep(ABC):
    """The upkeep of targets of one type, which the type names."""

    def __init__(self, project: Project, table: str, target: Any) -> None:
        self.project, self.table, self.target = project, project.table(table), target

    @property
    @abstractmethod
    def name(self) -> str:
        """The target's name in messages."""

    @property
    @abstractmethod
    def data(self) -> Folder:
        """The folder below which new files are written."""

    @abstractmethod
    def load(self) -> TableNow | None:
        """Return the current version of the table; None if it was never published."""

    @abstractmethod
    def expire(self, rule: Expiring, *, really: bool) -> Upkept:
        """Remove unneeded files of replaced versions; without `really`, only report them."""


def expirable(
    project: Project, table: str, older_than: timedelta, options: Expiry, unfinished: Unfinished
) -> Upkept:
    """Report the files that `expire_snapshots` would remove.

    Args:
        older_than: The minimum time since a version was replaced.
        options: The number of newest versions to keep at any age.
        unfinished: Returns the windows whose snapshots must stay.
    """
    rule = Expiring(older_than, options, unfinished)
    return _for_each_target(project, table, lambda target: target.expire(rule, really=False))


def expire_snapshots(
    project: Project, table: str, older_than: timedelta, options: Expiry, unfinished: Unfinished
) -> Upkept:
    """Remove versions that were replaced longer ago than `older_than`, and their files.

    The arguments are those of `expirable`.
    """
    rule = Expiring(older_than, options, unfinished)
    return _for_each_target(project, table, lambda target: target.expire(rule, really=True))


def compactable(project: Project, table: str, options: Compaction) -> Upkept:
    """Report the files that `compact_files` would rewrite."""

    def look(target: Upkeep) -> Upkept:
        now = target.load()
        groups = small_files(now.files if now else (), options)
        wanted = sum(group.wanted for group in groups)
        return _compaction(table, groups, f"would become {wanted}")

    return _for_each_target(project, table, look)


def compact_files(
    project: Project, spark: "SparkSession", table: str, options: Compaction
) -> Upkept:
    """Rewrite the small files of each window as few, with the same rows.

    Safe during publications: a window that is published meanwhile is left for the next run.
    """

    def compact(target: Upkeep) -> Upkept:
        now = target.load()
        groups = small_files(now.files if now else (), options)
        done: list[Rewritten] = []
        with (
            fresh_session(spark, project) as session,
            listing_files(session, project, table, UPKEEP),
        ):
            for first in range(0, len(groups), _WINDOWS_PER_COMMIT):
                part = groups[first : first + _WINDOWS_PER_COMMIT]
                rewritten = rewrite(session, target.load, part, target.target, target.data)
                done += commit(target.load, rewritten)
        left = len(groups) - len(done)
        made = f"became {sum(len(item.files) for item in done)}"
        made += f"; {left} windows changed meanwhile and are left for the next time" if left else ""
        return _compaction(table, [item.replaced for item in done], made)

    return _for_each_target(project, table, compact)


def _for_each_target(project: Project, table: str, work: Callable[[Upkeep], Upkept]) -> Upkept:
    """Return the sum over a table's targets that support upkeep; without one, a note.

    Failures are raised as StepErrors.
    """
    given = [step.target for step in project.table(table).steps if step.target is not None]
    targets = {target.place(table): target for target in given if target.upkeep}
    if not targets:
        return Upkept("skipped: its targets do not keep old versions", table=table)
    done = []
    with step_errors():
        for target in targets.values():
            found: Upkeep = resolve_name(target.upkeep or "")(project, table, target)
            if found.load() is None:
                done.append(Upkept(f"{found.name} was never published", table=table))
            else:
                done.append(work(found))
    return reduce(_sum, done)


def _sum(one: Upkept, other: Upkept) -> Upkept:
    return Upkept(
        f"{one.text}; {other.text}",
        one.rows + other.rows,
        one.files + other.files,
        one.bytes + other.bytes,
        one.table,
    )


def _compaction(table: str, groups: Collection[SmallFiles], became: str) -> Upkept:
    files = sum(len(group.files) for group in groups)
    rows, size = (sum(getattr(group, name) for group in groups) for name in ("rows", "bytes"))
    text = f"{files} files of {len(groups)} windows {became}" if groups else "no small files"
    return Upkept(text, rows, files, size, table)


def sizes_of(project: Project, files: Collection[str]) -> dict[str, int]:
    """Return the sizes in bytes of the files that exist."""
    found = {}
    for location in files:
        try:
            found[location] = storage_of(location, project.storage).weight(location).bytes
        except FileNotFoundError:
            continue
    return found


def remove_files(project: Project, files: Collection[str], named: Collection[str]) -> None:
    """Remove files that are not among the `named` ones, and staging folders without named files."""
    kept = set(map(normalize_location, named))
    needed = {folder_of(location) for location in kept}
    for location in files:
        storage, inside = storage_of(location, project.storage), folder_of(location)
        if normalize_location(location) not in kept:
            storage.remove(location)
        if normalize_location(inside) not in needed and is_staging_folder(inside):
            storage.remove(inside)
