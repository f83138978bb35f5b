"""Upkeep of targets that keep old versions: those go, small files become few. No row changes.

It says nothing of a window: the run log, the fences and the order of publications stay as they are.
Killed at any point, what is left over is what `clean` finds.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeAlias

from logdriven_dagster.config.locations import same_place
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
"""Table and `data_range_start` of each window whose latest attempt did not succeed (yet).

It is asked after a table's history was read: what was published since then is younger than that.
"""

_WINDOWS_PER_COMMIT = 50
"""Each commit adds a version, and publications to Iceberg forget all but the newest fifty."""


@dataclass(frozen=True, slots=True)
class Expiring:
    """Which versions of a table may go."""

    older_than: timedelta
    """Replaced longer ago than this: what counts is since when nobody begins to read a version."""
    options: Expiry
    unfinished: Unfinished
    """Whoever takes such an attempt over must find what it published."""


class Upkeep(ABC):
    """What keeps up a target of one type, which the type names."""

    def __init__(self, project: Project, table: str, target: Any) -> None:
        self.project, self.table, self.target = project, project.table(table), target

    @property
    @abstractmethod
    def name(self) -> str:
        """What messages call the target."""

    @property
    @abstractmethod
    def data(self) -> Folder:
        """The folder that new files are written below."""

    @abstractmethod
    def load(self) -> TableNow | None:
        """Return the table as it is now; None: it was never published."""

    @abstractmethod
    def expire(self, rule: Expiring, *, really: bool) -> Upkept:
        """Remove what nobody needs any more of versions that were replaced; or say what that is."""


def expirable(
    project: Project, table: str, older_than: timedelta, options: Expiry, unfinished: Unfinished
) -> Upkept:
    """Report what `expire_snapshots` would remove."""
    rule = Expiring(older_than, options, unfinished)
    return _for_each_target(project, table, lambda target: target.expire(rule, really=False))


def expire_snapshots(
    project: Project, table: str, older_than: timedelta, options: Expiry, unfinished: Unfinished
) -> Upkept:
    """Remove versions that were replaced longer ago than `older_than`, and their files."""
    rule = Expiring(older_than, options, unfinished)
    return _for_each_target(project, table, lambda target: target.expire(rule, really=True))


def compactable(project: Project, table: str, options: Compaction) -> Upkept:
    """Report what `compact_files` would write anew."""

    def look(target: Upkeep) -> Upkept:
        now = target.load()
        groups = small_files(now.files if now else (), options)
        wanted = sum(group.wanted for group in groups)
        return _compaction(table, groups, f"would become {wanted}")

    return _for_each_target(project, table, look)


def compact_files(
    project: Project, spark: "SparkSession", table: str, options: Compaction
) -> Upkept:
    """Write the small files of each window anew as few, with the same rows.

    Safe beside publications: a window that is published meanwhile is left for the next time.
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
        made += f"; {left} windows changed meanwhile and wait for the next time" if left else ""
        return _compaction(table, [item.replaced for item in done], made)

    return _for_each_target(project, table, compact)


def _for_each_target(project: Project, table: str, work: Callable[[Upkeep], Upkept]) -> Upkept:
    """The sum over a table's targets that can be kept up; without one, a note.

    Failures are StepErrors.
    """
    given = [step.target for step in project.table(table).steps if step.target is not None]
    targets = {target.place(table): target for target in given if target.upkeep}
    if not targets:
        return Upkept("passed over: its targets keep no old versions", table=table)
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
    """Return those of the files that are there, each with its bytes."""
    found = {}
    for location in files:
        try:
            found[location] = storage_of(location, project.storage).weight(location).bytes
        except FileNotFoundError:
            continue
    return found


def remove_files(project: Project, files: Collection[str], named: Collection[str]) -> None:
    """Remove files that are not among the `named` ones, and staging folders that hold none."""
    kept = set(map(same_place, named))
    needed = {folder_of(location) for location in kept}
    for location in files:
        storage, inside = storage_of(location, project.storage), folder_of(location)
        if same_place(location) not in kept:
            storage.remove(location)
        if same_place(inside) not in needed and is_staging_folder(inside):
            storage.remove(inside)
