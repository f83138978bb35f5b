"""What the targets of one type hold, found out without Spark."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.config.models.types.targets import Target
from logdriven_dagster.config.project import Project
from logdriven_dagster.engine.arrow.rows import ArrowRows
from logdriven_dagster.engine.storage.garbage import Garbage, Search
from logdriven_dagster.model.runs import Column
from logdriven_dagster.model.windows import TimeWindow


@dataclass(frozen=True, slots=True)
class Holdings:
    """The columns of a published table, and how many rows it has where that is known quickly."""

    columns: tuple[Column, ...] = ()
    rows: int | None = None


class Contents:
    """Answers what the targets of one type hold; by default nothing is known of them."""

    def holdings(self, project: Project, table: str, target: Any) -> Holdings:
        """What readers find now; nothing where the target cannot tell, or is empty."""
        _ = project, table, target
        return Holdings()

    def rows(
        self, project: Project, table: str, target: Any, window: TimeWindow | None
    ) -> ArrowRows | None:
        """Return the rows that Spark would read, all or those of a window; None: ask Spark.

        The technical column is still there. NotPublishedError if nothing was ever published.
        """
        _ = project, table, target, window
        return None

    def rows_of_others(
        self, project: Project, targets: Sequence[tuple[str, Any]]
    ) -> Iterator[str | None]:
        """Yield for each target what will become of rows that no window wrote; None: it has none.

        All targets are of one connection, or of the catalog; of other types it is a single one.
        """
        _ = project
        yield from (None for _ in targets)

    def leftovers(self, search: Search, table: str, target: Any) -> Iterator[Garbage]:
        """Yield what nobody needs any more, but for what is in the project's staging folder."""
        _ = search, table, target
        yield from ()


def contents_of(target: Target) -> Contents:
    """Return what answers for targets of this type."""
    found: Contents = resolve_name(target.contents)()
    return found


def holdings(project: Project, table: TableConfig) -> Holdings:
    """What readers of the table find now; nothing where the target cannot tell, or is empty."""
    return contents_of(table.output).holdings(project, table.table, table.output)
