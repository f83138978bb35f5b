"""Contents of the targets of one type, read without Spark."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pkgutil import resolve_name
from typing import Any, TypeAlias

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.arrow.rows import ArrowRows
from logdriven_dagster.engine.storage.garbage import Garbage, Search
from logdriven_dagster.errors import UsageError
from logdriven_dagster.model.runs import Column
from logdriven_dagster.model.windows import TimeWindow

Named: TypeAlias = tuple[str, Any]
"""A target, after the name of its table."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """The columns of a published table, and its row count where it is cheap to get."""

    columns: tuple[Column, ...] = ()
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """One state of a target that can still be read."""

    id: str
    """The snapshot of Iceberg, or the version of a Delta table."""
    committed_at: datetime
    job_ids: tuple[int, ...] = ()
    """The attempts that published or fenced windows in it; empty for other writers."""


@dataclass(frozen=True, slots=True)
class SnapshotHistory:
    """The states of a target that can still be read, the oldest first, the current one last."""

    snapshots: tuple[TableSnapshot, ...]
    others: tuple[TableSnapshot, ...] = ()
    """States that the current one does not follow, such as those of branches."""


class Contents:
    """Reader of the contents of targets of one type; the default returns no information."""

    def holdings(self, project: Project, table: str, target: Any) -> Holdings:
        """Return the columns and row count that readers see; empty if unknown or unpublished."""
        _ = project, table, target
        return Holdings()

    def rows(
        self, project: Project, table: str, target: Any, window: TimeWindow | None
    ) -> ArrowRows | None:
        """Return the rows that Spark would read, all or those of a window; None: ask Spark.

        The technical column is still included. Raises NotPublishedError if nothing was ever
        published.
        """
        _ = project, table, target, window
        return None

    def list_snapshots(self, project: Project, table: str, target: Any) -> SnapshotHistory | None:
        """Return the states of the target; None if this type keeps only the current one.

        The store of a type that keeps more is a `SnapshotStore`. Raises NotPublishedError if
        nothing was ever published.
        """
        _ = project, table, target
        return None

    def effects_on_existing_rows(
        self, project: Project, targets: Sequence[tuple[str, Any]]
    ) -> Iterator[str | None]:
        """Yield for each target the effect of the first window on rows that no window wrote.

        The value is None for a target without such rows. All targets share one connection or the
        catalog; for other types there is a single target.
        """
        _ = project
        yield from (None for _ in targets)

    def leftovers(self, search: Search, table: str, target: Any) -> Iterator[Garbage]:
        """Yield unneeded files and tables, except those in the project's staging folder."""
        _ = search, table, target
        yield from ()

    def find_move_obstacle(self, project: Project, old: Named, new: Named) -> str | None:
        """Return the reason why the rows of a renamed table cannot follow, with the fix, or None.

        Called for targets whose place follows from the name of their table.
        """
        _ = project, new
        kind, fix = old[1].type, "name the present place in the target"
        return f"the rows of a target of type {kind} stay where they are; {fix}"

    def move(self, project: Project, old: Named, new: Named) -> None:
        """Let the rows of a renamed table follow to their new place; may be called repeatedly.

        A process that is killed at any point leaves them in one place or in the other.
        """
        _ = project, old, new

    def list_parts(self, project: Project, table: str, target: Any) -> Iterator[Garbage]:
        """Yield everything that the target of a removed table consists of.

        It is removed in this order; an interrupted removal continues with the rest.
        Raises UsageError if windows of the table did not write all of it.
        """
        _ = project
        kind, fix = target.type, "remove its rows with the tools of their store"
        raise UsageError(f"{table}: targets of type {kind} cannot be removed here; {fix}")


def contents_of(target: Target) -> Contents:
    """Return the contents reader for this type of target."""
    found: Contents = resolve_name(target.contents)()
    return found


def holdings(project: Project, table: TableConfig) -> Holdings:
    """Return the columns and row count that readers of the table see; empty if unknown."""
    return contents_of(table.output).holdings(project, table.table, table.output)
