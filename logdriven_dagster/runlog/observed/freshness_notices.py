"""Notices of freshness: a row for each recipient and table, which says what it was told last.

No attempt ends when a table becomes late, and whoever looks at the clock finds it late again each
time. So the row is changed when the answer changes, by a guarded update that one of several
deployments wins. It is told like any other notice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from logdriven_dagster.runlog.observed.notifications import GATHERING, Event, Notice
from logdriven_dagster.runlog.schema.observations import notification_log
from logdriven_dagster.runlog.sql.chunks import chunks
from logdriven_dagster.runlog.sql.clock import utc_from_now, utc_now
from logdriven_dagster.runlog.sql.projects import of_project


@dataclass(frozen=True, slots=True)
class Standing:
    """What a recipient should know of a table by now."""

    recipient: str
    table: str
    event: Event
    """`late`, `warning`, or `recovery`: it is fresh."""
    moment: int
    """The start of the window that is missing, or of the newest one, in seconds of the epoch."""
    is_news: bool
    """Whether the recipient wants to hear of such an event; else it is noted only."""

    @property
    def notice(self) -> Notice:
        return Notice(self.recipient, "freshness", self.table, self.event, self.moment)


def changed(conn: Connection, found: Sequence[Standing]) -> list[Standing]:
    """Select what is otherwise than it was noted last; changes nothing."""
    known = _known(conn, found)
    return [standing for standing in found if _is_change(standing, known.get(standing))]


def post(conn: Connection, found: Sequence[Standing], owner: str) -> int:
    """Put what has changed into the outbox; how many notices are to be sent."""
    known = _known(conn, found)
    return sum(
        _noted(conn, standing, known.get(standing), owner)
        for standing in found
        if _is_change(standing, known.get(standing))
    )


def _is_change(standing: Standing, row: Any) -> bool:
    if row is None:
        return standing.event != "recovery"
    # What was late is so until it is fresh.
    return (row.event, standing.event) != ("late", "warning") and row.event != standing.event


def _known(conn: Connection, found: Sequence[Standing]) -> dict[Standing, Any]:
    log = notification_log.c
    columns = (log.digest, log.event, log.sent_time, log.sending, log.error)
    by_digest = {standing.notice.digest: standing for standing in found}
    return {
        by_digest[row.digest]: row
        for part in chunks(list(by_digest))
        for row in conn.execute(
            select(*columns).where(of_project(notification_log), log.digest.in_(part))
        )
    }


def _noted(conn: Connection, standing: Standing, row: Any, owner: str) -> bool:
    """Note what has changed; whether that is to be sent."""
    values = _values(standing, owner)
    if row is None:
        first = {"digest": standing.notice.digest}
        return _inserted(conn, values | first) and standing.is_news
    unchanged = of_project(notification_log) & (notification_log.c.digest == row.digest)
    unchanged &= notification_log.c.event == row.event
    on_its_way = row.sending is not None and row.error is None
    if standing.event == "recovery" and not (row.sent_time or on_its_way):
        # Nobody has heard that it was late.
        unsent = notification_log.c.sent_time.is_(None)
        conn.execute(delete(notification_log).where(unchanged, unsent))
        return False
    written = conn.execute(update(notification_log).where(unchanged).values(**values))
    return written.rowcount == 1 and standing.is_news


def _values(standing: Standing, owner: str) -> dict[str, Any]:
    return {
        "recipient": standing.recipient,
        "subject_type": "freshness",
        "subject": standing.table,
        "event": standing.event,
        "job_id": standing.moment,
        "owner": owner,
        "due_time": utc_from_now(GATHERING),
        "create_time": utc_now(),
        "sending": None,
        "tries": 0,
        "sent_time": None if standing.is_news else utc_now(),
        "error": None,
    }


def _inserted(conn: Connection, values: dict[str, Any]) -> bool:
    try:
        with conn.begin_nested():
            conn.execute(insert(notification_log).values(**values))
    except IntegrityError:
        return False  # somebody else was faster
    return True
