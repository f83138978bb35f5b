"""Names of windows in the log, `job_schedule_id`: one for each instant.

A name is the text of a window's start on the project's wall clock. After a change of the project's
time zone the same text means another instant, and the same instant has another text. So a window
that is in the log keeps its name, and a window whose text is already the name of another one gets a
name with its offset.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Select, bindparam, select, union_all
from sqlalchemy.engine import Connection, Row

from logdriven_dagster.model.attempts import Claim, Status
from logdriven_dagster.model.windows import Slice, TimeWindow
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive
from logdriven_dagster.runlog.sql.chunks import split_into_chunks
from logdriven_dagster.runlog.sql.projects import match_project

EVERY_STATUS = tuple(status.value for status in Status)
"""All statuses, listed so that databases use the index with the start after the status."""


def _select_columns(log: Any) -> Select[Any]:
    return select(log.c.job_schedule_id, log.c.window_start).where(match_project(log))


_KNOWN = union_all(
    *(
        _select_columns(log).where(log.c.job_schedule_id.in_(bindparam("names", expanding=True)))
        for log in (job_log, job_log_archive)
    ),
    *(
        _select_columns(log).where(
            log.c.job_name == bindparam("table"),
            log.c.latest == 1,
            log.c.status.in_(EVERY_STATUS),
            log.c.window_start.in_(bindparam("starts", expanding=True)),
        )
        for log in (job_log, job_log_archive)
    ),
)
"""Names and instants of rows that have one of the given names, or begin at a given instant."""


def find_names(conn: Connection, table: str, windows: Sequence[TimeWindow]) -> list[str]:
    """Return the `job_schedule_id` of each window, including names from another time zone."""
    usual = [f"{table}-{window.key}" for window in windows]
    if not windows or isinstance(windows[0], Slice):
        return usual
    rows: list[Row[Any]] = []
    for part in split_into_chunks(list(zip(usual, windows, strict=True))):
        asked = {"names": [name for name, _ in part], "starts": [_start(w) for _, w in part]}
        rows += conn.execute(_KNOWN, asked | {"table": table})
    return choose_names(table, windows, ((row.job_schedule_id, row.window_start) for row in rows))


def find_names_of(conn: Connection, windows: Sequence[tuple[str, TimeWindow]]) -> list[str]:
    """Return the `job_schedule_id` of windows of several tables, in their order."""
    found: dict[tuple[str, TimeWindow], str] = {}
    for table in dict.fromkeys(name for name, _ in windows):
        mine = [window for name, window in windows if name == table]
        called = find_names(conn, table, mine)
        found |= {(table, w): name for w, name in zip(mine, called, strict=True)}
    return [found[each] for each in windows]


def choose_names(
    table: str, windows: Sequence[TimeWindow], known: Iterable[tuple[str, int | None]]
) -> list[str]:
    """Choose the name of each window, given the names and starts in the log."""
    by_start: dict[int, set[str]] = {}
    starts: dict[str, int] = {}
    for name, start in known:
        if start is not None:  # rows written by hand have no start, only a name
            by_start.setdefault(start, set()).add(name)
            starts[name] = start
    found = []
    for window in windows:
        name, start = f"{table}-{window.key}", _start(window)
        mine = by_start.get(start, set())
        if mine and name not in mine:
            name = min(mine)
        elif starts.get(name, start) != start:
            name = f"{table}-{window.exact_start_text}"
        found.append(name)
    return found


def apply_logged_name(claim: Claim, name: str) -> Claim:
    """Return the claim with the name that its window has in the log."""
    return claim if name == f"{claim.table}-{claim.window.key}" else replace(claim, name=name)


def _start(window: TimeWindow) -> int:
    return int(window.span[0])
