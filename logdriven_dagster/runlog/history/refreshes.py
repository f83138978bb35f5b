"""Queries for stale windows, as `planning.staleness` defines them.

Attempts after the first one at a window are found by an index, and so are first ones that replace
windows of another grid or run after their downstream windows. For each table a bookmark holds the
last of them up to which nothing is stale any more, so the cost depends on recent reruns, not on the
length of the history.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    func,
    insert,
    literal,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.engine import Connection, Row
from sqlalchemy.exc import IntegrityError

from logdriven_dagster.config.models.tables import TableConfig
from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.windows import TimeWindow
from logdriven_dagster.planning.staleness import TrackedInput, find_tracked_inputs
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive, refresh_bookmark
from logdriven_dagster.runlog.sql.among import among
from logdriven_dagster.runlog.sql.chunks import QUERIES, split_into_chunks
from logdriven_dagster.runlog.sql.clock import utc_from_now
from logdriven_dagster.runlog.sql.projects import match_project
from logdriven_dagster.runlog.sql.unindexed import unindexed

_DONE, _SKIPPED = Status.SUCCESS.value, Status.SKIPPED.value
_RUNNING = Status.RUNNING.value
_LONGER_THAN_A_CLAIM = timedelta(minutes=1)
"""A server ends a transaction that is idle for a quarter of it."""
_BOOKMARKS = select(
    refresh_bookmark.c.job_name, refresh_bookmark.c.upstream, refresh_bookmark.c.job_id
).where(match_project(refresh_bookmark), among(refresh_bookmark.c.job_name))
_AGAIN = select(
    job_log.c.job_name,
    job_log.c.job_id,
    job_log.c.window_start,
    job_log.c.window_end,
    job_log.c.status,
).where(
    match_project(job_log),
    job_log.c.again == 1,
    # SQLite would scan all windows of an upstream for the few that ran again.
    unindexed(job_log.c.latest) == 1,
    job_log.c.window_start.is_not(None),
)
"""The latest attempts after the first at windows."""
_NOT_PASSED = _AGAIN.add_columns(refresh_bookmark.c.job_name.label("made")).where(
    match_project(refresh_bookmark),
    among(refresh_bookmark.c.job_name),
    job_log.c.job_name == refresh_bookmark.c.upstream,
    job_log.c.job_id > refresh_bookmark.c.job_id,
)
"""Those attempts at windows of upstreams behind the bookmarks of tables, each with its table."""
_OF_UPSTREAMS = _AGAIN.where(among(job_log.c.job_name))
"""Those attempts at windows of upstreams for which there is no bookmark yet."""


@dataclass(frozen=True, slots=True)
class RanAgain:
    """The upstream windows that ran again since their downstream windows were made."""

    stale: Mapping[str, Sequence[TimeWindow]]
    """By table, finished windows older than a success that overlaps them, by ascending start."""
    tables: set[str]
    """The tables with an upstream that ran again behind their bookmark, stale windows or not."""


def find_reruns(conn: Connection, tables: Collection[TableConfig]) -> RanAgain:
    """Find the stale windows, and the tables whose bookmarks may move.

    A window becomes stale by the latest success at an upstream window that it is made from. Of
    overlapping windows, which a change of the period may leave, the one that begins last counts.
    """
    pairs = find_tracked_inputs(tables)
    passed = _read_bookmarks(conn, pairs)
    zones = {table.table: table.grid.zone for table in tables}
    again = list(_find_upstream_reruns(conn, pairs, passed))
    probes = [(pair, row) for pair, row in again if _has_changed_rows(pair, row)]
    found: dict[str, dict[int, TimeWindow]] = {}
    for number, row in _find_older(conn, probes, (_DONE,)):
        name = probes[number][0].table
        window = TimeWindow.from_seconds(row.window_start, row.window_end, zones[name])
        found.setdefault(name, {})[row.window_start] = window
    stale = {name: [of[start] for start in sorted(of)] for name, of in found.items()}
    return RanAgain(stale, {pair.table for pair, _ in again})


def advance_bookmarks(
    conn: Connection, table: TableConfig, tables: Collection[TableConfig]
) -> None:
    """Move the bookmarks of a table past the attempts that make nothing stale any more.

    This is permanent, since attempt numbers only grow. Running attempts may still succeed. For
    attempts that ended within the last minute, there may be another one that began earlier and
    whose transaction is not committed yet.
    """
    pairs = [pair for pair in find_tracked_inputs(tables) if pair.table == table.table]
    passed = _read_bookmarks(conn, pairs)
    again: dict[TrackedInput, list[Row[Any]]] = {}
    for pair, row in _find_upstream_reruns(conn, pairs, passed):
        again.setdefault(pair, []).append(row)
    for pair in sorted(again, key=lambda pair: pair.upstream):
        until = _find_harmless_limit(conn, pair, again[pair])
        if until > passed.get(pair, 0):
            _move(conn, pair, until)


def _find_harmless_limit(conn: Connection, pair: TrackedInput, again: Sequence[Row[Any]]) -> int:
    """Return the greatest attempt up to which none makes, or may make, a window stale; or 0."""
    known = [row for row in again if _has_changed_rows(pair, row)]
    probes = [(pair, row) for row in known]
    older = {probes[n][1].job_id for n, _ in _find_older(conn, probes, (_DONE, _RUNNING))}
    mine = match_project(job_log) & (job_log.c.job_name == pair.upstream) & (job_log.c.latest == 1)
    job_ids = select(job_log.c.job_id).where(mine)
    # Each by its index: one condition with OR would scan all windows of the upstream.
    may_be_harmful = (
        job_ids.where(job_log.c.status == _RUNNING),
        job_ids.where(_match_ended_lately(known)),
        _select_standing_behind_running(mine),
    )
    stop = min([*older, *conn.execute(union_all(*may_be_harmful)).scalars()], default=None)
    harmless = [row.job_id for row in known if stop is None or row.job_id < stop]
    return max(harmless, default=0)


def _select_standing_behind_running(mine: ColumnElement[bool]) -> Select[Any]:
    """Select the successes that count again if the refreshes running over them fail."""
    before = job_log.alias()
    return select(before.c.job_id).where(
        match_project(before),
        before.c.job_schedule_id == job_log.c.job_schedule_id,
        # SQLite would scan all successes for those of the few running windows.
        unindexed(before.c.status) == _DONE,
        mine,
        job_log.c.status == _RUNNING,
        job_log.c.again == 1,
    )


def _match_ended_lately(rows: Sequence[Row[Any]]) -> ColumnElement[bool]:
    since = select(utc_from_now(-_LONGER_THAN_A_CLAIM)).scalar_subquery()
    ids = [row.job_id for row in rows]
    return job_log.c.job_id.in_(ids) & (job_log.c.job_end_time >= since)


def _read_bookmarks(conn: Connection, pairs: Collection[TrackedInput]) -> dict[TrackedInput, int]:
    if not pairs:
        return {}
    found = {}
    known = {(pair.table, pair.upstream): pair for pair in pairs}
    for row in conn.execute(_BOOKMARKS, {"names": {pair.table for pair in pairs}}):
        if pair := known.get((row.job_name, row.upstream)):
            found[pair] = row.job_id
    return found


def _find_upstream_reruns(
    conn: Connection, pairs: Collection[TrackedInput], passed: Mapping[TrackedInput, int]
) -> Iterator[tuple[TrackedInput, Row[Any]]]:
    """Yield the attempts at upstream windows behind the bookmarks, each with its pair of tables."""
    marked = {(pair.table, pair.upstream): pair for pair in passed}
    if marked:
        names = {table for table, _ in marked}
        for row in conn.execute(_NOT_PASSED, {"names": names}):
            if pair := marked.get((row.made, row.job_name)):
                yield pair, row
    unmarked: dict[str, list[TrackedInput]] = {}
    for pair in pairs:
        if pair not in passed:
            unmarked.setdefault(pair.upstream, []).append(pair)
    if unmarked:
        for row in conn.execute(_OF_UPSTREAMS, {"names": unmarked.keys()}):
            yield from ((pair, row) for pair in unmarked[row.job_name])


def _has_changed_rows(pair: TrackedInput, row: Row[Any]) -> bool:
    """Return True if an attempt has changed what the table reads.

    A skipped window of its own may have been published by an attempt that died before its end.
    """
    return row.status == _DONE or (pair.is_own and row.status == _SKIPPED)


def _find_limits(probes: Sequence[tuple[TrackedInput, Row[Any]]]) -> dict[int, int | None]:
    """Return for each probe of a table's own windows the start of the next newer one, or None.

    The next newer one makes all windows behind it stale, so each window is found once.
    """
    limits: dict[int, int | None] = {}
    own = [(n, row) for n, (pair, row) in enumerate(probes) if pair.is_own]
    nearest: dict[str, list[Row[Any]]] = {}
    for n, row in sorted(own, key=lambda each: each[1].window_start, reverse=True):
        newer = nearest.setdefault(row.job_name, [])
        while newer and newer[-1].job_id < row.job_id:
            newer.pop()
        limits[n] = newer[-1].window_start if newer else None
        newer.append(row)
    return limits


def _find_older(
    conn: Connection, probes: Sequence[tuple[TrackedInput, Row[Any]]], statuses: Collection[str]
) -> Iterator[tuple[int, Row[Any]]]:
    """Yield the number of a probe, and each window that the attempt overlaps and follows."""
    limits = _find_limits(probes)
    queries = [
        _select_later(log, n, again, status, limits[n])
        if pair.is_own
        else _select_overlap(log, n, pair, again, status)
        for n, (pair, again) in enumerate(probes)
        if not pair.is_own or limits[n] is None or limits[n] > again.window_end
        for log in (job_log, job_log_archive)
        for status in (statuses if log is job_log else (_DONE,))
    ]
    for part in split_into_chunks(queries, QUERIES):
        for row in conn.execute(union_all(*part)).all():
            pair, again = probes[row.number]
            if pair.reads(row.window_start, row.window_end, again.window_start):
                yield row.number, row


def _select_overlap(
    log: Table, number: int, pair: TrackedInput, again: Row[Any], status: str
) -> Select[Any]:
    """Select by two index steps: windows follow each other, so the first match begins last."""
    mine = (
        match_project(log)
        & (log.c.job_name == pair.table)
        & (log.c.latest == 1)
        & (log.c.status == status)
    )
    low = again.window_start - pair.longest_lookback
    first = select(func.max(log.c.window_start)).where(mine, log.c.window_start <= low)
    begin = func.coalesce(first.scalar_subquery(), low)
    return select(
        literal(number).label("number"), log.c.job_id, log.c.window_start, log.c.window_end
    ).where(
        mine,
        log.c.window_start >= begin,
        log.c.window_start < again.window_end,
        log.c.window_end > low,
        _is_older(log, again, status),
    )


def _select_later(
    log: Table, number: int, again: Row[Any], status: str, limit: int | None
) -> Select[Any]:
    """Select the older attempts at later windows of the same table, before a limit."""
    query = select(
        literal(number).label("number"), log.c.job_id, log.c.window_start, log.c.window_end
    ).where(
        match_project(log),
        log.c.job_name == again.job_name,
        log.c.latest == 1,
        log.c.status == status,
        log.c.window_start >= again.window_end,
        _is_older(log, again, status),
    )
    return query if limit is None else query.where(log.c.window_start < limit)


def _is_older(log: Table, again: Row[Any], status: str) -> ColumnElement[bool]:
    """Match rows older than `again`.

    A running attempt counts as older: if it fails, the earlier result is in force again.
    """
    older = log.c.job_id < again.job_id
    return or_(older, log.c.again == 1) if status == _RUNNING else older


def _move(conn: Connection, pair: TrackedInput, job_id: int) -> None:
    mark = refresh_bookmark.c
    mine = match_project(refresh_bookmark) & (mark.job_name == pair.table)
    mine &= mark.upstream == pair.upstream
    moved = update(refresh_bookmark).where(mine).values(job_id=job_id)
    if conn.execute(moved).rowcount:
        return
    try:
        with conn.begin_nested():
            values = {"job_name": pair.table, "upstream": pair.upstream, "job_id": job_id}
            conn.execute(insert(refresh_bookmark).values(values))
    except IntegrityError:
        return  # another claim has just made it
