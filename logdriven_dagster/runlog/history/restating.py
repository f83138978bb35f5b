"""Restating: finished windows by older versions, and requests of operators to run them again."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, Table, and_, func, insert, select, update
from sqlalchemy.engine import Connection

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.logs import OldWindow
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.runlog.definitions.rows import Author
from logdriven_dagster.runlog.history.windows import build_window, list_latest_attempts
from logdriven_dagster.runlog.schema.attempts import job_log, restatement
from logdriven_dagster.runlog.sql.among import among
from logdriven_dagster.runlog.sql.clock import utc_now
from logdriven_dagster.runlog.sql.projects import match_project


@dataclass(frozen=True, slots=True)
class Restatement:
    """A request of an operator that is not done."""

    restatement_id: int
    version: int | None
    """Windows by older versions of the table run again; None: all windows."""
    job_id: int
    """The last attempt before the request; windows that ran since are as they should be."""
    start: int | None
    end: int | None
    operator: str
    reason: str

    def includes(self, row: Row[Any], older: Collection[int]) -> bool:
        """Return True if a finished window, a row of the log, is to run again.

        `older` are the versions with another effect than the one in force.
        """
        in_range = (self.end is None or row.window_start < self.end) and (
            self.start is None or row.window_end > self.start
        )
        if self.version is None:
            return bool(in_range and row.job_id <= self.job_id)
        version = row.table_version
        return bool(in_range and version in older and version < self.version)


_OPEN = select(restatement).where(
    match_project(restatement), among(restatement.c.job_name), restatement.c.done.is_(None)
)


def read_restatements(
    conn: Connection, names: Collection[str]
) -> Mapping[str, Sequence[Restatement]]:
    """Return the open requests of tables by name, the oldest first."""
    found: dict[str, list[Restatement]] = {}
    rows = conn.execute(_OPEN, {"names": names}).all()
    for row in sorted(rows, key=lambda row: row.restatement_id):
        found.setdefault(row.job_name, []).append(
            Restatement(
                row.restatement_id,
                row.version,
                row.job_id,
                row.window_start,
                row.window_end,
                row.operator,
                row.reason,
            )
        )
    return found


def request(
    conn: Connection,
    table: str,
    span: TimeWindow | None,
    version: int | None,
    author: Author,
) -> None:
    """Record a request to restate the windows of a table in a range, or all of them.

    `version` is the version in force, older ones of which made the windows; None for windows of any
    version.
    """
    newest = select(func.max(job_log.c.job_id)).where(match_project(job_log))
    values = {
        "job_name": table,
        "window_start": None if span is None else int(span.start.timestamp()),
        "window_end": None if span is None else int(span.end.timestamp()),
        "version": version,
        "job_id": conn.execute(newest).scalar() or 0,
        "operator": author.operator,
        "reason": author.reason,
    }
    conn.execute(insert(restatement).values(create_time=utc_now(), **values))


def close(conn: Connection, restatement_ids: Collection[int]) -> None:
    """Record that no window of some requests is left."""
    mine = match_project(restatement) & restatement.c.restatement_id.in_(restatement_ids)
    conn.execute(update(restatement).where(mine).values(done=1))


def find_restated(
    conn: Connection,
    table: TableConfig,
    older: Collection[int],
    requests: Sequence[Restatement],
    span: TimeWindow | None = None,
) -> tuple[list[OldWindow], list[int]]:
    """Return the windows of a table that may be restated, and the requests without any.

    `older` are the versions with another effect than the one in force. `span` limits the windows
    to those that begin in a range.
    """
    everything = any(each.version is None for each in requests)
    found, left = [], set()
    for row in _list_finished(conn, table, None if everything else older, span):
        asked = [each for each in requests if each.includes(row, older)]
        left |= {each.restatement_id for each in asked}
        if not asked and row.table_version not in older:
            continue
        reason = f"{asked[-1].reason} ({asked[-1].operator})" if asked else None
        found.append(OldWindow(build_window(table, row._mapping), row.table_version, reason))
    return found, [each.restatement_id for each in requests if each.restatement_id not in left]


def _list_finished(
    conn: Connection,
    table: TableConfig,
    versions: Collection[int] | None,
    span: TimeWindow | None,
) -> Iterator[Row[Any]]:
    """Yield the finished windows of a table, oldest first; of some versions and a range only."""
    if versions is not None and not versions:
        return

    def is_finished(log: Table) -> ColumnElement[bool]:
        found = [log.c.status == Status.SUCCESS.value, log.c.window_start.is_not(None)]
        if span is not None:
            first, last = (int(bound.timestamp()) for bound in (span.start, span.end))
            found += [log.c.window_start >= first, log.c.window_start < last]
        if versions is not None:
            found.append(log.c.table_version.in_(sorted(versions)))
        return and_(*found)

    yield from list_latest_attempts(conn, table, is_finished)
