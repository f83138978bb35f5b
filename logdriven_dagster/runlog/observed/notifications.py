"""The outbox: notices for recipients, written with the fact and sent later, once.

Source: Sharp ETL, which notifies of a failure if the attempt before did not fail. This module
considers the same window, and its whole history since the last success.
"""

import hashlib
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from sqlalchemy import ColumnElement, Table, and_, delete, insert, or_, select, union_all, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from logdriven_dagster.model.attempts import Status
from logdriven_dagster.model.backoff import compute_back_off
from logdriven_dagster.runlog.schema.attempts import job_log, job_log_archive
from logdriven_dagster.runlog.schema.observations import job_run, notification_log
from logdriven_dagster.runlog.sql.clock import SET_BACK, utc_from_now, utc_now
from logdriven_dagster.runlog.sql.projects import match_project
from logdriven_dagster.runlog.sql.rows import convert_row
from logdriven_dagster.runlog.sql.texts import clean_text

GATHERING = timedelta(minutes=5)
"""The time for which a run collects its notices; then other processes send them, since the run may
be dead."""
OLDEST = timedelta(days=1)
"""The age at which unsent notices are given up."""
MOST_TRIES = 10
_SENDING = timedelta(minutes=2)
"""The maximum duration of one try; the sender of a longer one counts as dead."""
_LONGEST_PAUSE = timedelta(hours=1)
"""The maximum delay of a retry; a later due time results from a clock that was set back since."""
_AT_ONCE = 1000
_ERROR_LENGTH = 2000

SubjectType: TypeAlias = Literal["table", "job", "freshness", "source"]
Event: TypeAlias = Literal["failure", "late", "warning", "outdated", "recovery", "success"]


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice to one recipient about an attempt, a run of a job, or a table's state."""

    recipient: str
    subject_type: SubjectType
    subject: str
    """The table or job."""
    event: Event
    job_id: int
    """The attempt, or the run of the job.

    For freshness, it is the start of a window, in epoch seconds; for sources, the `change_id` of
    the newest change of their files.
    """

    @property
    def digest(self) -> str:
        """The unique key: one notice for each attempt, and one for the last state of freshness."""
        what = self.subject if self.subject_type == "freshness" else str(self.job_id)
        parts = (self.recipient, self.subject_type, what)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Parcel:
    """The notices that go to one recipient in one message."""

    sending: str
    """The name of the message in the log while it is being sent."""
    recipient: str
    notices: tuple[Notice, ...]
    digest: str
    """The identity of a message that is sent again; it follows from its notices."""


def has_window_failed_before(conn: Connection, job_id: int) -> bool:
    """Return True if the attempt's window has failed by itself since it last succeeded.

    Takeovers and discarded attempts are no failures of the window: their leases were not released.
    Neither is a success that was reset by hand.
    """
    this = select(job_log.c.job_schedule_id).where(job_log.c.job_id == job_id).scalar_subquery()
    return _has_failed_since_success(
        conn,
        [
            select(log.c.job_id.label("id"), log.c.status, _match_by_itself(log)).where(
                match_project(log), log.c.job_schedule_id == this, log.c.job_id < job_id
            )
            for log in (job_log, job_log_archive)
        ],
    )


def has_job_failed_before(conn: Connection, job_run_id: int) -> bool:
    """Return True if the job has failed by itself since it last succeeded."""
    this = select(job_run.c.job_code).where(job_run.c.job_run_id == job_run_id).scalar_subquery()
    by_itself = job_run.c.lease_expires_at.is_(None).label("by_itself")
    runs = select(job_run.c.job_run_id.label("id"), job_run.c.status, by_itself)
    earlier = runs.where(
        match_project(job_run), job_run.c.job_code == this, job_run.c.job_run_id < job_run_id
    )
    return _has_failed_since_success(conn, [earlier])


def read_job_runs(conn: Connection, job_run_ids: Collection[int]) -> dict[int, dict[str, Any]]:
    """Return rows of `job_run` by id; timestamps are ISO 8601 in UTC."""
    rows = conn.execute(select(job_run).where(job_run.c.job_run_id.in_(list(job_run_ids))))
    return {row.job_run_id: convert_row(row) for row in rows}


def post(conn: Connection, notices: Sequence[Notice], owner: str) -> None:
    """Put notices into the outbox, in the transaction that records the fact."""
    for notice in notices:
        row = {
            "digest": notice.digest,
            "recipient": notice.recipient,
            "subject_type": notice.subject_type,
            "subject": notice.subject,
            "event": notice.event,
            "job_id": notice.job_id,
            "owner": owner,
            "due_time": utc_from_now(GATHERING),
            "create_time": utc_now(),
        }
        conn.execute(insert(notification_log).values(**row))


def post_new(conn: Connection, notices: Sequence[Notice], owner: str) -> None:
    """Put those notices into the outbox that no process has put there before."""
    digests = {notice.digest: notice for notice in notices}
    log = notification_log.c
    query = select(log.digest).where(match_project(notification_log), log.digest.in_(digests))
    known = set(conn.execute(query).scalars())
    for digest, notice in digests.items():
        if digest not in known:
            with suppress(IntegrityError), conn.begin_nested():  # another process was faster
                post(conn, [notice], owner)


def rename_subject(conn: Connection, old: str, new: str) -> None:
    """Let the notices of a table, also those of its freshness, have its new name."""
    log = notification_log.c
    query = select(log.id, log.recipient, log.subject_type, log.event, log.job_id).where(
        match_project(notification_log), log.subject == old, log.subject_type != "job"
    )
    for row in conn.execute(query).all():
        notice = Notice(row.recipient, row.subject_type, new, row.event, row.job_id)
        values = {"subject": new, "digest": notice.digest}
        conn.execute(update(notification_log).where(log.id == row.id).values(values))


def find_waiting_recipients(
    conn: Connection, recipients: Collection[str], owner: str
) -> Sequence[str]:
    """Return the recipients of notices that this owner should send now."""
    query = select(notification_log.c.recipient).where(_match_due(recipients, owner)).distinct()
    return conn.execute(query.order_by(notification_log.c.recipient)).scalars().all()


def take(conn: Connection, recipient: str, owner: str) -> Parcel | None:
    """Take the due notices of a recipient; other processes do not take them meanwhile.

    Takes at most a thousand notices. Returns None if another process was faster.
    """
    due = _match_due([recipient], owner)
    oldest = select(notification_log.c.id).where(due).order_by(notification_log.c.id)
    ids = conn.execute(oldest.limit(_AT_ONCE)).scalars().all()
    sending = uuid4().hex
    taken = (
        update(notification_log)
        .where(notification_log.c.id.in_(ids), due)
        .values(
            sending=sending,
            owner=None,
            tries=notification_log.c.tries + 1,
            due_time=utc_from_now(_SENDING),
        )
    )
    if not ids or conn.execute(taken).rowcount == 0:
        return None
    mine = select(notification_log).where(_match_sending(sending))
    rows = conn.execute(mine.order_by(notification_log.c.id)).all()
    content = "\n".join((str(rows[0].project_id), *map(_get_identity, rows)))
    return Parcel(
        sending,
        recipient,
        tuple(
            Notice(row.recipient, row.subject_type, row.subject, row.event, row.job_id)
            for row in rows
        ),
        hashlib.sha256(content.encode()).hexdigest()[:32],
    )


def _get_identity(row: Any) -> str:
    """Return the key that distinguishes a row; a row of a table's freshness is sent repeatedly."""
    digest: str = row.digest
    return f"{digest} {row.create_time}" if row.subject_type == "freshness" else digest


def record_sent(conn: Connection, parcel: Parcel) -> None:
    """Record that the notices of a parcel were delivered."""
    mine = _match_sending(parcel.sending)
    conn.execute(update(notification_log).where(mine).values(sent_time=utc_now(), error=None))


def record_failed_delivery(conn: Connection, parcel: Parcel, error: str) -> None:
    """Record a failed delivery: retry with a back-off that doubles, up to an hour.

    Notices are given up after `MOST_TRIES` tries, or when they are older than `OLDEST`.
    """
    mine = _match_sending(parcel.sending)
    tries = conn.execute(select(notification_log.c.tries).where(mine)).scalars().all()
    pause = compute_back_off(max(tries, default=1), timedelta(minutes=1), _LONGEST_PAUSE)
    failure = {"error": clean_text(error, _ERROR_LENGTH), "due_time": utc_from_now(pause)}
    conn.execute(update(notification_log).where(mine).values(**failure))


def forget(conn: Connection, age: timedelta) -> int:
    """Delete notices sent or given up longer ago than `age`, and return their number.

    The record that a table is late stays until it is fresh again.
    """
    log = notification_log.c
    old = log.create_time < utc_from_now(-max(age, OLDEST))
    over = (log.subject_type != "freshness") | (log.event == "recovery")
    return conn.execute(
        delete(notification_log).where(match_project(notification_log), old, over)
    ).rowcount


def _match_sending(sending: str) -> ColumnElement[bool]:
    return match_project(notification_log) & (notification_log.c.sending == sending)


def _match_due(recipients: Collection[str], owner: str) -> ColumnElement[bool]:
    log = notification_log.c
    return and_(
        match_project(notification_log),
        log.sent_time.is_(None),
        log.create_time > utc_from_now(-OLDEST),
        log.tries < MOST_TRIES,
        or_(
            log.owner == owner,
            log.due_time <= utc_now(),
            log.due_time > utc_from_now(_LONGEST_PAUSE + SET_BACK),
        ),
        log.recipient.in_(list(recipients)),
    )


def _match_by_itself(log: Table) -> ColumnElement[bool]:
    return and_(log.c.lease_expires_at.is_(None), log.c.covered.is_(None)).label("by_itself")


def _has_failed_since_success(conn: Connection, attempts: Sequence[Any]) -> bool:
    earlier = union_all(*attempts).subquery("earlier")
    over = earlier.c.status.in_([Status.SUCCESS.value, Status.SKIPPED.value])
    success = select(earlier.c.id).where(over).order_by(earlier.c.id.desc()).limit(1)
    failed = select(earlier.c.id).where(
        earlier.c.status == Status.FAILURE.value, earlier.c.by_itself
    )
    newest = failed.order_by(earlier.c.id.desc()).limit(1)
    last_failure = conn.execute(newest).scalar()
    return last_failure is not None and last_failure > (conn.execute(success).scalar() or 0)
