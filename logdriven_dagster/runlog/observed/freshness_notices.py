"""Notices of freshness: one row for each recipient and table, with the last state notified.

No attempt ends when a table becomes late, and every evaluation finds it late again. So the row is
changed only when the state changes, by a guarded update that one of several deployments wins. It is
sent like any other notice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from logdriven_dagster.runlog.observed.notifications import GATHERING, Event, Notice
from logdriven_dagster.runlog.schema.observations import notification_log
from logdriven_dagster.runlog.sql.chunks import split_into_chunks
from logdriven_dagster.runlog.sql.clock import utc_from_now, utc_now
from logdriven_dagster.runlog.sql.projects import match_project


@dataclass(frozen=True, slots=True)
class Standing:
    """The current state of a table for a recipient."""

    recipient: str
    table: str
    event: Event
    """`late`, `warning`, or `recovery` for a table that is fresh."""
    instant: int
    """The start of the missing window, or of the newest one, in epoch seconds."""
    is_news: bool
    """True if the recipient subscribes to such an event; otherwise it is only recorded."""

    @property
    def notice(self) -> Notice:
        return Notice(self.recipient, "freshness", self.table, self.event, self.instant)


def find_changed(conn: Connection, found: Sequence[Standing]) -> list[Standing]:
    """Return the states that differ from the recorded ones; nothing is written."""
    known = _read_known(conn, found)
    return [standing for standing in found if _is_change(standing, known.get(standing))]


def post(conn: Connection, found: Sequence[Standing], owner: str) -> int:
    """Put changed states into the outbox, and return the number of notices to send."""
    known = _read_known(conn, found)
    return sum(
        _record_change(conn, standing, known.get(standing), owner)
        for standing in found
        if _is_change(standing, known.get(standing))
    )


def _is_change(standing: Standing, row: Any) -> bool:
    if row is None:
        return standing.event != "recovery"
    # A late table stays late until it is fresh.
    return (row.event, standing.event) != ("late", "warning") and row.event != standing.event


def _read_known(conn: Connection, found: Sequence[Standing]) -> dict[Standing, Any]:
    log = notification_log.c
    columns = (log.digest, log.event, log.sent_time, log.sending, log.error)
    by_digest = {standing.notice.digest: standing for standing in found}
    return {
        by_digest[row.digest]: row
        for part in split_into_chunks(list(by_digest))
        for row in conn.execute(
            select(*columns).where(match_project(notification_log), log.digest.in_(part))
        )
    }


def _record_change(conn: Connection, standing: Standing, row: Any, owner: str) -> bool:
    """Record a changed state, and return True if it is to be sent."""
    values = _build_values(standing, owner)
    if row is None:
        first = {"digest": standing.notice.digest}
        return _insert_new(conn, values | first) and standing.is_news
    unchanged = match_project(notification_log) & (notification_log.c.digest == row.digest)
    unchanged &= notification_log.c.event == row.event
    on_its_way = row.sending is not None and row.error is None
    if standing.event == "recovery" and not (row.sent_time or on_its_way):
        # The notice that it was late was never sent.
        unsent = notification_log.c.sent_time.is_(None)
        conn.execute(delete(notification_log).where(unchanged, unsent))
        return False
    written = conn.execute(update(notification_log).where(unchanged).values(**values))
    return written.rowcount == 1 and standing.is_news


def _build_values(standing: Standing, owner: str) -> dict[str, Any]:
    return {
        "recipient": standing.recipient,
        "subject_type": "freshness",
        "subject": standing.table,
        "event": standing.event,
        "job_id": standing.instant,
        "owner": owner,
        "due_time": utc_from_now(GATHERING),
        "create_time": utc_now(),
        "sending": None,
        "tries": 0,
        "sent_time": None if standing.is_news else utc_now(),
        "error": None,
    }


def _insert_new(conn: Connection, values: dict[str, Any]) -> bool:
    try:
        with conn.begin_nested():
            conn.execute(insert(notification_log).values(**values))
    except IntegrityError:
        return False  # another process was faster
    return True
