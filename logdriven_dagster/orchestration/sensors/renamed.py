"""Windows that ran under the earlier name of a table, which the mirror shows under the new one.

Dagster keeps the events of the earlier asset. Those of the new asset are reported again from the
run log, also for windows that runs of this Dagster reported themselves.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from logdriven_dagster.orchestration.location import Location
from logdriven_dagster.orchestration.sensors.cursors import Seen
from logdriven_dagster.runlog.observed.mirror import list_ended_among
from logdriven_dagster.runlog.renaming import find_renames


@dataclass(frozen=True, slots=True)
class RenamedTables:
    """The renamed tables of a code location, and the attempts to show of them."""

    last: dict[str, int]
    """Table → its last attempt under an earlier name."""
    earlier: frozenset[str]
    """The earlier names of tables that no table has now."""
    rows: list[dict[str, Any]]
    """The attempts to show."""
    _seen: dict[str, int]
    _complete: bool

    @classmethod
    def since(cls, conn: Connection, location: Location, seen: Seen, limit: int) -> "RenamedTables":
        """Find the attempts that were not shown yet, up to `limit`."""
        renames = find_renames(conn)
        last: dict[str, int] = {}
        for each in renames:
            if each.table in location.keys:
                last[each.table] = max(each.job_id, last.get(each.table, 0))
        known = {table: shown for table, until, shown in seen.renamed if last.get(table) == until}
        rows: list[dict[str, Any]] = []
        for table, until in last.items():
            left = limit - len(rows)
            if known.get(table, 0) < until and left > 0:
                rows += list_ended_among(conn, table, known.get(table, 0), until, left)
        names = {each.renamed_from for each in renames} - location.project.tables.keys()
        return cls(last, frozenset(names), rows, known, len(rows) < limit)

    def covers(self, row: dict[str, Any]) -> bool:
        """Return True if an attempt is one of a renamed table's before the rename."""
        return bool(row["job_id"] <= self.last.get(row["job_name"], 0))

    def then(self, number: int) -> list[tuple[str, int, int]]:
        """Return the part of the cursor after so many of the rows."""
        return list(self._after(self.rows[:number], whole=self._complete))

    def _after(self, shown: list[dict[str, Any]], *, whole: bool) -> Iterator[tuple[str, int, int]]:
        for table, until in self.last.items():
            mine = [row["job_id"] for row in shown if row["job_name"] == table]
            is_done = whole and len(shown) == len(self.rows)
            yield table, until, until if is_done else max([self._seen.get(table, 0), *mine])
